"""EPIC-Kitchens-55 and -100 for action anticipation."""

import logging

import numpy as np
from mmengine.logging import print_log

from mmvidformer.datasets.epic_csv import FPS, read_actions, read_frame_rates, read_segments
from mmvidformer.datasets.epic_kitchens import SegmentDataset
from mmvidformer.datasets.transforms.observe import ObserveBefore
from mmvidformer.registry import DATASETS


@DATASETS.register_module()
class AnticipationDataset(SegmentDataset):
    """Actions, each observed only through the frames before it.

    An item is one segment of the annotation file; ``mmvidformer.ObserveBefore`` in the pipeline
    chooses the frames. The label is (verb, noun, action); test sets have none. Segments that start
    so early that no frame precedes them are skipped, by frames at 30 per second whatever the
    source, as in RULSTM's code. Their number is logged, and ``metainfo`` lists them, since the
    metrics of EPIC-Kitchens-100 count them as wrong.

    Pipelines start with ``ObserveBefore, RawFrameDecode`` for folders of frames, ``ObserveBefore,
    LmdbDecode`` for an LMDB, or ``VideoInit, ObserveBefore, VideoDecode`` for videos, and end
    with ``PackActionInputs`` with ``meta_keys=('narration_id',)``.

    ``metainfo`` has ``actions``, a list of (verb, noun), and ``discarded``, a list of
    ``dict(narration_id=..., gt_label=...)`` with a label as above or None.

    Args:
        ann_file: RULSTM's list or an official csv file, of EPIC-Kitchens-55 or -100.
        action_file: ``actions.csv`` of RULSTM's repository: id, verb and noun of each action.
        pipeline: Transforms, with one ``ObserveBefore``.
        data_prefix: ``dict(video=folder)``, ``dict(img=folder)`` or ``dict(lmdb=path)``.
        name: As in ``EpicKitchensDataset``, with ``{video_id}`` and ``{participant_id}``.
        filename_tmpl: As in ``EpicKitchensDataset``.
        fps: Frames per second of folders of frames or of an LMDB, or the path of the official
            ``EPIC_100_video_info.csv`` if they are the videos' own. Ignored for videos.
        num_classes: Numbers of verbs, nouns and actions; larger labels raise an error. Default:
            97, 300 and 3806.
        test_mode: Whether the data are for validation or test.

    Raises:
        ValueError: If the pipeline has no ``ObserveBefore``, a label is out of range or
            contradicts the list of actions, or no segment is left; names file, line and value.
    """

    tasks = {"verb": 97, "noun": 300, "action": 3806}

    def __init__(self, *args, action_file: str, fps: float | str = 30.0, **kwargs: object) -> None:
        self.action_file = action_file
        self.fps = read_frame_rates(fps) if isinstance(fps, str) else fps
        super().__init__(*args, **kwargs)

    def load_data_list(self) -> list[dict]:
        """Read the csv files and skip what starts too early."""
        observers = [t for t in self.pipeline.transforms if isinstance(t, ObserveBefore)]
        if not observers:
            raise ValueError("the pipeline of an AnticipationDataset must have an ObserveBefore")
        pairs = read_actions(self.action_file)
        ids = {pair: action for action, pair in enumerate(pairs)}
        kept, discarded = [], []
        for segment in read_segments(self.ann_file):
            label = self._label(segment.pop("label"), segment["where"], ids)
            if observers[0].frames(segment["action_start"], FPS)[-1] < 1:
                discarded.append({"narration_id": segment["narration_id"], "gt_label": label})
                continue
            segment |= self.files(segment, segment["where"])
            if label is not None:
                segment["label"] = label
            if self.source != "video":
                segment["avg_fps"] = self._frame_rate(segment["video_id"], segment["where"])
            kept.append(segment)
        if not kept:
            raise ValueError(f"{self.ann_file}: no frame precedes any segment")
        print_log(
            f"{self.ann_file}: {len(kept)} segments; skipped {len(discarded)} that no frame "
            "precedes",
            logger="current",
            level=logging.INFO,
        )
        self._metainfo.update(actions=pairs, discarded=discarded)
        return kept

    def _label(self, label: tuple[int, ...], where: str, ids: dict) -> np.ndarray | None:
        if not label:
            return None
        pair, action = label[:2], ids.get(label[:2])
        if action is None or label not in (pair, (*pair, action)):
            raise ValueError(
                f"{where}: {self.action_file} has another action for verb {pair[0]} and noun "
                f"{pair[1]}, or none; is it the list of the other EPIC-Kitchens?"
            )
        return self.label((*pair, action), where)

    def _frame_rate(self, video: str, where: str) -> float:
        rate = self.fps.get(video) if isinstance(self.fps, dict) else self.fps
        if rate is None:
            raise ValueError(f"{where}: no frame rate of video {video}")
        return rate
