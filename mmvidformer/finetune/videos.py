"""A config's data sets and numbers of classes, for lists of one's own."""

from collections.abc import Iterator

from mmaction.datasets import VideoDataset
from mmengine.config import Config

from mmvidformer.config import config_scope
from mmvidformer.datasets.class_subset import ClassSubsetDataset
from mmvidformer.datasets.own_videos import VideoLists
from mmvidformer.registry import DATASETS

# Arguments of ClassSubsetDataset beyond VideoDataset's.
SUBSET = ("class_file", "label_map", "expected_classes", "expected_clips")


def use_lists(cfg: Config, lists: VideoLists) -> list[str]:
    """Let the loaders of ``cfg`` read one's own lists, by the pipelines that they have.

    Validation reads ``val.txt`` and testing ``test.txt``; where that is empty, testing reads
    ``val.txt``, and without ``val.txt`` nothing is validated. Names of classes go to
    ``cfg.class_names``.

    Args:
        cfg: A config of a recogniser of videos with one label; changed.
        lists: The lists.

    Returns:
        What is worth knowing, in lines.

    Raises:
        ValueError: If the config's data are no lists of videos with one label each.
    """
    notes = []
    read = {"train": "train", "val": "val", "test": "test" if lists.counts["test"] else "val"}
    for split, source in read.items():
        loader = cfg.get(f"{split}_dataloader")
        if loader is None:
            raise ValueError(f"the config has no {split}_dataloader")
        while "dataset" in loader.dataset:  # of a config that a run has written: a wrapper
            loader.dataset = loader.dataset.dataset
        dataset = loader.dataset
        _check_dataset(cfg, dataset)
        if not lists.counts[source]:
            continue
        if _class_of(cfg, dataset) is ClassSubsetDataset:
            dataset.type = "VideoDataset"
            for name in SUBSET:
                dataset.pop(name, None)
        dataset.ann_file = str(lists.root / f"{source}.txt")
        dataset.data_prefix = {"video": lists.prefix}
        dataset.delimiter = lists.delimiter
    if not lists.counts["val"]:
        notes.append("no validation: val.txt is empty")
        cfg.val_cfg = cfg.val_dataloader = cfg.val_evaluator = None
        cfg.default_hooks.checkpoint.save_best = None
        if not lists.counts["test"]:
            notes.append("no test: test.txt is empty too")
            cfg.test_cfg = cfg.test_dataloader = cfg.test_evaluator = None
    elif not lists.counts["test"]:
        notes.append("test.txt is empty: tools/test.py will read val.txt")
    for step in _steps(cfg):
        if step.pop("flip_label_map", None) is not None:
            notes.append("the flip no longer swaps the classes of the config's own data")
    return notes


def _class_of(cfg: Config, dataset: dict) -> type:
    with config_scope(cfg):
        return DATASETS.get(dataset.type) if isinstance(dataset.type, str) else dataset.type


def _check_dataset(cfg: Config, dataset: dict) -> None:
    kind = _class_of(cfg, dataset)
    if kind is None or not issubclass(kind, VideoDataset):
        raise ValueError(
            f"the config reads a {dataset.type}; lists of videos with one class each go with "
            "configs that read VideoDataset, such as vivit_fe_k400, timesformer_b_k400, "
            "feature_fixation_k400 and horst_early_motion"
        )


def _steps(cfg: Config) -> Iterator[dict]:
    """Transforms of the training pipeline: of the loader, and the variable that it came from."""
    yield from cfg.train_dataloader.dataset.pipeline
    yield from cfg.get("train_pipeline") or ()


def set_classes(cfg: Config, names: tuple[str, ...]) -> None:
    """Set the number of classes wherever ``cfg`` has one, and keep their names.

    Top-k accuracies with k as large as the number of classes are left out: they are always 100%.

    Args:
        cfg: Changed.
        names: Names of the classes.

    Raises:
        ValueError: If the config's head does not give one label, or there is only one class.
    """
    count = len(names)
    head = cfg.model.get("cls_head", {})
    if "num_classes" not in head:
        raise ValueError(f"the head {head.get('type')} has no num_classes: one label is needed")
    if count < 2:
        raise ValueError(f"classes to tell apart are needed, there is only {list(names)}")
    head.num_classes = count
    head.topk = _below(head.get("topk", (1, 5)), count)
    blending = cfg.model.get("data_preprocessor", {}).get("blending")
    if blending:
        for one in (blending, *blending.get("augments", ())):
            if "num_classes" in one:
                one.num_classes = count
    for split in ("val", "test"):
        metrics = cfg.get(f"{split}_evaluator") or ()
        for metric in metrics if isinstance(metrics, list | tuple) else (metrics,):
            if metric.type.endswith(("AccMetric", "VideoAccuracy")):
                options = metric.get("metric_options", {})
                accuracy = options.get("top_k_accuracy", {})
                topk = _below(accuracy.get("topk", (1, 5)), count)
                metric.metric_options = {**options, "top_k_accuracy": {**accuracy, "topk": topk}}
    cfg.class_names = list(names)


def _below(topk: int | tuple[int, ...], count: int) -> tuple[int, ...]:
    topk = (topk,) if isinstance(topk, int) else topk
    return tuple(k for k in topk if k < count) or (1,)
