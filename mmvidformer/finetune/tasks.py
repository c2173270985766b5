"""What a config answers: one class, several, numbers, frames, segments or boxes."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import torch
from mmengine.config import Config

from mmvidformer.config import clip_shape, is_recurrent, pipelines, type_name
from mmvidformer.datasets.lists import read_list
from mmvidformer.datasets.own_videos import VideoLists
from mmvidformer.engine.checkpointing.loop import ResumableSampler
from mmvidformer.engine.loading import build_meta_model
from mmvidformer.engine.pipelines import datasets_in
from mmvidformer.registry import DATA_SAMPLERS
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
        dataset: What datasets get; of those that read csv files the type.
        head: Type of the head; None: that of the config.
        metric: Config of the metric; None: that of the config, or what ``change`` sets.
        best: Result by which the best checkpoint is kept, the greatest; None: as in the config.
    """

    suffix, least = "txt", 2
    balances: tuple[str, ...] = ("weights", "sampling")
    dataset: Mapping = {}
    head: str | None = None
    metric: Mapping | None = None
    best: str | None = None

    def change(self, cfg: Config, lists: VideoLists) -> None:
        """Change what is special to the task, after ``set_task`` set datasets and head."""

    def counts(self, lists: VideoLists) -> np.ndarray:
        """Return the size of each class in the training list."""
        rows = read_list(lists.root / "train.txt", lists.delimiter)
        numbers = [int(n) for text, _ in rows for n in text.strip().split(lists.delimiter)[1:]]
        return np.bincount(numbers, minlength=len(lists.classes))


class Labels(Classes):
    """Several classes a video."""

    least, dataset, head = 1, dict(multi_class=True), "mmvidformer.MultiLabelHead"
    metric = dict(type="AccMetric", metric_list=("mean_average_precision",))
    best = "acc/mean_average_precision"

    def change(self, cfg: Config, lists: VideoLists) -> None:
        """Set the number of classes of the datasets."""
        for _, _, dataset in datasets_in(cfg):
            dataset.num_classes = len(lists.classes)


class Number(Classes):
    """One number a video, or several."""

    suffix, least, balances = "csv", 1, ()
    dataset, head = dict(type="mmvidformer.ValueDataset"), "mmvidformer.NumberHead"
    metric, best = dict(type="mmvidformer.NumberMetric"), "number/r2"

    def change(self, cfg: Config, lists: VideoLists) -> None:
        """Give the head the scale of the training data."""
        rows = [values for values, _ in read_values(lists.root / "train.csv")[1].values()]
        mean, std = np.mean(rows, axis=0), np.std(rows, axis=0)
        cfg.model.cls_head.update(mean=mean.tolist(), std=np.where(std > 0, std, 1).tolist())


class Frames(Classes):
    """A class at each step of time."""

    suffix, balances = "csv", ("weights",)
    dataset, head = dict(type="mmvidformer.SpanDataset"), "mmvidformer.FramesHead"
    metric, best = dict(type="mmvidformer.FramesMetric"), "frames/accuracy"
    sampler: Mapping = {}  # what is special to the task
    transforms: Sequence[Mapping] = ({"type": "mmvidformer.LabelFrames"},)

    def change(self, cfg: Config, lists: VideoLists) -> None:
        """Cover the videos with clips, and keep the tokens of the model."""
        for split, loader, dataset in datasets_in(cfg):
            for pipeline in pipelines(dataset):
                self._cover(cfg, pipeline, test_mode=split != "train")
            if split != "train":
                loader.batch_size = 1  # videos differ in the number of their clips
        if not is_recurrent(cfg):
            cfg.model.backbone.pool = "none"
            limits = cfg.model.get("test_cfg") or {}
            cfg.model.test_cfg = {"max_testing_views": MAX_VIEWS, **limits}

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
            wanted = "a sampler with a frame_interval, such as SampleFrames"
            raise ValueError(f"frames need {wanted}, got {', '.join(map(type_name, pipeline))}")
        own = {"type": "mmvidformer.CoverFrames", "test_mode": test_mode, **self.sampler}
        own |= {key: sampler[key] for key in RATES if key in sampler}
        own["clip_len"] = cfg.model.backbone.get("clip_len") or sampler.get("clip_len") or CLIP_LEN
        place = pipeline.index(sampler)
        pipeline[place : place + 1] = [own, *([] if test_mode else map(dict, self.transforms))]
        pipeline[-1]["meta_keys"] = (*pipeline[-1].get("meta_keys", ()), *META)


class Segments(Frames):
    """Segments: start, end, class and score of each."""

    least, balances = 1, ()
    dataset = dict(type="mmvidformer.SpanDataset", overlap=True)
    head, metric = "mmvidformer.SegmentsHead", dict(type="mmvidformer.SegmentsMetric")
    best, sampler, transforms = "segments/mAP", dict(overlap=0.0, clips=SEGMENT_CLIPS), ()


