"""Labels of many videos: the predictions of a recognizer as rows."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from mmengine.config import Config

from mmvidformer.apis.bulk.reading import (
    VIDEOS_AT_ONCE,
    Clip,
    ReadClips,
    Unread,
    WholeVideos,
    Windows,
)
from mmvidformer.apis.recognizer import Recognizer
from mmvidformer.apis.tracks import check_asked, read_boxes
from mmvidformer.data.sources import VideoSource
from mmvidformer.engine.bulk_options import LabelOptions
from mmvidformer.engine.part_options import PartOptions
from mmvidformer.layers.samples import Sample
from mmvidformer.models.fast.shared_frames import frames_of_stage
from mmvidformer.tasks.prediction import Prediction


class Labeler:
    """Makes a row of each ``Prediction`` of a recognizer.

    Columns are those of ``Prediction.row``, and ``probabilities`` of all classes.

    Args:
        config: See ``Recognizer``.
        checkpoint: See ``Recognizer``.
        options: The model, and what is asked of it.
        videos: Names of all videos, if there is a file of boxes.
        device: See ``Recognizer``.

    Raises:
        UserError: If the model has no use for an option; or as ``Recognizer``, ``read_boxes``.
    """

    def __init__(
        self,
        config: str | Config,
        checkpoint: str | None,
        options: LabelOptions,
        videos: Sequence[str],
        device: str | None,
    ) -> None:
        self.recognizer = recognizer = Recognizer(
            config, checkpoint, device, options.classes, **options.inexact
        )
        self.options = options
        check_asked(options, recognizer.task)
        self.boxes = read_boxes(options, videos)
        self.read_clips = self._reader(options)
        # Of videos that are being answered: groups of videos take turns.
        self._shared_frames_of = lru_cache(VIDEOS_AT_ONCE)(lambda name: recognizer.share_frames())
        self.columns = {name: _type_of(cell) for name, cell in self._row(self._example()).items()}

    def _reader(self, options: PartOptions) -> ReadClips:
        recognizer = self.recognizer
        if options.window is None and options.stride is None:
            has_windows = recognizer.has_windows({}, in_parts=True)
            return WholeVideos(recognizer.pipeline) if has_windows else Unread()
        frames = frames_of_stage(recognizer.fast_model)
        sizes = options.window, options.stride, frames
        return Windows(recognizer.pipeline, *sizes, options.cuts)

    def _example(self) -> Prediction:
        """Return a prediction with all the fields that those of the model have."""
        has_tracks = self.options.track or self.boxes is not None and self.boxes.has_tracks
        track = 0 if has_tracks else None
        shot = 0 if isinstance(self.read_clips, Windows) else None
        return self.recognizer.task.example(self.recognizer.names, track=track, shot=shot)

    def answer(self, clips: Sequence[Clip]) -> list[list[dict[str, Any]]]:
        """Make the rows of each clip; those of an unread video are of all of its parts."""
        if isinstance(self.read_clips, Unread):
            predictions = [self._answer_video(clip.name, clip.sample["source"]) for clip in clips]
        else:
            predictions = self._answer_samples(clips)
        answers = []
        for clip, of_clip in zip(clips, predictions, strict=True):
            named = [replace(prediction, source=clip.name) for prediction in of_clip]
            answers.append([self._row(prediction) for prediction in named])
        return answers

    def _answer_samples(self, clips: Sequence[Clip]) -> list[list[Prediction]]:
        recognizer = self.recognizer
        outputs: list[Sample] = []
        if not isinstance(self.read_clips, Windows) or recognizer.share_frames() is None:
            outputs = recognizer.run_samples([clip.sample for clip in clips])
        else:  # one by one, since windows share frames
            for clip in clips:
                shared = self._shared_frames_of(clip.name)
                outputs += recognizer.run_samples([clip.sample], shared)
        pairs = zip(outputs, clips, strict=True)
        return [recognizer.predictions_of(output, **clip.where) for output, clip in pairs]

    def _answer_video(self, name: str, video: VideoSource) -> list[Prediction]:
        boxes = self.boxes.of(name) if self.boxes else None
        return list(self.recognizer.timeline(video, **self.options.asked(boxes)))

    def _row(self, prediction: Prediction) -> dict[str, Any]:
        row = prediction.row()
        is_single = len(prediction.scores) == 1
        for name, shares in prediction.probabilities.items():
            row["probabilities" if is_single else f"{name}_probabilities"] = shares
        return row


def _type_of(cell: object) -> type:
    """Return the type of a column: text, numbers, a number, or a count."""
    if isinstance(cell, str):
        return str
    return {np.ndarray: list, int: int}.get(type(cell), float)
