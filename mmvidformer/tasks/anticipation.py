"""Anticipation of the actions of EPIC-Kitchens, from its public csv files.

Segments come in two forms. The official files have a header and times. RULSTM's lists
(github.com/fpv-iplab/rulstm, ``training.csv`` etc.) have no header, count frames at 30 per second,
and number the actions. Both give the same segments: RULSTM's first frame is ``floor(30 seconds)``
in double precision, but at least 1.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from mmengine.logging import MMLogger

from mmvidformer.catalog import DATASETS
from mmvidformer.data.epic_kitchens import TIMES, SegmentDataset, read_seconds
from mmvidformer.data.table_numbers import read_number
from mmvidformer.data.tables import read_rows
from mmvidformer.data.transforms.sampling import ObserveBefore
from mmvidformer.errors import UserError

FPS = 30  # of the frames that segments are counted in
LIST_COLUMNS = ("narration_id", "video_id", "start", "stop", "verb", "noun", "action")


@DATASETS.add
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
        UserError: If the pipeline has no ``ObserveBefore``, folders of frames have no ``fps``, a
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
            raise UserError(f"folders of frames need fps, and videos none, got fps={fps}")
        self.action_file, self.fps = action_file, fps
        super().__init__(*args, data_prefix=data_prefix, **kwargs)

    def load_data_list(self) -> list[dict]:
        """Read the csv files and skip what starts too early."""
        observers = [t for t in self.pipeline.transforms if isinstance(t, ObserveBefore)]
        if not observers:
            raise UserError("the pipeline of an AnticipationDataset must have an ObserveBefore")
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
            raise UserError(f"{self.ann_file}: no frame precedes any segment")
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
            raise UserError(f"{where}: {self.action_file} has {what}; {hint}")
        return np.array((*pair, action))


def _read_segments(path: str | Path) -> list[dict]:
    with open(path, encoding="utf-8") as file:
        official = "start_timestamp" in file.readline()
    columns, header = (("video_id", "start_timestamp"), None) if official else ((), LIST_COLUMNS)
    return [_segment(row, where) for row, where in read_rows(path, *columns, header=header)]


def _segment(row: dict[str, str], where: str) -> dict:
    name, video = row.get("narration_id") or row.get("uid"), row["video_id"]  # or EPIC-Kitchens-55
    if not name or not video:
        raise UserError(f"{where}: no narration_id (or uid) or no video_id in {row}")
    if "start" in row:
        frame, classes = read_number(row, "start", where), LIST_COLUMNS[4:]
    else:
        classes = ("verb_class", "noun_class")
        frame = int(read_seconds(row, TIMES[0], where) * FPS)
    labeled = row.get(classes[0], "") != ""
    return {  # the label may have the action too; it is empty in test sets
        # Only RULSTM's lists of EPIC-Kitchens-55 have leading zeros.
        "narration_id": str(int(name)) if name.isdigit() else name,
        "video_id": video,
        "participant_id": video.split("_")[0],
        "action_start": max(frame, 1) / FPS,
        "label": tuple(read_number(row, c, where) for c in classes) if labeled else (),
        "where": where,
    }


def _read_actions(path: str | Path) -> dict[tuple[int, int], int]:
    """Read the numbers of the actions, from 0, by verb and noun from RULSTM's ``actions.csv``."""
    pairs: dict[tuple[int, int], int] = {}
    for row, where in read_rows(path, "id", "verb", "noun"):
        number, verb, noun = (read_number(row, name, where) for name in ("id", "verb", "noun"))
        if number != len(pairs):
            raise UserError(f"{where}: id is {number}, expected {len(pairs)}")
        pairs[verb, noun] = number
    return pairs
