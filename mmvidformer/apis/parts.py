"""Reads the parts of videos and streams that a task asks for, and runs the model on them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from mmvidformer.apis.pipeline import VideoPipeline
from mmvidformer.apis.segments import stream_segments
from mmvidformer.apis.self_check import SelfCheck
from mmvidformer.apis.shots import ShotWindow, list_shot_windows, stream_shots
from mmvidformer.apis.windows import (
    Answer,
    Frames,
    Predict,
    answer_windows,
    in_frames,
    list_segments,
    list_steps,
    read_ahead,
    stream_steps,
    stream_windows,
    times_of,
)
from mmvidformer.errors import UserError
from mmvidformer.layers.samples import Sample
from mmvidformer.models.fast.shared_frames import frames_of_stage
from mmvidformer.video.times import FrameTimes

Boxes = Sequence[Sequence[float]]  # left, top, right and bottom, in shares of width and height
Options = dict[str, Any]  # of ``Recognizer.timeline`` or ``Recognizer.stream``


class PartReader:
    """What a task's ``parts`` and ``stream_parts`` choose from: windows, steps or segments.

    They yield pairs (``output``, ``where``). ``output`` is what ``Answers.answers`` of the task
    takes: a data sample with ``pred_score``, or the ``Instances`` of one segment. ``where`` has
    further attributes of its predictions: ``seconds``, start and end since the first frame; and of
    windows ``shot`` and ``static``. It is empty for segments, whose output has their seconds.

    Args:
        pipeline: Reads the clips.
        start: Function that returns what runs the model on samples of one video, in their order.
        model: The recognizer that it runs.
        num_classes: Number of classes, for the labels that boxes need.
        check: What compares answers that do not come from ``start``, if they are inexact.
    """

    def __init__(
        self,
        pipeline: VideoPipeline,
        start: Callable[[], Predict],
        model: nn.Module,
        num_classes: int,
        check: SelfCheck | None = None,
    ) -> None:
        self.pipeline, self.start = pipeline, start
        self.model, self.num_classes, self.check = model, num_classes, check

    def windows(
        self, video: dict, window: float | None, stride: float | None, cuts: str | None
    ) -> list[ShotWindow]:
        """Return the windows of an opened video."""
        times = times_of(video)  # which numbers frames by time
        sizes = self._sizes(times.rate, window, stride)
        return list_shot_windows(video, *sizes, cuts)

    def windows_of(self, video: dict, options: Options) -> Iterator[Answer]:
        """Answer for the windows of an opened video."""
        times = times_of(video)
        sizes = options["window"], options["stride"], options["cuts"]
        windows = self.windows(video, *sizes)[options["first"] :]
        samples = read_ahead(
            (
                self.pipeline.read(video, window.span),
                dict(seconds=times.span(*window.span), shot=window.shot),
            )
            for window in windows
        )
        return answer_windows(samples, self.start(), options["skip_static"])

    def steps_of(self, video: dict) -> Iterator[Answer]:
        """Answer for the steps of an opened video."""
        return list_steps(self.pipeline, self.start(), video)

    def segments_of(self, video: dict, options: Options) -> Iterator[Answer]:
        """Find the segments of an opened video."""
        return list_segments(self.pipeline, self.start(), video, options["min_score"])

    def boxes_at(
        self, video: dict, seconds: float, boxes: Boxes, shot: tuple[int, int] | None = None
    ) -> Sample:
        """Classify boxes of an opened video at a moment.

        Args:
            video: The video.
            seconds: The moment.
            boxes: The boxes.
            shot: First and last frame that are read; default: those of the video.
        """
        times_of(video)  # which numbers frames by time
        facts = self._box_facts(boxes, seconds)
        sample = dict(video, **facts, shot=shot, video_id=video["filename"])
        return self.start()(self.pipeline.read(sample))

    def boxes_in(
        self, frames: Sequence[np.ndarray], number: int, fps: float, boxes: Boxes
    ) -> Sample:
        """Classify boxes at a frame of a stream.

        Args:
            frames: The frames around it, of one shot.
            number: Its place among them.
            fps: Frames per second.
            boxes: The boxes.
        """
        height, width = frames[number].shape[:2]
        # MMAction2's decoders of files turn shares into pixels, that of arrays does not.
        pixels = np.reshape(boxes, (-1, 4)) * [width, height, width, height]
        facts = self._box_facts(pixels, FrameTimes(fps).seconds(number))
        sampled = self.pipeline.sample(len(frames), fps, **facts, video_id="")
        return self.start()(self.pipeline.read_frames(frames, sampled, is_whole=False))

    def _box_facts(self, boxes: Boxes, seconds: float) -> dict[str, Any]:
        return dict(
            gt_labels=torch.zeros(len(boxes), self.num_classes),
            gt_bboxes=np.array(boxes, np.float32).reshape(-1, 4),
            timestamp=seconds,
        )

    def windows_of_stream(self, frames: Frames, fps: float, options: Options) -> Iterator[Answer]:
        """Answer for the windows of a stream."""
        if options["delay"]:
            delay = options["delay"]
            raise UserError(f"delay is for models of frames or segments, got {delay:g} s")
        sizes = self._sizes(fps, options["window"], options["stride"])
        shots = stream_shots(frames, options["cuts"])
        samples = (
            (sample, dict(seconds=seconds, shot=number))
            for number, (first, shot) in enumerate(shots)
            for sample, seconds in stream_windows(self.pipeline, shot, fps, *sizes, first)
        )
        return answer_windows(samples, self.start(), options["skip_static"])

    def steps_of_stream(self, frames: Frames, fps: float, options: Options) -> Iterator[Answer]:
        """Answer for the steps of a stream."""
        return stream_steps(self.pipeline, self.start(), frames, fps, options["delay"])

    def segments_of_stream(self, frames: Frames, fps: float, options: Options) -> Iterator[Answer]:
        """Find the segments of a stream."""
        limits = options["delay"], options["min_score"]
        return stream_segments(self.pipeline, self.model, frames, fps, *limits, self.check)

    def _sizes(self, fps: float, window: float | None, stride: float | None) -> tuple[int, int]:
        """Size and step of windows in frames."""
        frames = frames_of_stage(self.model)
        return in_frames(fps, window, stride, lambda size: self.pipeline.period(size, fps, frames))
