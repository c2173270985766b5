"""What a config answers: one class, several, numbers, frames, segments or boxes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from mmengine.config import Config

from mmvidformer.config import clip_shape, is_recurrent, leaf_datasets, pipelines, type_name
from mmvidformer.datasets.lists import read_list
from mmvidformer.datasets.own_videos import SPLITS, VideoLists
from mmvidformer.engine.loading import build_meta_model
from mmvidformer.finetune.balance import class_weights
from mmvidformer.tasks.annotations import BACKGROUND, read_spans, read_values

CLIP_LEN = 32  # of recurrent models, whose configs have no length
BOX_META = ("img_shape", "video_id", "timestamp")
RATES = ("frame_interval", "target_fps")  # of samplers
MAX_VIEWS = 8  # clips of a video that run at once
SEGMENT_CLIPS = 4  # successive clips of a video in training
META = (
    *("num_clips", "frame_inds", "frame_step", "start_index", "total_frames", "avg_fps"),
    *("spans", "background"),
)


class Classes:
    """One class a video: the config as it is.

    Attributes:
        suffix: Suffix of the lists.
        least: Least number of classes, or values.
        balances: Ways to balance classes: weights of the loss, or draws of the videos.
        head: Class of the head; this and the next three replace those of the config.
        dataset: Arguments of the datasets.
        metric: Config of the metric.
        best: Result by which the best checkpoint is kept, the greatest.
    """

    suffix, least = "txt", 2
    balances: tuple[str, ...] = ("weights", "sampling")
    head = best = ""
    dataset: ClassVar[Mapping[str, Any]] = {}
    metric: ClassVar[Mapping[str, Any]] = {}

    def change(self, cfg: Config, lists: VideoLists) -> None:
        """Change the config for the lists, beside what all tasks have in common."""

    def counts(self, lists: VideoLists) -> np.ndarray:
        """Return the size of each class in the training list."""
        rows = read_list(lists.root / "train.txt", lists.delimiter)
        numbers = [int(n) for text, _ in rows for n in text.strip().split(lists.delimiter)[1:]]
        return np.bincount(numbers, minlength=len(lists.classes))


class Labels(Classes):
    """Several classes a video."""

    least, head, best = 1, "MultiLabelHead", "acc/mean_average_precision"
    dataset: ClassVar = dict(multi_class=True)
    metric: ClassVar = dict(type="AccMetric", metric_list=("mean_average_precision",))

    def change(self, cfg: Config, lists: VideoLists) -> None:
        """Tell the datasets the number of classes."""
        for _, _, dataset in _datasets(cfg):
            dataset.num_classes = len(lists.classes)


class Number(Classes):
    """One number a video, or several."""

    suffix, least, balances = "csv", 1, ()
    head, best = "NumberHead", "number/r2"
    dataset: ClassVar = dict(type="mmvidformer.ValueDataset")
    metric: ClassVar = dict(type="mmvidformer.NumberMetric")

    def change(self, cfg: Config, lists: VideoLists) -> None:
        """Set the scale of the training data."""
        rows = [values for values, _ in read_values(lists.root / "train.csv")[1].values()]
        mean, std = np.mean(rows, axis=0), np.std(rows, axis=0)
        cfg.model.cls_head.update(mean=mean.tolist(), std=np.where(std > 0, std, 1).tolist())


class Frames(Classes):
    """A class at each step of time."""

    suffix, balances = "csv", ("weights",)
    head, best = "FramesHead", "frames/accuracy"
    dataset: ClassVar = dict(type="mmvidformer.SpanDataset")
    metric: ClassVar = dict(type="mmvidformer.FramesMetric")
    sampler: ClassVar[Mapping[str, Any]] = {}  # what is special to the task
    transforms: ClassVar[Sequence[Mapping]] = ({"type": "mmvidformer.LabelFrames"},)

    def change(self, cfg: Config, lists: VideoLists) -> None:
        """Cover the videos with clips, and keep the tokens of the model."""
        for split, loader, dataset in _datasets(cfg):
            for pipeline in pipelines(dataset):
                self._cover(cfg, pipeline, test_mode=split != "train")
            if split != "train":
                loader.batch_size = 1  # videos differ in the number of their clips
        if not is_recurrent(cfg):
            cfg.model.backbone.pool = "none"
            limits = {"max_testing_views": MAX_VIEWS, **(cfg.model.get("test_cfg") or {})}
            cfg.model.test_cfg = limits

    def counts(self, lists: VideoLists) -> np.ndarray:
        """Return the seconds of each class in the training list, up to the last span of a video."""
        seconds = dict.fromkeys(lists.classes, 0.0)
        for spans in read_spans(lists.root / "train.csv").values():
            for one in spans:
                seconds[one.label] = seconds.get(one.label, 0.0) + one.end - one.start
            if BACKGROUND in seconds and spans:
                covered = sum(one.end - one.start for one in spans)
                seconds[BACKGROUND] += max(one.end for one in spans) - covered
        return np.array([seconds[name] for name in lists.classes])

    def _cover(self, cfg: Config, pipeline: list[dict], test_mode: bool) -> None:
        """Replace the sampler of a pipeline by one that knows the time of each frame."""
        sampler = next((step for step in pipeline if step.get("frame_interval")), None)
        if sampler is None:
            names = ", ".join(map(type_name, pipeline))
            raise ValueError(
                f"frames need a sampler with a frame_interval, such as SampleFrames, got {names}"
            )
        kept = {key: sampler[key] for key in RATES if key in sampler}
        length = cfg.model.backbone.get("clip_len") or sampler.get("clip_len") or CLIP_LEN
        kept |= {**self.sampler, "clip_len": length, "test_mode": test_mode}
        own = dict(type="mmvidformer.CoverFrames", **kept)
        place = pipeline.index(sampler)
        pipeline[place : place + 1] = [own, *([] if test_mode else map(dict, self.transforms))]
        pipeline[-1]["meta_keys"] = (*pipeline[-1].get("meta_keys", ()), *META)


class Segments(Frames):
    """Segments: start, end, class and score of each."""

    least, balances = 1, ()
    head, best = "SegmentsHead", "segments/mAP"
    dataset: ClassVar = dict(type="mmvidformer.SpanDataset", overlap=True)
    metric: ClassVar = dict(type="mmvidformer.SegmentsMetric")
    sampler: ClassVar = dict(overlap=0.0, clips=SEGMENT_CLIPS)
    transforms: ClassVar = ()


class Boxes(Classes):
    """The classes of boxes at moments, by MMAction2's ``AVAMetric``."""

    suffix, least, balances = "csv", 1, ()
    head, best = "BoxesHead", "mAP/overall"
    dataset: ClassVar = dict(type="mmvidformer.BoxDataset")
    metric: ClassVar = dict(type="mmvidformer.BoxesMetric", exclude_file=None, action_thr=0.0)

    def change(self, cfg: Config, lists: VideoLists) -> None:
        """Read whole frames around the moments, flipped in training, and keep all tokens.

        Raises:
            ValueError: If the model is recurrent, or pools the places of a frame.
        """
        if is_recurrent(cfg):
            raise ValueError(f"boxes need a VideoTransformer, got {cfg.model.type}")
        if any(one.frames == "pool" for one in build_meta_model(cfg).backbone.configs):
            what = f"{type_name(cfg.model.backbone)} pools the places of each frame"
            raise ValueError(f"boxes need tokens at several places, but {what}")
        cfg.model.backbone.pool = "none"
        _, frames, height, width = clip_shape(cfg)
        cfg.model.data_preprocessor.pop("augment", None)  # it knows no boxes
        for split, _, dataset in _datasets(cfg):
            steps = [step for step in dataset.pipeline if step.get("frame_interval")]
            options = {k: v for step in steps[:1] for k, v in step.items() if k in RATES}
            flip = [dict(type="Flip", flip_ratio=0.5)] if split == "train" else []
            dataset.pipeline = [
                dict(type="mmvidformer.VideoInit"),
                dict(type="mmvidformer.FramesAround", clip_len=frames, **options),
                dict(type="mmvidformer.VideoDecode"),
                dict(type="Resize", scale=(width, height), keep_ratio=False),
                *flip,
                dict(type="FormatShape", input_format="NCTHW"),
                dict(type="PackActionInputs", meta_keys=BOX_META),
            ]
        names = lists.root / "label_map.pbtxt"  # for the metric
        items = (
            f'item {{\n  name: "{name}"\n  id: {number}\n}}\n'
            for number, name in enumerate(lists.classes, start=1)
        )
        names.write_text("".join(items), encoding="utf-8")
        for split in ("val", "test"):
            if metric := cfg.get(f"{split}_evaluator"):
                metric.ann_file = cfg[f"{split}_dataloader"].dataset.ann_file
                metric.update(label_file=str(names), num_classes=len(lists.classes) + 1)