class Boxes(Classes):
    """The classes of boxes at moments."""

    suffix, least, balances, best = "csv", 1, (), "mAP/overall"
    dataset, head = dict(type="mmvidformer.BoxDataset"), "mmvidformer.BoxesHead"

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
        names = lists.root / "label_map.pbtxt"  # which MMAction2's ``AVAMetric`` reads
        items = (f'item {{\n  name: "{x}"\n  id: {i}\n}}\n' for i, x in enumerate(lists.classes, 1))
        names.write_text("".join(items), encoding="utf-8")
        metric = dict(type="mmvidformer.BoxesMetric", exclude_file=None, label_file=str(names))
        metric |= dict(action_thr=0.0, num_classes=len(lists.classes) + 1)
        for split, _, dataset in datasets_in(cfg):
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
            if cfg.get(f"{split}_evaluator"):
                cfg[f"{split}_evaluator"] = dict(metric, ann_file=dataset.ann_file)


KINDS = (Classes, Labels, Number, Frames, Segments, Boxes)
TASKS: Mapping[str, Classes] = {one.__name__.lower(): one() for one in KINDS}


def class_weights(counts: Sequence[float] | np.ndarray) -> list[float]:
    """Return weights in inverse proportion to the sizes of classes, with mean 1 over the samples.

    Classes without samples get weight 1.
    """
    sizes = np.asarray(counts, dtype=float)
    mean = sizes.sum() / (sizes > 0).sum()
    return (mean / np.where(sizes > 0, sizes, mean)).round(6).tolist()


@DATA_SAMPLERS.register_module()
class BalancedSampler(ResumableSampler):
    """Draw videos with replacement so that all classes are about equally frequent.

    A video of several classes is drawn as often as its rarest class needs, one of none as often as
    the average video. Arguments are those of ``ResumableSampler``.
    """

    def order(self, generator: torch.Generator) -> torch.Tensor:
        """Draw the samples of an epoch, as many as there are."""
        # torch.multinomial takes at most 2^24 samples.
        ends = self.weights.cumsum(0)
        draws = torch.rand(len(ends), dtype=torch.double, generator=generator) * ends[-1]
        return torch.searchsorted(ends, draws, right=True).clamp_(max=len(ends) - 1)

    @cached_property
    def weights(self) -> torch.Tensor:
        """How often each sample is drawn, relative to the others (samples,)."""
        samples: list[int] = []  # that have a class, once for each of theirs
        classes: list[int] = []
        for number in range(len(self.dataset)):
            label = self.dataset.get_data_info(number)["label"]
            # A vector of zeros and ones, or a number.
            is_vector = isinstance(label, torch.Tensor)
            labels = label.nonzero()[:, 0].tolist() if is_vector else [int(label)]
            classes += labels
            samples += [number] * len(labels)
        weights = np.zeros(len(self.dataset))
        of_classes = np.array(class_weights(np.bincount(classes)))
        np.maximum.at(weights, samples, of_classes[classes])
        return torch.from_numpy(np.where(weights > 0, weights, 1.0))


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
    if how == "sampling":
        cfg.train_dataloader.sampler = dict(type="mmvidformer.BalancedSampler")
    else:
        default = "BCELossWithLogits" if task == "labels" else "CrossEntropyLoss"
        loss = cfg.model.cls_head.get("loss_cls") or dict(type=default)
        if type_name(loss) != default:
            raise ValueError(f"weights need the loss {default}, got {type_name(loss)}")
        cfg.model.cls_head.loss_cls = {**loss, "class_weight": class_weights(counts)}
    sizes = f"{counts[counts > 0].min():g} to {counts.max():g}"
    return f"balanced by {how}: classes have {sizes} {'seconds' if task == 'frames' else 'videos'}"


def set_task(cfg: Config, task: str, lists: VideoLists) -> list[str]:
    """Change a config, which already reads the lists, for a task; returns log lines."""
    row, names, preprocessor = TASKS[task], lists.classes, cfg.model.get("data_preprocessor") or {}
    if row.head is None:
        return []
    before = set(preprocessor)
    preprocessor.pop("blending", None)
    head = dict(type=row.head, num_classes=len(names), in_channels=cfg.model.cls_head.in_channels)
    cfg.model.cls_head = head
    for split, _, dataset in datasets_in(cfg):
        dataset.update(row.dataset)
        if row.suffix == "csv":
            dataset.metainfo = dict(classes=list(names))
        if cfg.get(f"{split}_evaluator") and row.metric:
            cfg[f"{split}_evaluator"] = dict(row.metric)
    row.change(cfg, lists)
    if cfg.get("val_evaluator"):
        cfg.default_hooks.checkpoint.update(save_best=row.best, rule="greater")
    notes = [f"task {task}: {cfg.model.cls_head.type}, by {row.best}"]
    lost = sorted(before - set(preprocessor))
    return notes + [f"{name} is removed: it does not know these annotations" for name in lost]
