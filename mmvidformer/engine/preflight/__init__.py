"""Checks of annotations, config and weights before the first step."""

from collections.abc import Mapping, Sequence

from mmengine.config import Config
from mmengine.dist import get_world_size, is_main_process

from mmvidformer.config import leaf_datasets, type_name
from mmvidformer.engine.errors import describe


class WrongSetup(ValueError):
    """A run that should not start. The message lists what is wrong."""

    for_user = True

    def __init__(self, errors: Sequence[str], hint: str) -> None:
        count = "1 problem" if len(errors) == 1 else f"{len(errors)} problems"
        super().__init__("\n- ".join([f"{count} found before the start", *errors]) + f"\n{hint}")


def check(
    cfg: Config,
    splits: Sequence[str] = ("train", "val", "test"),
    world_size: int = 1,
    weights: bool = True,
) -> tuple[list[str], list[str]]:
    """Find what is wrong with a config, its annotation files and its weights.

    Reads annotation files, lists the folders of the data, and reads names and shapes of weights.
    Opens no video, and writes nothing.

    Args:
        cfg: Complete config.
        splits: Dataloaders to check, of those that the config has.
        world_size: Number of processes.
        weights: Whether to check ``cfg.load_from``.

    Returns:
        Errors, which cannot run or would train on something else than meant, and warnings, which
        run but may be mistakes.
    """
    # Not above, since each look-up of a hook imports this module.
    from mmvidformer.engine.loading import build_meta_model
    from mmvidformer.engine.preflight.annotations import Annotations
    from mmvidformer.engine.preflight.settings import check_weights, compare_clips, wrong_batch

    errors: list[str] = []
    warnings: list[str] = []
    model = None
    try:
        if cfg.get("model"):
            model = build_meta_model(cfg)
            purpose = "resume" if cfg.get("resume") else "start"
            if weights:
                check_weights(cfg, model, purpose if "train" in splits else "evaluation")
    except Exception as error:  # models and readers of checkpoints raise many kinds
        errors.append(describe(error))
    for split in splits:
        loader = cfg.get(f"{split}_dataloader")
        if not loader:
            continue
        if not loader.get("dataset"):
            errors.append(f"{split}_dataloader has no dataset; set it to None to go without")
            continue
        for leaf in leaf_datasets(loader["dataset"]):
            try:
                for is_error, problem in compare_clips(cfg, leaf, model):
                    (errors if is_error else warnings).append(problem)
                annotations = Annotations(cfg, leaf)
            except Exception as error:  # as do datasets
                errors.append(f"{split}_dataloader.dataset, {type_name(leaf)}: {describe(error)}")
                continue
            errors += annotations.wrong_labels(optional=split == "test")
            errors += annotations.missing(_allowed_share(cfg, loader["dataset"]))
            warnings += [*annotations.duplicates(), *annotations.outside()]
            if split == "train":
                errors += wrong_batch(loader, annotations.size, world_size)
    # Validation and test often share a file.
    return list(dict.fromkeys(errors)), list(dict.fromkeys(warnings))


def _allowed_share(cfg: Config, dataset: Mapping) -> float:
    """Share of the samples that may be bad."""
    policy = cfg.get("bad_videos") or {"on_bad_video": "raise"}
    if type_name(dataset) == "SafeDataset":
        policy = dataset
    resample = policy.get("on_bad_video", "resample") == "resample"
    return policy.get("max_bad_share", 0.05) if resample else 0.0


def check_run(cfg: Config, splits: Sequence[str], hint: str, weights: bool = True) -> list[str]:
    """Check the setup of a run in the main process, for all processes, and return the warnings.

    Raises:
        WrongSetup: If there are errors. The message ends with the hint how to skip the checks.
        SystemExit: Then, if there are several processes.
    """

    def refuse() -> list[str]:
        errors, warnings = check(cfg, splits, get_world_size(), weights)
        if errors:
            raise WrongSetup(errors, hint)
        return warnings

    return refuse() if is_main_process() else []
