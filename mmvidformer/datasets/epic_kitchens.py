"""EPIC-Kitchens-100 for action recognition, from its public csv files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from mmaction.datasets.base import BaseActionDataset

from mmvidformer.datasets.csv_rows import read_number, read_rows
from mmvidformer.registry import DATASETS

COLUMNS = ("narration_id", "video_id", "start_frame", "stop_frame", "noun_class", "verb_class")
# Sources of frames, and where the official downloads keep a video.
SOURCES = {
    "video": "{participant_id}/videos/{video_id}.MP4",
    "img": "{participant_id}/rgb_frames/{video_id}",
    "lmdb": "",
}


class SegmentDataset(BaseActionDataset):
    """Base of the datasets of EPIC-Kitchens' segments, which document its arguments."""

    tasks: Mapping[str, int] = {}  # and their numbers of classes

    def __init__(
        self,
        *args,
        data_prefix: Mapping[str, str],
        name: str | None = None,
        filename_tmpl: str = "frame_{:010}.jpg",
        num_classes: Sequence[int] | None = None,
        **kwargs: object,
    ) -> None:
        if len(data_prefix) != 1 or not set(data_prefix) <= set(SOURCES):
            raise ValueError(f"data_prefix must have one of {[*SOURCES]}, got {data_prefix}")
        (self.source,) = data_prefix
        self.name = SOURCES[self.source] if name is None else name
        self.filename_tmpl = filename_tmpl
        kwargs["num_classes"] = list(num_classes or self.tasks.values())
        kwargs["start_index"] = 0 if self.source == "video" else 1
        super().__init__(*args, data_prefix=dict(data_prefix), **kwargs)

    def files(self, row: Mapping[str, str], where: str) -> dict[str, str]:
        """Return the keys that decoders need."""
        try:
            name = self.name.format_map(row)
        except KeyError as error:
            raise ValueError(f"{where}: no column {error} for the name {self.name!r}") from error
        path = str(Path(self.data_prefix[self.source]) / name)
        if self.source == "video":
            return {"filename": path}
        if self.source == "img":
            return {"frame_dir": path, "filename_tmpl": self.filename_tmpl}
        return {"lmdb": path, "filename_tmpl": f"{row['video_id']}_{self.filename_tmpl}"}

    def label(self, numbers: Sequence[int], where: str) -> np.ndarray:
        """Return a label, in the order of ``tasks``.

        Raises:
            ValueError: If a class is out of range.
        """
        for task, number, count in zip(self.tasks, numbers, self.num_classes, strict=True):
            if not 0 <= number < count:
                raise ValueError(f"{where}: {task} {number} is not in 0 to {count - 1}")
        return np.array(numbers)


@DATASETS.register_module()
class EpicKitchensDataset(SegmentDataset):
    """Action segments with a noun and a verb.

    Reads ``EPIC_100_train.csv`` and ``EPIC_100_validation.csv`` as published, with a header, and
    frames numbered from 1 at the video's own frame rate. The label is (noun, verb), the order of
    the outputs of ViViT's published head. For videos, put ``mmvidformer.LimitToSegment`` after
    ``VideoInit``; for extracted frames use ``RawFrameDecode`` or ``mmvidformer.LmdbDecode``.

    Args:
        ann_file: The csv file.
        pipeline: Transforms.
        data_prefix: ``dict(video=folder)``, ``dict(img=folder)`` or ``dict(lmdb=path)``.
        name: Path of a video or of its folder of frames below the prefix, a template of the csv's
            columns. Default: as in the official downloads.
        filename_tmpl: File names of frames; the keys of an LMDB start with ``'{video_id}_'``.
        num_classes: Numbers of nouns and verbs; larger labels raise an error. Default: 300 and 97.
        test_mode: Whether the data are for validation or test.

    Raises:
        ValueError: If a column is missing, a value is not a number, or a label is out of range;
            names file, line and value.
    """

    tasks = {"noun_class": 300, "verb_class": 97}

    def load_data_list(self) -> list[dict]:
        """Read the csv file."""
        return [self._segment(*row) for row in read_rows(self.ann_file, *COLUMNS)]

    def _segment(self, row: dict[str, str], where: str) -> dict:
        start, stop = (read_number(row, name, where) for name in ("start_frame", "stop_frame"))
        if not 1 <= start <= stop:
            raise ValueError(f"{where}: frames {start} to {stop} are not a segment")
        return {
            "narration_id": row["narration_id"],
            "label": self.label([read_number(row, name, where) for name in self.tasks], where),
            "where": where,
            "segment": (start - 1, stop - 1),
            "total_frames": stop - start + 1,
            **self.files(row, where),
        }

    def get_data_info(self, idx: int) -> dict:
        """Return the keys that the pipeline starts with."""
        info = super().get_data_info(idx)
        info["start_index"] = 0 if self.source == "video" else info["segment"][0] + 1
        return info
