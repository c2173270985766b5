"""EPIC-Kitchens-55 and -100 for action anticipation."""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from mmaction.datasets.base import BaseActionDataset
from mmengine.logging import print_log

from mmvidformer.datasets.anticipation_csv import (
    FPS,
    Segment,
    read_actions,
    read_frame_rates,
    read_segments,
)
from mmvidformer.datasets.transforms.observe import ObserveBefore
from mmvidformer.registry import DATASETS

SOURCES = {
    "video": "{participant_id}/videos/{video_id}.MP4",
    "img": "{participant_id}/rgb_frames/{video_id}",
    "lmdb": "",
}


@DATASETS.register_module()
class AnticipationDataset(BaseActionDataset):
    """Actions, each seen only through the frames that come before it.

    An item is one segment of the annotation file; ``mmvidformer.ObserveBefore`` in the pipeline
    says which frames are seen. The label is (verb, noun, action), in this order; test sets have
    none. Segments that start so early that no frame precedes them are left out, by frames at 30 a
    second whatever the source, as in RULSTM's code. Their number is logged; ``metainfo`` names
    them, since the metrics of EPIC-Kitchens-100 count them as wrong.

    Pipelines: ``ObserveBefore, RawFrameDecode`` over folders of frames; ``ObserveBefore,
    LmdbDecode`` over an LMDB; ``DecordInit, ObserveBefore, DecordDecode`` over videos. Then
    transforms as for any clip, and ``PackActionInputs`` with ``meta_keys=('narration_id',)``.

    ``metainfo`` has ``actions``, a list of (verb, noun), and ``discarded``, a list of
    ``dict(narration_id=..., gt_label=...)`` with a label as above or None.

    Args:
        ann_file: RULSTM's list or an official csv file, of EPIC-Kitchens-55 or -100.
        action_file: ``actions.csv`` of RULSTM's repository: id, verb and noun of each action.
        pipeline: Transforms, with one ``ObserveBefore``.
        data_prefix: ``dict(video=folder)``, ``dict(img=folder)`` or ``dict(lmdb=path)``.
        name: Path of a video or of a folder of frames below the prefix, with ``{video_id}`` and
            ``{participant_id}``; default: as in the official downloads.
        filename_tmpl: Names of frames; keys of an LMDB have ``'{video_id}_'`` in front.
        fps: Frames a second of folders of frames or of an LMDB, or the path of the official
            ``EPIC_100_video_info.csv`` if they are the videos' own. Videos tell it themselves.
        video_file: List of videos, one a line, to which the segments are limited (the split of
            EPIC-Kitchens-55's official csv file); default: all.
        num_classes: Verbs, nouns and actions; labels beyond are refused.
        test_mode: Whether the data are for validation or test.

    Raises:
        ValueError: If the pipeline has no ``ObserveBefore``, a label is out of range or
            contradicts the list of actions, or no segment is left; for annotations, the message
            gives file, line and value.
    """

    def __init__(
        self,
        ann_file: str,
        action_file: str,
        pipeline: list[dict | Callable],
        data_prefix: Mapping[str, str],
        name: str | None = None,
        filename_tmpl: str = "frame_{:010}.jpg",
        fps: float | str = 30.0,
        video_file: str | None = None,
        num_classes: Sequence[int] = (97, 300, 3806),
        test_mode: bool = False,
    ) -> None:
        if len(data_prefix) != 1 or next(iter(data_prefix)) not in SOURCES:
            raise ValueError(f"data_prefix must have one of {list(SOURCES)}, got {data_prefix}")
        self.source = next(iter(data_prefix))
        self.name = SOURCES[self.source] if name is None else name
        self.action_file = action_file
        self.filename_tmpl = filename_tmpl
        self.fps = read_frame_rates(fps) if isinstance(fps, str) else fps
        self.video_file = video_file
        super().__init__(
            ann_file,
            pipeline,
            data_prefix=dict(data_prefix),
            test_mode=test_mode,
            num_classes=list(num_classes),
            start_index=0 if self.source == "video" else 1,
        )

    def load_data_list(self) -> list[dict]:
        """Read the csv files and leave out what starts too early."""
        observers = [t for t in self.pipeline.transforms if isinstance(t, ObserveBefore)]
        if len(observers) != 1:
            raise ValueError(
                "the pipeline of an AnticipationDataset needs one mmvidformer.ObserveBefore, "
                f"it has {len(observers)}: {self.pipeline}"
            )
        pairs = read_actions(self.action_file)
        ids = {pair: action for action, pair in enumerate(pairs)}
        kept, discarded = [], []
        for segment in self._segments():
            label = self._label(segment, pairs, ids)
            if observers[0].frames(segment.start / FPS, FPS)[-1] >= 1:
                kept.append(self._item(segment, label))
            else:
                discarded.append({"narration_id": segment.narration_id, "gt_label": label})
        if not kept:
            raise ValueError(f"{self.ann_file}: no frame can be observed before any segment")
        print_log(
            f"{self.ann_file}: {len(kept)} segments; {len(discarded)} more start too early to "
            "observe a frame before them and are left out",
            logger="current",
            level=logging.INFO,
        )
        self._metainfo.update(actions=pairs, discarded=discarded)
        return kept

    def _segments(self) -> list[Segment]:
        segments = read_segments(self.ann_file)
        if self.video_file is None:
            return segments
        videos = set(Path(self.video_file).read_text().split())
        unknown = videos - {segment.video_id for segment in segments}
        if unknown:
            raise ValueError(f"{self.video_file}: not in {self.ann_file}: {sorted(unknown)}")
        return [segment for segment in segments if segment.video_id in videos]

    def _label(
        self, segment: Segment, pairs: list[tuple[int, int]], ids: dict[tuple[int, int], int]
    ) -> np.ndarray | None:
        if segment.label is None:
            return None
        verb, noun = segment.label[:2]
        action = segment.label[2] if len(segment.label) == 3 else ids.get((verb, noun))
        if action is None:
            raise ValueError(
                f"{segment.where}: verb {verb} with noun {noun} is no action of {self.action_file}"
            )
        label = (verb, noun, action)
        kinds = ("verb", "noun", "action")
        for kind, number, count in zip(kinds, label, self.num_classes, strict=True):
            if not 0 <= number < count:
                raise ValueError(f"{segment.where}: {kind} {number} is not in 0 to {count - 1}")
        if action >= len(pairs) or pairs[action] != (verb, noun):
            raise ValueError(
                f"{segment.where}: action {action} is not verb {verb} with noun {noun} in "
                f"{self.action_file}; is it the list of the other EPIC-Kitchens?"
            )
        return np.array(label)

    def _item(self, segment: Segment, label: np.ndarray | None) -> dict:
        ids = {"video_id": segment.video_id, "participant_id": segment.participant_id}
        path = str(Path(self.data_prefix[self.source]) / self.name.format(**ids))
        item = {
            **ids,
            "narration_id": segment.narration_id,
            "where": segment.where,
            "action_start": segment.start / FPS,
            **({} if label is None else {"label": label}),
        }
        if self.source == "video":
            return {**item, "filename": path}
        if isinstance(self.fps, dict) and segment.video_id not in self.fps:
            raise ValueError(f"{segment.where}: no frame rate of video {segment.video_id} is given")
        item["avg_fps"] = self.fps[segment.video_id] if isinstance(self.fps, dict) else self.fps
        if self.source == "img":
            return {**item, "frame_dir": path, "filename_tmpl": self.filename_tmpl}
        return {**item, "lmdb": path, "filename_tmpl": f"{segment.video_id}_{self.filename_tmpl}"}
