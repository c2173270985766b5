"""Predictions of models that classify each step of time, or find segments."""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import torch
from mmaction.structures import ActionDataSample
from mmengine.structures import InstanceData
from torch import Tensor

from mmvidformer.apis.pipeline import VideoPipeline
from mmvidformer.apis.windows import last_frames

# Clips of a part of a long video, and those at its ends that are context.
PART, CONTEXT = 8, 1
SEGMENTS_PART, SEGMENTS_CONTEXT = 64, 16

Predict = Callable[[dict], ActionDataSample]
Step = tuple[ActionDataSample, dict]  # scores of a step, and where: its seconds


def list_steps(pipeline: VideoPipeline, predict: Predict, video: dict) -> Iterator[Step]:
    """Classify the steps of an opened video in parts: memory does not grow with its length.

    Parts overlap by two clips, and each gives the steps that are at least one clip from its inner
    ends. Steps of a video of at most 8 clips are those of ``mmvidformer test``.
    """
    fps, total = video["avg_fps"], video["total_frames"]
    for sample, first, low, high in _parts(pipeline, predict, video, PART, CONTEXT):
        for scores, start, stop in _steps(sample, first):
            if low <= (start + stop) / 2 < high:
                yield scores, dict(seconds=(start / fps, min(stop, total) / fps))


def list_segments(pipeline: VideoPipeline, predict: Predict, video: dict) -> Iterator[InstanceData]:
    """Find the segments of a video, part by part: 64 clips, of which 16 at each end are context.

    A part gives the segments whose middle is not in its context.
    """
    options = SEGMENTS_PART, SEGMENTS_CONTEXT
    for sample, first, low, high in _parts(pipeline, predict, video, *options):
        found = sample.pred_instances
        found.segments = found.segments + first / video["avg_fps"]
        middles = found.segments.mean(dim=1) * video["avg_fps"]
        yield found[(middles >= low) & (middles < high)]


def _parts(
    pipeline: VideoPipeline, predict: Predict, video: dict, size: int, context: int
) -> Iterator[tuple[ActionDataSample, int, float, float]]:
    """Predict parts of ``size`` clips.

    Yields:
        What ``predict`` returns, the first frame of the part, and the frames from which and up to
        which its answers count.
    """
    span = pipeline.span(video["avg_fps"])
    total, first, edge = video["total_frames"], 0, round(context * span)
    while True:
        end = min(first + round(size * span), total)
        sample = predict(pipeline.read(video, (first, end - 1)))
        high = end - edge if end < total else total + span
        yield sample, first, first + edge if first else 0, high
        if end == total:
            return
        first = end - 2 * edge


def stream_steps(
    pipeline: VideoPipeline,
    predict: Predict,
    frames: Iterable[np.ndarray],
    fps: float,
    delay: float,
) -> Iterator[Step]:
    """Classify the steps of a stream, each once at least ``delay`` s after its end have been seen.

    ``frames`` are RGB (H, W, 3), uint8; those of a clip are kept.
    """
    size = max(round(pipeline.span(fps)), 1)
    done, step, late = 0.0, 0.0, 0.0  # end of the last step, length and delay of all, in frames
    for count, kept in last_frames(frames, size):
        if step and count - late + 1e-6 < done + step:
            continue
        sample = predict(pipeline.read_frames(kept, fps))
        step = sample.step
        # Whole steps, or those of a clip would lie between those of the last one.
        late = math.ceil(delay * fps / step - 1e-6) * step
        if late + step > size + 0.5:
            most = f"{(size - step) / fps:.3g} s (a clip less a step)"
            raise ValueError(f"delay must be at most {most}, got {delay:g} s")
        for scores, start, stop in _steps(sample, count - size):
            if start >= done - step / 2 and stop <= count - late + 1e-6:
                done = stop
                yield scores, dict(seconds=(start / fps, stop / fps))


def stream_segments(
    pipeline: VideoPipeline,
    model: Any,
    frames: Iterable[np.ndarray],
    fps: float,
    delay: float,
    min_score: float,
) -> Iterator[InstanceData]:
    """Find the segments of a stream, each at the end of the first clip ``delay`` after its end.

    The backbone runs once for each clip, the head on the last 64 clips. What was found is never
    revised: a segment of the same class that overlaps it by more than half (IoU) is left out. When
    the stream ends, the rest is found. ``model`` is the recognizer, ``frames`` as above.
    """
    from mmvidformer.models.segments_head import segment_iou  # loads MMAction2's models
    from mmvidformer.models.task_heads import pool_space

    @torch.no_grad()
    def encode(sample: dict) -> Tensor:
        data = model.data_preprocessor({key: [value] for key, value in sample.items()})
        return pool_space(model.extract_feat(data["inputs"])[0]).mean(dim=0)  # of the crops

    size = max(round(pipeline.span(fps)), 1)
    tokens: deque[Tensor] = deque(maxlen=SEGMENTS_PART)
    given = torch.zeros(0, 3)  # start and end in seconds, and class
    total, ended, rest = 0, False, iter(frames)
    while not ended:
        clip = list(islice(rest, size))
        ended, total = len(clip) < size, total + len(clip)
        if clip:
            tokens.append(encode(pipeline.read_frames(clip, fps)))
        if not tokens:
            return
        stack, first = torch.stack([*tokens]), (-(-total // size) - len(tokens)) * size
        with torch.no_grad():
            found = model.cls_head.segments(stack, size / stack.shape[1], total - first, fps)
        found.segments = found.segments + first / fps
        given = given[given[:, 1] > first / fps]
        known = found.scores >= min_score
        known &= (found.segments[:, 1] <= total / fps - delay) | ended
        for one in (found[i] for i in known.nonzero().flatten().tolist()):
            row = torch.cat([one.segments, one.labels[:, None].to(one.segments)], dim=1)
            same = given[given[:, 2] == row[0, 2], :2]
            if not (segment_iou(row[0, :2], same) > 0.5).any():
                given = torch.cat([given, row])
                yield one


def _steps(sample: ActionDataSample, first: int) -> Iterator[tuple[ActionDataSample, float, float]]:
    """Yield scores, start and end of the steps of a part that begins at frame ``first``."""
    for number, scores in enumerate(sample.pred_score):
        start = first + number * sample.step
        yield ActionDataSample(pred_score=scores), start, start + sample.step
