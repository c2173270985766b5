"""Segments of a stream, which are found clip by clip."""

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from mmvidformer.apis.pipeline import VideoPipeline
from mmvidformer.apis.windows import SEGMENTS_PART, Answer, Frames
from mmvidformer.layers.samples import Instances
from mmvidformer.models.soft_nms import segment_iou
from mmvidformer.video.times import FrameTimes


class LastClips:
    """The tokens of the last 64 clips of a stream, by one model.

    Args:
        model: The recognizer.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._tokens: deque[Tensor] = deque(maxlen=SEGMENTS_PART)

    def __len__(self) -> int:
        return len(self._tokens)

    def append(self, sample: dict) -> None:
        """Run the backbone on the sample of the next clip."""
        from mmvidformer.models.task_heads import pool_space  # loads MMAction2's models

        data = self._model.data_preprocessor({key: [value] for key, value in sample.items()})
        feats = self._model.extract_feat(data["inputs"])[0]
        steps = pool_space(feats, self._model.cls_head)
        self._tokens.append(steps.mean(dim=0))  # of the crops

    def settling_seconds(self, size: int, times: FrameTimes) -> float:
        """Return how long the head waits; see ``FindingHead.settling_seconds``."""
        step = times.seconds(size / len(self._tokens[-1]))
        return self._model.cls_head.settling_seconds(step)

    def find(self, first: int, total: int, size: int, times: FrameTimes) -> Instances:
        """Run the head on the clips.

        Args:
            first: Number of the first frame of the clips.
            total: Number of frames of the stream so far.
            size: Number of frames of a clip.
            times: Seconds of the frames.

        Returns:
            As of ``SegmentsHead.segments``, in seconds of the stream.
        """
        stack = torch.stack([*self._tokens])
        head, step = self._model.cls_head, size / stack.shape[1]
        segments = head.segments(stack, step, total - first, times)
        segments.segments = (segments.segments + times.seconds(first)).clamp(min=0)
        return segments


@torch.no_grad()
def stream_segments(
    pipeline: VideoPipeline, model: Any, frames: Frames, fps: float, delay: float, min_score: float
) -> Iterator[Answer]:
    """Find the segments of a stream, each at the end of the first clip ``delay`` after its end.

    Moments are told about a second later, when what follows does not change them any more. The
    backbone runs once for each clip, the head on the last 64 clips. What was told is never
    revised: a segment of the same class that overlaps it by more than half (IoU) is left out. Those
    that are found at one time are told in the order of their starts. When the stream ends, the rest
    is found. ``model`` is the recognizer.
    """
    size, times = max(round(pipeline.span(fps)), 1), FrameTimes(fps)
    clips = LastClips(model)
    told = torch.zeros(0, 3)  # start and end in seconds, and class
    total, ended, frames = 0, False, iter(frames)
    while not ended:
        clip = list(islice(frames, size))
        ended, total = len(clip) < size, total + len(clip)
        if clip:
            clips.append(pipeline.read_frames(clip, pipeline.sample(len(clip), fps)))
        if not clips:
            return
        first = (-(-total // size) - len(clips)) * size
        segments = clips.find(first, total, size, times)
        start, end = times.seconds(first), times.seconds(total)
        told = told[told[:, 1] >= start]
        is_sure = segments.scores >= min_score
        wait = max(delay, clips.settling_seconds(size, times))
        is_sure &= (segments.segments[:, 1] <= end - wait) | ended
        is_sure &= (segments.segments[:, 1] > start) | (first == 0)  # told before the clips left
        fresh = []
        for number in is_sure.nonzero().flatten().tolist():
            segment = segments.select(slice(number, number + 1))
            row = torch.cat([segment.segments, segment.labels[:, None].to(told)], dim=1)
            of_class = told[told[:, 2] == row[0, 2], :2]
            if not (segment_iou(row[0, :2], of_class) > 0.5).any():
                told = torch.cat([told, row])
                fresh.append(segment)
        for segment in sorted(fresh, key=lambda segment: segment.segments[0].tolist()):
            yield segment, {}
