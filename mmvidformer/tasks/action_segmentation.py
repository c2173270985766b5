"""Temporal action segmentation: a class at each step of time.

A step is the stretch of frames that a token of the backbone stands for. Annotations are spans, in
seconds.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mmengine.config import Config

from mmvidformer.config import is_recurrent, type_name
from mmvidformer.data.list_folders import ListFacts, VideoLists
from mmvidformer.data.tables import Table
from mmvidformer.errors import UserError
from mmvidformer.tasks.annotations import BACKGROUND, COLUMNS, Span, parse_spans
from mmvidformer.tasks.base import Steps, Task, rates_of, sampler_of
from mmvidformer.tasks.classification import share_of_commonest
from mmvidformer.tasks.reading import Annotations

CLIP_LEN = 32  # frames of a clip if neither backbone nor sampler says, as in recurrent models
MAX_VIEWS = 8  # clips that run at once in testing, so that memory has a bound
META_KEYS = (  # FramesHead merges clips that overlap by them; FramesMetric needs the last two
    *("num_clips", "frame_inds", "frame_step", "start_index", "total_frames", "avg_fps"),
    *("spans", "background"),
)


class ActionSegmentation(Task):
    """A class at each step of time.

    Attributes:
        cover_options: Arguments of ``CoverFrames`` that are not its defaults.
        label_transforms: Transforms right after it, in training only: metrics read the spans.
    """

    name, least_classes, size_unit = "frames", 2, "seconds"
    nouns = ("segment", "")
    has_seconds = True
    balances = ("weights",)
    head = "mmvidformer.FramesHead"
    metric, best_metric = "mmvidformer.FramesMetric", "frames/accuracy"
    cover_options: dict[str, Any] = {}
    label_transforms: Steps = ({"type": "mmvidformer.LabelFrames"},)
    part, has_windows, is_about_past = "steps", False, False
    options = ("delay",)

    def fits_columns(self, columns: Sequence[str]) -> bool:
        """Whether there are times of spans."""
        return "start" in columns or "end" in columns

    def read(self, table: Table, classes: Sequence[str] = ()) -> Annotations:
        """Read the spans of each video (``parse_spans``), of which no two overlap."""
        return parse_spans(table, classes=classes)

    def last_second(self, annotation: Span) -> float:
        """Return the end of a span."""
        return annotation.end

    def list_columns(self, annotations: Annotations) -> Sequence[str]:
        """Return the columns of spans."""
        return COLUMNS

    def classes_in(self, annotations: Annotations) -> Sequence[str]:
        """Return the sorted names of the classes; the last is that of time without a span."""
        return [*sorted_labels(annotations), BACKGROUND]

    @staticmethod
    def worst(sample: Mapping[str, Any]) -> dict[str, Any]:
        """Return the sample of a video that cannot be read: without scores, with its spans."""
        return {**sample, "pred_score": sample["pred_score"][:0]}

    def list_facts(self, annotations: Annotations, classes: Sequence[str]) -> ListFacts:
        """Return the seconds of each class, and the ends of the videos.

        Time without a span is background only before the last span of a video: its length is not
        known here.
        """
        seconds = dict.fromkeys(classes, 0.0)
        for spans in annotations.videos.values():
            covered = 0.0
            for span in spans:
                seconds[span.label] = seconds.get(span.label, 0.0) + span.end - span.start
                covered += span.end - span.start
            if BACKGROUND in seconds and spans:
                seconds[BACKGROUND] += max(span.end for span in spans) - covered
        sizes = tuple(seconds[name] for name in classes)
        return super().list_facts(annotations, classes)._replace(sizes=sizes)

    def chance(self, lists: VideoLists, split: str) -> float | None:
        """Return the share of the time of the class that training has most of."""
        return share_of_commonest(self.class_sizes(lists), self.class_sizes(lists, split))

    def dataset_config(self, lists: VideoLists) -> dict[str, Any]:
        """Return the dataset, with the names of the classes."""
        return dict(type="mmvidformer.SpanDataset", metainfo=dict(classes=list(lists.classes)))

    def model_config(self, cfg: Config, lists: VideoLists) -> dict[str, Any]:
        """Let the backbone return all tokens, and limit the clips that run at once in testing."""
        model = super().model_config(cfg, lists)
        if not is_recurrent(cfg):
            model["backbone"] = dict(pool="none")
            limits = cfg.model.get("test_cfg") or {}
            model["test_cfg"] = {"max_testing_views": MAX_VIEWS, **limits}
        return model

    def loader_config(self, split: str) -> dict[str, Any]:
        """Take one video a batch in validation and testing: their numbers of clips differ."""
        return {} if split == "train" else dict(batch_size=1)

    def pipeline(self, steps: Steps, split: str, cfg: Config) -> list[dict[str, Any]]:
        """Replace the sampler by ``CoverFrames`` at its rate; add labels in training.

        The samples keep what head and metric need (``META_KEYS``).

        Raises:
            UserError: If the pipeline takes no frames at regular intervals.
        """
        sampler = sampler_of(steps)
        if sampler is None:
            wanted = "a sampler with a frame_interval, such as SampleFrames"
            raise UserError(f"frames need {wanted}, got {', '.join(map(type_name, steps))}")
        length = cfg.model.backbone.get("clip_len") or sampler.get("clip_len") or CLIP_LEN
        cover = {
            "type": "mmvidformer.CoverFrames",
            "test_mode": split != "train",
            **self.cover_options,
            **rates_of(sampler),
            "clip_len": length,
        }
        place = steps.index(sampler)
        before, after, pack = steps[:place], steps[place + 1 : -1], steps[-1]
        labels = self.label_transforms if split == "train" else ()
        keys = (*pack.get("meta_keys", ()), *META_KEYS)
        return [*before, cover, *map(dict, labels), *after, {**pack, "meta_keys": keys}]

    def parts(
        self, reader: Any, video: Any, fps: float | None, options: Mapping[str, Any]
    ) -> Iterator[tuple]:
        """Answer for each step of a video."""
        return reader.steps_of(video, fps)

    def stream_parts(
        self, reader: Any, frames: Iterable, fps: float, options: Mapping[str, Any]
    ) -> Iterator[tuple]:
        """Answer for each step of a stream."""
        return reader.steps_of_stream(frames, fps, options.get("delay", 0.0))


def sorted_labels(annotations: Annotations) -> list[str]:
    """Return the sorted names of the classes that spans have, without the background."""
    labels = {span.label for spans in annotations.videos.values() for span in spans}
    return sorted(labels - {BACKGROUND})
