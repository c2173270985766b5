"""EPIC-Kitchens for action recognition and anticipation, from its public csv files.

Segments to anticipate come in two forms. The official files have a header and times. RULSTM's lists
(github.com/fpv-iplab/rulstm, ``training.csv`` etc.) have no header, count frames at 30 per second,
and number the actions. Both give the same segments: RULSTM's first frame is ``floor(30 seconds)``
in double precision, but at least 1.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from mmaction.datasets.base import BaseActionDataset
from mmengine.logging import MMLogger

from mmvidformer.datasets.csv_rows import read_number, read_rows
from mmvidformer.datasets.transforms.sampling import ObserveBefore
from mmvidformer.registry import DATASETS

TIMES = ("start_timestamp", "stop_timestamp")
COLUMNS = ("narration_id", "video_id", "start_frame", "stop_frame", "noun_class", "verb_class")
FPS = 30  # of the frames that segments are counted in
LIST_COLUMNS = ("narration_id", "video_id", "start", "stop", "verb", "noun", "action")
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
        ValueError: If a column is missing or a value is wrong; names file, line and value.
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
            raise ValueError(f"data_prefix must have one of {[*SOURCES]}, got {data_prefix}")
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
            raise ValueError(f"{where}: no column {error} for the name {self.name!r}") from error
        path = str(Path(self.data_prefix[self.source]) / name)
        if self.source == "video":
            return {"filename": path}
        return {"frame_dir": path, "filename_tmpl": self.filename_tmpl}


@DATASETS.register_module()
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
            raise ValueError(f"{where}: frames {start} to {stop} are not a segment")
        return {
            "narration_id": row["narration_id"],
            "label": np.array([read_number(row, name, where) for name in COLUMNS[4:]]),
            "where": where,
            "segment": (start - 1, stop - 1),
            "segment_seconds": [_read_seconds(row, name, where) for name in TIMES if name in row],
            "offset": start - 1,  # of RawFrameDecode
            "total_frames": stop - start + 1,
            **self.files(row, where),
        }


@DATASETS.register_module()
class AnticipationDataset(SegmentDataset):
    """Actions, each observed only through the frames before it.

    The label is (verb, noun, action); test sets have none. Segments that start so early that no
    frame precedes them are skipped, by frames at 30 per second, as in RULSTM's code.

    Pipelines start with ``ObserveBefore, RawFrameDecode`` for folders of frames or ``VideoInit,
    ObserveBefore, VideoDecode`` for videos, and end with ``PackActionInputs`` with
    ``meta_keys=('narration_id',)``. ``metainfo`` has ``actions``, a list of (verb, noun), and
    ``discarded``, the skipped segments: ``dict(narration_id=..., gt_label=...)`` with a label as
    above or None.

    Args:
        action_file: ``actions.csv`` of RULSTM's repository: id, verb and noun of each action.
        fps: Frames per second of folders of frames, such as 30 for those of RULSTM. The official
            ones have 60, or 50 in the extension of EPIC-Kitchens-100. Not for videos.
        **kwargs: Arguments of ``SegmentDataset``.

    Raises:
        ValueError: If the pipeline has no ``ObserveBefore``, folders of frames have no ``fps``, a
            label contradicts the list of actions, or no segment is left; names file, line, value.
    """

    def __init__(
        self,
        *args,
        data_prefix: Mapping[str, str],
        action_file: str,
        fps: float | None = None,
        **kwargs: object,
    ) -> None:
        if (fps is None) != ("video" in data_prefix):
            raise ValueError(f"folders of frames need fps, and videos none, got fps={fps}")
        self.action_file, self.fps = action_file, fps
        super().__init__(*args, data_prefix=data_prefix, **kwargs)

    def load_data_list(self) -> list[dict]:
        """Read the csv files and skip what starts too early."""
        observers = [t for t in self.pipeline.transforms if isinstance(t, ObserveBefore)]
        if not observers:
            raise ValueError("the pipeline of an AnticipationDataset must have an ObserveBefore")
        pairs = _read_actions(self.action_file)
        kept, discarded = [], []
        for segment in _read_segments(self.ann_file):
            label = self._label(segment.pop("label"), segment["where"], pairs)
            if observers[0].frames(segment["action_start"], FPS)[-1] < 1:
                discarded.append({"narration_id": segment["narration_id"], "gt_label": label})
                continue
            segment |= self.files(segment, segment["where"])
            known = {"label": label, "avg_fps": self.fps}
            kept.append(segment | {key: x for key, x in known.items() if x is not None})
        if not kept:
            raise ValueError(f"{self.ann_file}: no frame precedes any segment")
        skipped = f"skipped {len(discarded)} that no frame precedes"
        MMLogger.get_current_instance().info(f"{self.ann_file}: {len(kept)} segments; {skipped}")
        self._metainfo.update(actions=[*pairs], discarded=discarded)
        return kept

    def _label(self, label: tuple[int, ...], where: str, pairs: dict) -> np.ndarray | None:
        if not label:
            return None
        pair, action = label[:2], pairs.get(label[:2])
        if action is None or label not in (pair, (*pair, action)):
            what = f"another action for verb {pair[0]} and noun {pair[1]}, or none"
            hint = "is it the list of the other EPIC-Kitchens?"
            raise ValueError(f"{where}: {self.action_file} has {what}; {hint}")
        return np.array((*pair, action))


def _read_segments(path: str | Path) -> list[dict]:
    with open(path, encoding="utf-8") as file:
        official = "start_timestamp" in file.readline()
    columns, header = (("video_id", "start_timestamp"), None) if official else ((), LIST_COLUMNS)
    return [_segment(row, where) for row, where in read_rows(path, *columns, header=header)]


def _segment(row: dict[str, str], where: str) -> dict:
    name, video = row.get("narration_id") or row.get("uid"), row["video_id"]  # or EPIC-Kitchens-55
    if not name or not video:
        raise ValueError(f"{where}: no narration_id (or uid) or no video_id in {row}")
    if "start" in row:
        frame, classes = read_number(row, "start", where), LIST_COLUMNS[4:]
    else:
        classes = ("verb_class", "noun_class")
        frame = int(_read_seconds(row, TIMES[0], where) * FPS)
    labeled = row.get(classes[0]) is not None
    return {  # the label may have the action too; it is empty in test sets
        # Only RULSTM's lists of EPIC-Kitchens-55 have leading zeros.
        "narration_id": str(int(name)) if name.isdigit() else name,
        "video_id": video,
        "participant_id": video.split("_")[0],
        "action_start": max(frame, 1) / FPS,
        "label": tuple(read_number(row, c, where) for c in classes) if labeled else (),
        "where": where,
    }


def _read_seconds(row: Mapping[str, str], column: str, where: str) -> float:
    try:
        hours, minutes, seconds = row[column].split(":")
        return int(hours) * 3600 + int(minutes) * 60 + float(seconds)
    except (AttributeError, ValueError) as error:
        raise ValueError(f"{where}: {column} is {row[column]!r}, not HH:MM:SS.SS") from error


def _read_actions(path: str | Path) -> dict[tuple[int, int], int]:
    """Read the numbers of the actions, from 0, by verb and noun from RULSTM's ``actions.csv``."""
    pairs: dict[tuple[int, int], int] = {}
    for row, where in read_rows(path, "id", "verb", "noun"):
        number, verb, noun = (read_number(row, name, where) for name in ("id", "verb", "noun"))
        if number != len(pairs):
            raise ValueError(f"{where}: id is {number}, expected {len(pairs)}")
        pairs[verb, noun] = number
    return pairs