KINDS = (Classes, Labels, Number, Frames, Segments, Boxes)
TASKS: Mapping[str, Classes] = {kind.__name__.lower(): kind() for kind in KINDS}


def _datasets(cfg: Config) -> Iterator[tuple[str, Any, Any]]:
    """Yield the configs of all datasets, with their splits and dataloaders."""
    for split in SPLITS:
        if loader := cfg.get(f"{split}_dataloader"):
            yield from ((split, loader, leaf) for leaf in leaf_datasets(loader.dataset))


def set_balance(cfg: Config, task: str, how: str, lists: VideoLists) -> str:
    """Balance the classes of training by weights or sampling; returns a log line.

    Raises:
        ValueError: If the task cannot be balanced so.
    """
    row = TASKS[task]
    if how not in row.balances:
        known = ", ".join(row.balances) or "not available"
        raise ValueError(f"balance of the task {task} is {known}, got {how!r}")
    counts = row.counts(lists)
    rarest, largest = (f"{counts[counts > 0].min():g}", f"{counts.max():g}")
    if how == "sampling":
        cfg.train_dataloader.sampler = dict(type="mmvidformer.BalancedSampler")
    else:
        default = "BCELossWithLogits" if task == "labels" else "CrossEntropyLoss"
        loss = cfg.model.cls_head.get("loss_cls") or dict(type=default)
        if type_name(loss) != default:
            raise ValueError(f"weights need the loss {default}, got {type_name(loss)}")
        cfg.model.cls_head.loss_cls = {**loss, "class_weight": class_weights(counts)}
    unit = "seconds" if task == "frames" else "videos"
    return f"balanced by {how}: classes have {rarest} to {largest} {unit}"


def set_task(cfg: Config, task: str, lists: VideoLists) -> list[str]:
    """Change a config, which already reads the lists, for a task; returns log lines."""
    row, preprocessor = TASKS[task], cfg.model.get("data_preprocessor") or {}
    if not row.head:
        return []
    before, head = set(preprocessor), f"mmvidformer.{row.head}"
    for _, _, dataset in _datasets(cfg):
        dataset.update(row.dataset, metainfo=dict(classes=list(lists.classes)))
    for split in ("val", "test"):
        if cfg.get(f"{split}_evaluator"):
            cfg[f"{split}_evaluator"] = dict(row.metric)
    if cfg.get("val_evaluator"):
        cfg.default_hooks.checkpoint.update(save_best=row.best, rule="greater")
    channels = cfg.model.cls_head.in_channels
    cfg.model.cls_head = dict(type=head, num_classes=len(lists.classes), in_channels=channels)
    preprocessor.pop("blending", None)  # of labels
    row.change(cfg, lists)
    lost = sorted(before - set(preprocessor))
    notes = [f"task {task}: {head}, by {row.best}"]
    return notes + [f"{name} is removed: it does not know these annotations" for name in lost]
