from typing import TYPE_CHECKING

from mmvidformer.config import leaf_datasets, type_name
from mmvidformer.registry import DATASETS

if TYPE_CHECKING:  # takes seconds to import
    from mmengine.runner import Runner

RAISE = {"on_bad_video": "raise"}


def apply_policy(runner: "Runner") -> None:
    """Apply the policy ``bad_videos`` of a runner's config, before its datasets are built.

    Puts ``mmvidformer.SafeDataset`` around each dataset that is none, and its metrics into a
    ``mmvidformer.BadVideoEvaluator``. Without a policy, or with an evaluator of another type, bad
    videos raise. Lists of MMAction2's ``VideoDataset`` are read by ``ListedVideoDataset``, which
    has the same samples. ``runner.cfg`` is not changed, since MMAction2's tools read what a run
    saves.
    """
    from mmaction.datasets import VideoDataset  # takes seconds, too

    for loader, name in (
        (runner._train_dataloader, ""),
        (runner._val_dataloader, "_val_evaluator"),
        (runner._test_dataloader, "_test_evaluator"),
    ):
        policy = runner.cfg.get("bad_videos") or RAISE
        if not loader:
            continue
        dataset = loader["dataset"]
        is_set = type_name(dataset) == "SafeDataset"
        if name and (dataset if is_set else policy).get("on_bad_video") != "raise":
            evaluator = getattr(runner, name)
            whole = isinstance(evaluator, dict) and "metrics" in evaluator
            if whole and type_name(evaluator) not in ("", "Evaluator", "BadVideoEvaluator"):
                policy = RAISE
                if is_set:
                    loader["dataset"] = {**dataset, **RAISE}
            else:
                metrics = evaluator["metrics"] if whole else evaluator
                wrapper = dict(type="mmvidformer.BadVideoEvaluator", metrics=metrics)
                setattr(runner, name, wrapper)
        if not is_set:
            loader["dataset"] = dict(type="mmvidformer.SafeDataset", dataset=dataset, **policy)
        for leaf in leaf_datasets(loader["dataset"]):
            if DATASETS.get(leaf["type"]) is VideoDataset:  # its workers would copy the list
                leaf["type"] = "mmvidformer.ListedVideoDataset"
