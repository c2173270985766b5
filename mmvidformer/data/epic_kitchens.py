"""Segments of EPIC-Kitchens, and their recognition, from its public csv files."""

import mmvidformer.repairs  # noqa: F401  isort: skip  (repairs MMAction2 first)

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from mmaction.datasets.base import BaseActionDataset

from mmvidformer.catalog import DATASETS
from mmvidformer.data.table_numbers import read_number
from mmvidformer.data.tables import read_rows
from mmvidformer.errors import UserError
from mmvidformer.storage.errors import refuse

TIMES = ("start_timestamp", "stop_timestamp")
COLUMNS = ("narration_id", "video_id", "start_frame", "stop_frame", "noun_class", "verb_class")
# Sources of frames, and where the official downloads keep a video.
SOURCES = {
    "video": "{participant_id}/videos/{video_id}.MP4",
    "img": "{participant_id}/rgb_frames/{video_id}",
}


class SegmentDataset(BaseActionDataset):
    """Base of the datasets of EPIC-Kitchens' segments.

    Args:
        ann_file: The csv file.
        pipeline: Transforms.
        data_prefix: ``dict(video=folder)`` or ``dict(img=folder)``.
        name: Path of a video or of its folder of frames below the prefix, a template of the csv's
            columns. Default: as in the official downloads.
        filename_tmpl: File names of frames, which are numbered from 1.
        **kwargs: Arguments of MMAction2's ``BaseActionDataset`` (``test_mode``, ...).

    Raises:
        UserError: If a column is missing or a value is wrong; names file, line and value.
    """

    def __init__(
        self,
        *args,
        data_prefix: Mapping[str, str],
        name: str | None = None,
        filename_tmpl: str = "frame_{:010}.jpg",
        **kwargs: object,
    ) -> None:
        if len(data_prefix) != 1 or not set(data_prefix) <= set(SOURCES):
            raise UserError(f"data_prefix must have one of {[*SOURCES]}, got {data_prefix}")
        (self.source,) = data_prefix
        self.name = SOURCES[self.source] if name is None else name
        self.filename_tmpl = filename_tmpl
        kwargs["start_index"] = 0 if self.source == "video" else 1
        super().__init__(*args, data_prefix=dict(data_prefix), **kwargs)

    def files(self, row: Mapping[str, str], where: str) -> dict[str, str]:
        """Return the keys that decoders need."""
        try:
            name = self.name.format_map(row)
        except KeyError as error:
            raise UserError(f"{where}: no column {error} for the name {self.name!r}") from error
        path = str(Path(self.data_prefix[self.source]) / name)
        if self.source == "video":
            return {"filename": path}
        return {"frame_dir": path, "filename_tmpl": self.filename_tmpl}


@DATASETS.add
class EpicKitchensDataset(SegmentDataset):
    """Action segments with a noun and a verb; arguments are those of ``SegmentDataset``.

    Reads ``EPIC_100_train.csv`` and ``EPIC_100_validation.csv`` as published. The label is (noun,
    verb), the order of the outputs of ViViT's published head. For videos, put
    ``mmvidformer.LimitToSegment`` after ``VideoInit``. For the official frames, which have other
    rates than some of the videos, use ``RawFrameDecode``.
    """

    def load_data_list(self) -> list[dict]:
        """Read the csv file."""
        return [self._segment(*row) for row in read_rows(self.ann_file, *COLUMNS)]

    def _segment(self, row: dict[str, str], where: str) -> dict:
        start, stop = (read_number(row, name, where) for name in ("start_frame", "stop_frame"))
        if not 1 <= start <= stop:
            raise UserError(f"{where}: frames {start} to {stop} are not a segment")
        return {
            "narration_id": row["narration_id"],
            "label": np.array([read_number(row, name, where) for name in COLUMNS[4:]]),
            "where": where,
            "segment": (start - 1, stop - 1),
            "segment_seconds": [read_seconds(row, name, where) for name in TIMES if name in row],
            "offset": start - 1,  # of RawFrameDecode
            "total_frames": stop - start + 1,
            **self.files(row, where),
        }


def read_seconds(row: Mapping[str, str], column: str, where: str) -> float:
    """Read a time of a row in seconds; errors name file, line and value."""
    with refuse(f"{where}: {column} is {row[column]!r}, not HH:MM:SS.SS"):
        hours, minutes, seconds = row[column].split(":")
        return int(hours) * 3600 + int(minutes) * 60 + float(seconds)
