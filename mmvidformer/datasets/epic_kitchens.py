"""EPIC-Kitchens-100 action recognition from its public csv files."""

import csv
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from mmaction.datasets.base import BaseActionDataset

from mmvidformer.registry import DATASETS

COLUMNS = ("narration_id", "video_id", "start_frame", "stop_frame", "noun_class", "verb_class")


@DATASETS.register_module()
class EpicKitchensDataset(BaseActionDataset):
    """Action segments with a noun and a verb.

    Reads ``EPIC_100_train.csv`` and ``EPIC_100_validation.csv`` as published (a header, frames
    numbered from 1 at the video's own frame rate). The label is (noun, verb), in this order, as
    the outputs of ViViT's published head. Over videos, put ``mmvidformer.LimitToSegment`` after
    ``DecordInit``; over extracted frames use ``RawFrameDecode``.

    Args:
        ann_file: The csv file.
        pipeline: Transforms.
        data_prefix: ``dict(video=folder)`` or ``dict(img=folder)``.
        name: Path of a video or of a folder of frames below the prefix, by the csv's columns;
            default ``'{participant_id}/videos/{video_id}.MP4'`` for videos, and
            ``'{participant_id}/rgb_frames/{video_id}'`` for frames, as the official downloads.
        filename_tmpl: Names of frames.
        num_classes: Nouns and verbs; labels beyond are refused.
        test_mode: Whether the data are for validation or test.

    Raises:
        ValueError: If a column is missing, a number is none, or a label is out of range; the
            message gives file, line and value.
    """

    def __init__(
        self,
        ann_file: str,
        pipeline: list[dict | Callable],
        data_prefix: Mapping[str, str],
        name: str | None = None,
        filename_tmpl: str = "frame_{:010}.jpg",
        num_classes: tuple[int, int] = (300, 97),
        test_mode: bool = False,
    ) -> None:
        if ("video" in data_prefix) == ("img" in data_prefix):
            raise ValueError(f"data_prefix must have either 'video' or 'img', got {data_prefix}")
        self.over_videos = "video" in data_prefix
        default = "videos/{video_id}.MP4" if self.over_videos else "rgb_frames/{video_id}"
        self.name = name or "{participant_id}/" + default
        self.filename_tmpl = filename_tmpl
        super().__init__(
            ann_file,
            pipeline,
            data_prefix=dict(data_prefix),
            test_mode=test_mode,
            num_classes=list(num_classes),
            start_index=0 if self.over_videos else 1,
        )

    def load_data_list(self) -> list[dict]:
        """Read the csv file."""
        with open(self.ann_file, newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise ValueError(
                    f"{self.ann_file} has no column {', '.join(missing)}; expected the csv of "
                    f"EPIC-Kitchens-100 with its header, found {reader.fieldnames}"
                )
            return [
                self._segment(row, f"{self.ann_file}, line {reader.line_num}") for row in reader
            ]

    def _segment(self, row: dict[str, str], where: str) -> dict:
        try:
            start, stop, *labels = (
                int(row[c]) for c in ("start_frame", "stop_frame", "noun_class", "verb_class")
            )
        except (TypeError, ValueError) as error:
            raise ValueError(f"{where}: not a number in {row}") from error
        for kind, label, count in zip(("noun", "verb"), labels, self.num_classes, strict=True):
            if not 0 <= label < count:
                raise ValueError(f"{where}: {kind}_class {label} is not in 0 to {count - 1}")
        if not 1 <= start <= stop:
            raise ValueError(f"{where}: frames {start} to {stop} are no segment")
        try:
            name = self.name.format(**row)
        except KeyError as error:
            raise ValueError(f"{where}: no column {error} for the name {self.name!r}") from error
        path = str(Path(next(iter(self.data_prefix.values()))) / name)
        segment = {
            "narration_id": row["narration_id"],
            "label": np.array(labels),
            "where": where,
        }
        if self.over_videos:
            return {**segment, "filename": path, "segment": (start - 1, stop - 1)}
        return {
            **segment,
            "frame_dir": path,
            "filename_tmpl": self.filename_tmpl,
            "first_frame": start,
            "total_frames": stop - start + 1,
        }

    def get_data_info(self, idx: int) -> dict:
        """Give the fields that the pipeline starts from."""
        info = super().get_data_info(idx)
        info["start_index"] = info.get("first_frame", 0)
        return info
