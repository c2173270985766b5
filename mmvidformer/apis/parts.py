"""Reads the parts of videos and streams that a task asks for, and runs the model on them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from mmvidformer.apis.detector import Person, load_detector
from mmvidformer.apis.loaded_model import LoadedModel
from mmvidformer.apis.persons import StreamPersons, choose_rate, find_persons, stated_persons
from mmvidformer.apis.pipeline import Source
from mmvidformer.apis.segments import stream_segments
from mmvidformer.apis.shots import ShotWindow, find_windows, stream_shots
from mmvidformer.apis.windows import (
    Answer,
    Frames,
    Predict,
    in_frames,
    list_segments,
    list_steps,
    read_ahead,
    stream_steps,
    stream_windows,
    times_of,
)
from mmvidformer.errors import UserError
from mmvidformer.models.fast.shared_frames import frames_of_stage
from mmvidformer.video.times import FrameTimes

Options = Mapping[str, Any]  # those of ``Recognizer.timeline`` or ``stream`` that are given


class PartReader:
    """What a task's ``parts`` and ``stream_parts`` choose from: windows, steps, segments or boxes.

    They yield pairs (``output``, ``where``). ``output`` is what ``Answers.answers`` of the task
    takes: a data sample with ``pred_score``, or the ``Instances`` of one segment. ``where`` has
    further attributes of its predictions: ``seconds``, start and end since the first frame; of
    windows ``shot``; of boxes ``persons``. It is empty for segments, whose output
    has their seconds.

    Args:
        loaded: The model. A reader is of one video or stream.
    """

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded, self.pipeline = loaded, loaded.pipeline
        self._finder: StreamPersons | None = None  # who are followed over the gaps of a stream

    def windows(self, opened: dict, options: Options) -> list[ShotWindow]:
        """Return the windows of an opened video."""
        frames = frames_of_stage(self.loaded.fast_model)
        sizes = options.get("window"), options.get("stride"), frames
        return find_windows(self.pipeline, opened, *sizes, options.get("cuts"))

    def windows_of(self, video: Source, fps: float | None, options: Options) -> Iterator[Answer]:
        """Answer for the windows of a video."""
        opened = self._open(video, fps)
        times = times_of(opened)
        samples = read_ahead(
            (
                self.pipeline.read(opened, window.span),
                dict(seconds=times.span(*window.span), shot=window.shot),
            )
            for window in self.windows(opened, options)[options.get("first", 0) :]
        )
        predict = self._predict()
        return ((predict([sample])[0], where) for sample, where in samples)

    def steps_of(self, video: Source, fps: float | None) -> Iterator[Answer]:
        """Answer for the steps of a video."""
        return list_steps(self.pipeline, self._predict(), self._open(video, fps))

    def segments_of(self, video: Source, fps: float | None, min_score: float) -> Iterator[Answer]:
        """Find the segments of a video."""
        return list_segments(self.pipeline, self._predict(), self._open(video, fps), min_score)

    def boxes_of(self, video: Source, fps: float | None, options: Options) -> Iterator[Answer]:
        """Answer for boxes that are stated, or for persons who are found."""
        opened = self._open(video, fps)
        if "array" in opened:
            raise UserError("boxes are of video files; of an array, stream(iter(frames), fps)")
        stated, track, cuts = options.get("boxes"), "track" in options, options.get("cuts")
        if stated is not None:
            moments = stated_persons(opened, stated, track, cuts)
        else:
            detector = load_detector(self.loaded.device)
            moments = find_persons(opened, detector, options.get("rate"), track, cuts)
        for seconds, persons, shot in moments:
            facts = self._box_facts([person.box for person in persons], seconds)
            sample = dict(opened, **facts, shot=shot, video_id=opened["filename"])
            (output,) = self._predict()([self.pipeline.read(sample)])
            yield output, dict(seconds=(seconds, seconds), persons=persons)

    def windows_of_stream(self, frames: Frames, fps: float, options: Options) -> Iterator[Answer]:
        """Answer for the windows of a stream."""
        stage_frames = frames_of_stage(self.loaded.fast_model)
        sizes = in_frames(
            fps,
            options.get("window"),
            options.get("stride"),
            lambda size: self.pipeline.period(size, fps, stage_frames),
        )
        shots = stream_shots(frames, options.get("cuts"))
        samples = (
            (sample, dict(seconds=seconds, shot=number))
            for number, (first, shot) in enumerate(shots)
            for sample, seconds in stream_windows(self.pipeline, shot, fps, *sizes, first)
        )
        predict = self._predict()
        return ((predict([sample])[0], where) for sample, where in samples)

    def steps_of_stream(self, frames: Frames, fps: float, delay: float) -> Iterator[Answer]:
        """Answer for the steps of a stream."""
        return stream_steps(self.pipeline, self._predict(), frames, fps, delay)

    def segments_of_stream(
        self, frames: Frames, fps: float, delay: float, min_score: float
    ) -> Iterator[Answer]:
        """Find the segments of a stream."""
        model = self.loaded.fast_model
        return stream_segments(self.pipeline, model, frames, fps, delay, min_score)

    def boxes_of_stream(self, frames: Frames, fps: float, options: Options) -> Iterator[Answer]:
        """Answer for the persons of a stream, half a clip after their moments."""
        if "boxes" in options:
            raise UserError("boxes are of video files; in a stream, persons are found")
        if self._finder is None:
            around = math.ceil(self.pipeline.span(fps) / 2) + 1
            follow = options.get("rate"), "track" in options, around
            self._finder = StreamPersons(load_detector(self.loaded.device), fps, *follow)
        for moment, pictures, number in self._finder.find(frames, options.get("cuts")):
            output = self._boxes_in(pictures, number, fps, moment.persons)
            yield output, dict(seconds=(moment.seconds, moment.seconds), persons=moment.persons)

    def frames_to_boxes(self, fps: float, options: Options) -> int:
        """Return how many frames after a frame of a stream its boxes are known, and the next."""
        apart = 1 / choose_rate(options.get("rate"), "track" in options)
        return math.ceil(self.pipeline.span(fps) / 2 + FrameTimes(fps).count(apart)) + 2

    def _boxes_in(
        self, pictures: Sequence[np.ndarray], number: int, fps: float, persons: Sequence[Person]
    ) -> Any:
        """Classify persons at a frame, whose place is ``number`` among those around it."""
        height, width = pictures[number].shape[:2]
        # MMAction2's decoders of files turn shares into pixels, that of arrays does not.
        boxes = [person.box for person in persons]
        pixels = np.reshape(boxes, (-1, 4)) * [width, height, width, height]
        facts = self._box_facts(pixels, FrameTimes(fps).seconds(number))
        sampled = self.pipeline.sample(len(pictures), fps, **facts, video_id="")
        sample = self.pipeline.read_frames(pictures, sampled, is_whole=False)
        (output,) = self._predict()([sample])
        return output

    def _box_facts(self, boxes: Any, seconds: float) -> dict[str, Any]:
        num_classes = len(next(iter(self.loaded.names.values())))
        return dict(
            gt_labels=torch.zeros(len(boxes), num_classes),
            gt_bboxes=np.array(boxes, np.float32).reshape(-1, 4),
            timestamp=seconds,
        )

    def _open(self, video: Source, fps: float | None) -> dict:
        opened = self.pipeline.open(video, fps)
        times_of(opened)  # changes it: frames are numbered at a constant rate
        return opened

    def _predict(self) -> Predict:
        """Return what runs the model on samples, and encodes the frames once that they share."""
        return partial(self.loaded.run_samples, shared=self.loaded.share_frames())
