"""Datasets and numbers of classes of a config, for one's own lists."""

from mmaction.datasets import VideoDataset
from mmengine.config import Config

from mmvidformer.config import config_scope, leaf_datasets, type_name
from mmvidformer.datasets.own_videos import VideoLists
from mmvidformer.registry import DATASETS


def use_lists(cfg: Config, lists: VideoLists) -> list[str]:
    """Let the dataloaders of a config read one's own lists, with their pipelines.

    If ``test.txt`` is empty, testing reads ``val.txt``; if ``val.txt`` is empty, there is no
    validation. Wrappers such as ``RepeatDataset`` are removed. Returns log lines.

    Raises:
        ValueError: If the config does not read lists of videos with one label each.
    """
    notes = []
    sources = {"train": "train", "val": "val", "test": "test" if lists.counts["test"] else "val"}
    for split, source in sources.items():
        loader = cfg[f"{split}_dataloader"]
        loader.dataset = dataset = next(leaf_datasets(loader.dataset))
        with config_scope(cfg):
            kind = DATASETS.get(dataset.type)
        if kind is None or not issubclass(kind, VideoDataset):
            raise ValueError(
                f"the config must read a VideoDataset, with one class per video, got {dataset.type}"
            )
        if not lists.counts[source]:
            continue
        if kind.__name__ == "ClassSubsetDataset":
            dataset.type = "VideoDataset"
            del dataset["class_file"]
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
        notes.append("test.txt is empty: mmvidformer test will read val.txt")
    steps = (cfg.model.get("data_preprocessor") or {}).get("augment") or ()
    if any([step.pop("label_map", None) for step in steps]):
        notes.append("flips no longer swap the classes of the config's own data")
    return notes


def set_classes(cfg: Config, names: tuple[str, ...]) -> None:
    """Set the number of classes throughout a config, and store their names as ``class_names``.

    Top-k accuracies with k of at least the number of classes are removed; they are always 100%.

    Raises:
        ValueError: If there is only one class.
    """
    count, head = len(names), cfg.model.cls_head
    if count < 2:
        raise ValueError(f"at least two classes are needed, got {list(names)}")
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
            if type_name(metric) == "AccMetric":
                options = metric.get("metric_options", {})
                accuracy = options.get("top_k_accuracy", {})
                topk = _below(accuracy.get("topk", (1, 5)), count)
                metric.metric_options = {**options, "top_k_accuracy": {**accuracy, "topk": topk}}
    for split in ("train", "val", "test"):
        for leaf in leaf_datasets((cfg.get(f"{split}_dataloader") or {}).get("dataset") or {}):
            leaf.pop("metainfo", None)  # class names of the config's own data
    cfg.class_names = list(names)


def _below(topk: int | tuple[int, ...], count: int) -> tuple[int, ...]:
    topk = (topk,) if isinstance(topk, int) else topk
    return tuple(k for k in topk if k < count) or (1,)
