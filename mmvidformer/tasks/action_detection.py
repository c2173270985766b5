"""Spatio-temporal action detection: the classes of boxes at moments."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from mmengine.config import Config

from mmvidformer.config import clip_shape
from mmvidformer.data.folders import find_named
from mmvidformer.data.list_folders import CLASSES, VideoLists
from mmvidformer.data.splits import SPLITS
from mmvidformer.data.tables import Table
from mmvidformer.data.text import read_text
from mmvidformer.errors import MissingFile, UserError
from mmvidformer.storage.files import write_file
from mmvidformer.tasks.annotated import write_csv, write_lines
from mmvidformer.tasks.base import Steps, Task, nothing_found, rates_of, sampler_of
from mmvidformer.tasks.boxes import CORNERS, Box, group_boxes, parse_boxes
from mmvidformer.tasks.prediction import Names, Prediction
from mmvidformer.tasks.reading import Annotations

META_KEYS = ("img_shape", "video_id", "timestamp")
SPAN = 0.5  # seconds before and after a moment in which its boxes are drawn
GAP, EDGE = 1.0, 0.1  # longest time without a box of a track, and time before and after a track
NAMES_FILE = "label_map.pbtxt"  # which MMAction2's ``AVAMetric`` reads


class ActionDetection(Task):
    """The classes of boxes at moments."""

    name, sample_unit = "boxes", "moments"
    nouns = ("box",)
    has_classes_file = has_seconds = needs_places = True
    head = "mmvidformer.BoxesHead"
    metric, best_metric = "mmvidformer.BoxesMetric", "mAP/overall"
    unaware = ("blending", "augment")
    part, options = "boxes", ("boxes", "rate", "track", "cuts")
    has_windows, needs_boxes, runs_frame_by_frame = False, True, False
    has_one_class, activation, threshold = False, "sigmoid", 0.5
    combine = staticmethod(np.max)
    input_names = ("clip", "boxes")
    worst = staticmethod(nothing_found)

    def fits_columns(self, columns: Sequence[str]) -> bool:
        """Whether there are corners, or no names but a video, a time, a box and a class."""
        if "video" in columns:
            return set(CORNERS) <= set(columns)
        return len(columns) >= 7 and bool(re.fullmatch(r"[0-9]+(\.[0-9]+)?", columns[1]))

    def read(self, table: Table, classes: Sequence[str] = ()) -> Annotations:
        """Read the boxes of each video (``parse_boxes``)."""
        return parse_boxes(table, classes)

    def video_paths(self, annotations: Annotations, folder: Path) -> dict[str, Path]:
        """Return the files of the names, with any suffix, in the folder or below.

        Raises:
            UserError: If two files have the name of a video.
        """
        paths = super().video_paths(annotations, folder)
        named = find_named(folder, annotations.videos)
        return paths | {name: path.absolute() for name, path in named.items()}

    def last_second(self, annotation: Box) -> float:
        """Return the time of a box."""
        return annotation.time

    def write_lists(
        self, annotations: Annotations, splits: Mapping[str, str], root: Path, paths: Mapping
    ) -> None:
        """Write the boxes of each split as AVA does, and the names of the classes.

        Names of videos stay, but if all ``paths`` are absolute: then they are those.
        The classes are those of ``classes.txt`` beside the annotations, else their names in order.
        """
        names = self.classes_in(annotations)
        numbers: dict[int | str, int] = {name: i for i, name in enumerate(names, start=1)}
        folder = annotations.table.folder.resolve()
        files: Mapping[str, Path] = {}
        if all(path.is_absolute() for path in paths.values()):
            files = self.video_paths(annotations, folder)
        lines: dict[str, list[list]] = {split: [] for split in SPLITS}
        for video, boxes in annotations.videos.items():
            for time, corners, label, track, _ in boxes:
                second = int(time) if time.is_integer() else time
                number = numbers.get(label, label)
                row = [str(files.get(video, video)), second, *corners, number, track]
                lines[splits[video]].append(row)
        for split, rows in lines.items():
            write_csv(root / f"{split}.csv", rows)
        write_lines(root / CLASSES, names)

    def classes_in(self, annotations: Annotations) -> Sequence[str]:
        """Return the names of ``classes.txt``, else those of the annotations, in order.

        Raises:
            FileNotFoundError: If there is no such file, and a class is a number.
        """
        file = annotations.file.parent / CLASSES
        if file.is_file():
            return read_text(file).splitlines()
        labels = {box.label for boxes in annotations.videos.values() for box in boxes}
        if numbers := [label for label in labels if isinstance(label, int)]:
            what = f"{annotations.file} has the number {min(numbers)} of a class"
            raise MissingFile(f"{what}, but {file}, which names them, does not exist")
        return sorted(labels)

    def count_samples(self, annotations: Annotations) -> int:
        """Return the number of moments."""
        return len(group_boxes(annotations))

    def write_files(self, lists: VideoLists) -> None:
        """Write the names of the classes for the metric."""
        items = [
            f'item {{\n  name: "{name}"\n  id: {number}\n}}\n'
            for number, name in enumerate(lists.classes, start=1)
        ]
        write_file(lists.root / NAMES_FILE, "".join(items).encode())

    def dataset_config(self, lists: VideoLists) -> dict[str, Any]:
        """Return the dataset, with the names of the classes."""
        return dict(type="mmvidformer.BoxDataset", metainfo=dict(classes=list(lists.classes)))

    def model_config(self, cfg: Config, lists: VideoLists) -> dict[str, Any]:
        """Keep all tokens."""
        return {**super().model_config(cfg, lists), "backbone": dict(pool="none")}

    def pipeline(self, steps: Steps, split: str, cfg: Config) -> list[dict[str, Any]]:
        """Read whole frames around the moments, flipped in training."""
        _, frames, height, width = clip_shape(cfg)
        flip = [dict(type="Flip", flip_ratio=0.5)] if split == "train" else []
        return [
            dict(type="mmvidformer.VideoInit"),
            dict(type="mmvidformer.FramesAround", clip_len=frames, **rates_of(sampler_of(steps))),
            dict(type="mmvidformer.VideoDecode"),
            dict(type="Resize", scale=(width, height), keep_ratio=False),
            *flip,
            dict(type="FormatShape", input_format="NCTHW"),
            dict(type="PackActionInputs", meta_keys=META_KEYS),
        ]

    def metric_config(self, lists: VideoLists, ann_file: str) -> dict[str, Any]:
        """Return the metric, which reads the list."""
        return dict(
            type=self.metric,
            ann_file=ann_file,
            exclude_file=None,
            label_file=str(lists.root / NAMES_FILE),
            action_thr=0.0,
            num_classes=len(lists.classes) + 1,
        )

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raise a ``UserError`` if an option is none of a model of boxes, or is without another."""
        super().check_options(options)
        if "rate" in options and "boxes" in options:
            what = f"a rate is of persons that are detected, got {options['rate']:g}"
            raise UserError(f"{what}; leave it out, or the boxes that are stated")
        if "cuts" in options and not options.get("track"):
            what = f"persons are followed to the next cut, got cuts {options['cuts']!r}"
            raise UserError(f"{what} without track")

    def parts(
        self, reader: Any, video: Any, fps: float | None, options: Mapping[str, Any]
    ) -> Iterator[tuple]:
        """Answer for the boxes that are stated, or for persons that are found."""
        return reader.boxes_of(video, fps, options)

    def stream_parts(
        self, reader: Any, frames: Iterable, fps: float, options: Mapping[str, Any]
    ) -> Iterator[tuple]:
        """Answer for the persons of a stream."""
        return reader.boxes_of_stream(frames, fps, options)

    def frames_late(self, reader: Any, fps: float, options: Mapping[str, Any]) -> int:
        """Return how many frames a clip goes on after a moment, and those to the next one."""
        return reader.frames_to_boxes(fps, options)

    def answers(
        self,
        output: Any,
        names: Names,
        is_logits: bool = False,
        persons: Sequence[Any] = (),
        **where: Any,
    ) -> list[Prediction]:
        """Make a prediction for each box of a data sample with ``pred_instances``.

        ``persons`` have the boxes and tracks as they were given, not as the pipeline rounds them.
        """
        name = next(iter(names))
        return [
            self.predict({name: scores[1:]}, names, False, box=box, track=track, **where)
            for scores, (box, _, track) in zip(output.pred_instances.scores, persons, strict=True)
        ]

    def example(self, names: Names, **where: Any) -> Prediction:
        """Return a prediction with a box."""
        return super().example(names, box=(0.0, 0.0, 1.0, 1.0), **where)

    @property
    def drawing(self) -> str:
        """Boxes have no timeline."""
        return ""

    def shown_at(self, predictions: Sequence[Prediction], seconds: float) -> list[Prediction]:
        """Return the boxes of the nearest moment, if it is at most half a second away.

        Of tracks, boxes between two moments are between those of the moments.
        """
        begin = bisect_left(predictions, seconds - GAP, key=attrgetter("start"))
        end = bisect_right(predictions, seconds + GAP, key=attrgetter("start"))
        around = predictions[begin:end]
        if any(box.track is None for box in around):
            nearest = min(around, key=lambda box: abs(box.start - seconds))
            is_near = abs(nearest.start - seconds) <= SPAN
            return [box for box in around if is_near and box.start == nearest.start]
        tracks: dict[int, list[Prediction]] = {}
        for box in around:
            tracks.setdefault(box.track, []).append(box)
        shown = (between_moments(boxes, seconds) for boxes in tracks.values())
        return [box for box in shown if box is not None]


def between_moments(boxes: Sequence[Prediction], seconds: float) -> Prediction | None:
    """Return the box of a track at a time, with the answer of the moment before; None: it is away.

    Args:
        boxes: Those of moments around the time, in their order.
        seconds: The time.
    """
    number = bisect_right(boxes, seconds, key=attrgetter("start"))
    if number in (0, len(boxes)):
        end = boxes[min(number, len(boxes) - 1)]
        return end if abs(end.start - seconds) <= EDGE else None
    before, after = boxes[number - 1], boxes[number]
    if after.start - before.start > GAP:
        return None
    share = (seconds - before.start) / (after.start - before.start)
    corners = np.add((1 - share) * np.array(before.box), share * np.array(after.box))
    return replace(before, box=tuple(corners.tolist()))
