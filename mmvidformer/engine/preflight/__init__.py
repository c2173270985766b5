"""Checks of annotations, config and weights before the first step."""

from collections.abc import Mapping, Sequence

from mmengine.config import Config
from mmengine.dist import get_world_size, is_main_process
from mmengine.hooks import Hook
from mmengine.runner import BaseLoop, Runner

from mmvidformer.config import leaf_datasets, type_name
from mmvidformer.engine.launch import describe
from mmvidformer.engine.process_group import on_main_process
from mmvidformer.registry import HOOKS


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
    # Here, since every look-up of a hook imports this module.
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
        sizes = []
        for leaf in leaf_datasets(loader["dataset"]):
            if model is not None:
                for is_error, problem in compare_clips(cfg, leaf, model):
                    (errors if is_error else warnings).append(problem)
            try:
                annotations = Annotations(cfg, leaf)
            except Exception as error:  # as do datasets
                errors.append(f"{split}_dataloader.dataset, {type_name(leaf)}: {describe(error)}")
                continue
            sizes.append(annotations.size)
            errors += annotations.wrong_labels(head_classes(cfg), optional=split == "test")
            errors += annotations.missing(_allowed_share(cfg, loader["dataset"]))
            warnings += [*annotations.duplicates(), *annotations.outside()]
            warnings += annotations.unlabeled() if split == "test" else ()
        if split == "train":
            errors += wrong_batch(loader, sizes, world_size)
    # Validation and test often share a file.
    return list(dict.fromkeys(errors)), list(dict.fromkeys(warnings))


def head_classes(cfg: Config) -> tuple[int, ...]:
    """Number of classes of each task of the head, in the order of the labels; empty if unknown."""
    head = (cfg.get("model") or {}).get("cls_head") or {}
    if isinstance(head.get("tasks"), Mapping):
        return tuple(head["tasks"].values())
    return () if head.get("num_classes") is None else (head["num_classes"],)


def _allowed_share(cfg: Config, dataset: Mapping) -> float:
    """Share of the samples that may be bad."""
    hook = (cfg.get("default_hooks") or {}).get("bad_videos")
    for policy in (dataset, hook or {}, cfg.get("bad_videos") or {}):
        if policy.get("on_bad_video") == "resample":
            return policy.get("max_bad_share", 0.05)
    return 0.0


def check_run(cfg: Config, splits: Sequence[str], hint: str, weights: bool = True) -> list[str]:
    """Check the setup of a run in the main process, for all processes, and return the warnings.

    Raises:
        WrongSetup: If there are errors. The message ends with the hint how to skip the checks.
            Other processes than the main one exit then.
    """

    def refuse() -> list[str]:
        errors, warnings = check(cfg, splits, get_world_size(), weights)
        if errors:
            raise WrongSetup(errors, hint)
        return warnings

    warnings = on_main_process(refuse)
    return warnings if is_main_process() else []


@HOOKS.register_module()
class PreflightHook(Hook):
    """Refuses a run with a wrong setup before its first step.

    Our tools check before they build a runner and write anything, and leave only the weights to the
    hook: those from an address are not known before.

    Args:
        data: Whether to check config and annotations (``check``).
        weights: Whether loaded weights must fit the model. Testing and resuming need an exact
            fit; training with ``load_from`` starts with what fits, if that is half of the backbone.
    """

    priority = "VERY_HIGH"  # before other hooks use loaded weights

    def __init__(self, data: bool = True, weights: bool = True) -> None:
        self.data, self.weights = data, weights
        self.started = False

    def before_train(self, runner: Runner) -> None:
        """Check the data of training and validation."""
        self._check(runner, ("train", "val"))

    def before_test(self, runner: Runner) -> None:
        """Check the data of the test."""
        self._check(runner, ("test",))

    def _check(self, runner: Runner, splits: Sequence[str]) -> None:
        self.started = True
        hint = "default_hooks.preflight=None skips the checks"
        for warning in check_run(runner.cfg, splits, hint, weights=False) if self.data else ():
            runner.logger.warning(warning)

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Compare loaded weights with the model, and drop those of another shape."""
        if not self.weights or not isinstance(runner.cfg.get("model"), Mapping):
            return
        from mmvidformer.engine.loading import build_meta_model, compare_weights

        training = isinstance(runner._train_loop, BaseLoop)
        purpose = "resume" if runner._resume else "start" if training else "evaluation"
        source = runner._load_from or "the checkpoint"
        fit = compare_weights(build_meta_model(runner.cfg), checkpoint)
        fit.check(source, purpose)
        if fit.misfits():
            runner.logger.warning(f"{source}: {fit}; what does not fit starts anew")
        weights = checkpoint.get("state_dict", checkpoint)
        for name in [n for n in weights if n.removeprefix("module.") in fit.misfits()]:
            del weights[name]
