"""Predictions of a recognizer for files, arrays, parts of long videos, and running streams."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmaction.structures import ActionDataSample
from mmengine.config import Config
from mmengine.structures import InstanceData

from mmvidformer.apis.factory import PUBLISHED
from mmvidformer.apis.loaded_model import LoadedModel
from mmvidformer.apis.pipeline import Source, VideoPipeline
from mmvidformer.apis.predictions import Prediction, to_prediction, to_segment
from mmvidformer.apis.stream import FrameRunner, StreamFrame, without_gaps
from mmvidformer.apis.windows import (
    answer_windows,
    in_frames,
    list_parts,
    list_windows,
    read_ahead,
    stream_segments,
    stream_steps,
    stream_windows,
    times_of,
)
from mmvidformer.models.inference import frames_of_stage
from mmvidformer.video.capture import Capture


class Recognizer(LoadedModel):
    """A trained model, ready to be called on videos.

    - ``recognizer(video)`` answers for a whole video,
    - ``timeline(video)`` for the parts of a long one,
    - ``stream(frames)`` as frames come in, from a generator, a camera or an address,
    - ``boxes(video, second, boxes)`` for boxes in it.

    All give ``Prediction``. Parts are windows; of a model of frames (``FramesHead``) the steps of
    time, of one of segments (``SegmentsHead``) the segments that it finds. A recurrent model (HORST
    or a causal transformer) answers after each frame: what it saw so far, or, if it anticipates,
    what comes next.

    Videos are read by the config's test pipeline, with all its views, so that the scores are those
    of ``mmvidformer test``. As there, the model runs as ``optimize_for_inference`` makes it, until
    you read the attribute ``model``: you may train it, or add hooks or LoRA. ``repr`` tells.
    Threads may share a recognizer.

    Args:
        config: A config, its file, or the name of a shipped config; or a HuggingFace folder or the
            address of a checkpoint (``mmvidformer.checkpoints.addresses``), whose config is found
            or made (``engine.checkpoint_config``).
        checkpoint: File or address; None: initial weights; ``'published'`` (default): the published
            weights of a shipped config.
        device: Where the model runs, such as ``'cuda:1'``; default: the GPU if there is one.
        names: Class names by task, or files of them (``class_names``); default: those of the
            checkpoint, of the config or of its dataset (``known_names``), or numbers.
        clips: Number of clips to read from each video, with one crop each; default: the views of
            the test pipeline.

    Attributes:
        over: What a prediction is about: ``'clip'``, ``'steps'``, ``'segments'`` or ``'boxes'``.
        is_recurrent: Whether the model answers frame by frame.
        pipeline: The test pipeline, for whole videos and windows.
        frame_runner: What reads single frames, and runs a recurrent model on them.

    Raises:
        KeyError: If the config has no published weights.
        OSError: If the checkpoint does not exist, or cannot be fetched.
        ValueError: If the weights do not fit the model, the model does not classify videos, or
            there are not as many names as classes.
    """

    def __init__(
        self,
        config: str | Path | Config,
        checkpoint: str | None = PUBLISHED,
        device: str | torch.device | None = None,
        names: Mapping[str, Sequence[str]] | Sequence[str] | None = None,
        clips: int | None = None,
    ) -> None:
        super().__init__(config, checkpoint, device, names)
        self.is_recurrent = hasattr(self._model, "stream") and self.over in ("clip", "steps")
        self._anticipates = hasattr(self._model.cls_head, "logged_time")  # AnticipationHead
        self._clips = clips
        if self._anticipates:
            self.frame_runner  # noqa: B018  wrong pipelines are errors now
        elif not self.is_recurrent:
            self.pipeline  # noqa: B018

    @cached_property
    def pipeline(self) -> VideoPipeline:
        """The test pipeline, for whole videos and windows."""
        return VideoPipeline(self.cfg, self._clips)

    @cached_property
    def frame_runner(self) -> FrameRunner:
        """What runs the model on single frames; a ``ValueError`` if it cannot."""
        if self.over in ("segments", "boxes"):
            raise ValueError(f"a model of {self.over} does not answer frame by frame")
        return FrameRunner(self.cfg, self._model)

    def __call__(self, videos: Source | Iterable[Source]) -> Prediction | list[Prediction]:
        """Classify a path or RGB frames (T, H, W, 3) of type uint8, or each of an iterable.

        A model of frames or segments, or one that anticipates, returns what ``timeline`` does, as a
        list.

        Raises:
            FileNotFoundError: If a file does not exist.
            ValueError: If a video cannot be read.
        """
        if not isinstance(videos, Source):
            return [self(video) for video in videos]
        if self.over != "clip" or self._anticipates:
            return list(self.timeline(videos))  # or an error, if it needs boxes
        opened = self.pipeline.open(videos)
        output = self._run(self.pipeline.read(opened))
        return self.to_prediction(output, source=opened.get("filename"))

    def timeline(
        self,
        video: Source,
        window: float | None = None,
        stride: float | None = None,
        fps: float | None = None,
        min_score: float = 0.3,
        skip_static: float | None = None,
        first: int = 0,
    ) -> Iterator[Prediction]:
        """Classify the windows of a long video, each as if it were a video, or its steps.

        The last window ends with the video; a video that is shorter than a window is one window.
        Frames that windows share are decoded once, and computed once if the first stage of the
        model sees frames on their own (``reuse_frames``). Models of frames and segments have no
        windows. A model that anticipates answers after each frame, as in ``stream``.

        Args:
            video: Path or frames.
            window: Length of a window in seconds; default: 2.
            stride: Seconds from one window to the next; default: about half a window, such that
                windows share frames.
            fps: Frames per second of an array.
            min_score: Least score of a segment.
            skip_static: See ``answer_windows``; default: all windows are computed.
            first: Number of windows to leave out.

        Raises:
            FileNotFoundError: If the file does not exist.
            ValueError: If the video cannot be read, its frame rate is unknown, the window or the
                stride is not positive, or one is given to a model without windows.
        """
        self._check_windows(window=window, stride=stride, skip_static=skip_static)
        if self._anticipates:
            yield from self.stream(video if isinstance(video, np.ndarray) else Capture(video), fps)
            return
        opened = self.pipeline.open(video, fps)
        times = times_of(opened)
        answers = list_parts(self.pipeline, self._run, opened, self.over, min_score)
        if self.over == "clip":
            windows = read_ahead(
                (self.pipeline.read(opened, span), times.span(*span))
                for span in self.windows(opened, window, stride)[first:]
            )
            answers = answer_windows(windows, self._run, skip_static)
        for output, where in answers:
            yield self.to_prediction(output, source=opened.get("filename"), **where)

    def windows(
        self, opened: dict, window: float | None = None, stride: float | None = None
    ) -> list[tuple[int, int]]:
        """First and last frame of the windows that ``timeline`` classifies, and its errors.

        ``opened`` is a result of ``pipeline.open``.
        """
        times = times_of(opened)  # which numbers frames by time
        sizes = self._sizes(times.rate, window, stride)
        return list_windows(opened["total_frames"], *sizes)

    def _sizes(self, fps: float, window: float | None, stride: float | None) -> tuple[int, int]:
        frames = frames_of_stage(self._model)
        return in_frames(fps, window, stride, lambda size: self.pipeline.period(size, fps, frames))

    def stream(
        self,
        source: Capture | Iterable[np.ndarray],
        fps: float | None = None,
        window: float | None = None,
        stride: float | None = None,
        delay: float = 0.0,
        skip_static: float | None = None,
        min_score: float = 0.3,
        restart: float | None = None,
    ) -> Iterator[Prediction]:
        """Answer while frames come in.

        - A recurrent model answers after each frame (``frame_by_frame``), of several times ahead
          the farthest first. With a window it is treated as others are.
        - Others classify, after each stride, the last window of frames, or its steps. No window of
          a camera or an address has a gap: where frames are missing, windows begin anew.
        - A model of segments finds each at the end of the first clip that ends ``delay`` after it.

        Args:
            source: A video file, camera or address; or RGB frames (H, W, 3), uint8, which are
                consumed one by one. Those that a window samples are kept.
            fps: Frames per second of frames.
            window: Length of a window in seconds; default: 2.
            stride: Seconds from one prediction to the next; default: as in ``timeline``.
            delay: Of models of frames or segments, without windows: least seconds from the end of a
                step or segment to its prediction. The more, the more they know of what follows.
            skip_static: As in ``timeline``.
            min_score: Least score of a segment.
            restart: See ``frame_by_frame``.

        Raises:
            ValueError: If a frame cannot be read, window, stride or fps is not positive, the delay
                of steps is longer than a clip, or one is given that the model has no use for.
            ConnectionError: If a camera or an address ends before its time.
        """
        self._check_windows(window=window, stride=stride, skip_static=skip_static)
        is_capture = hasattr(source, "frames")
        fps = source.fps if is_capture else fps
        if fps is None:
            raise ValueError("the frame rate of the frames is unknown, set fps")
        name = source.name if is_capture else None
        by_windows = any(value is not None for value in (window, stride, skip_static))
        if self.is_recurrent and not by_windows:
            if delay:
                raise ValueError(f"a recurrent model answers at once, got a delay of {delay:g} s")
            frames = source if is_capture else self.frame_runner.pipeline.take(source, fps)
            for frame in self.frame_by_frame(frames, restart):
                yield from frame.predictions
            return
        if restart is not None:
            raise ValueError("restart is for recurrent models without windows")
        if delay and self.over == "clip":
            raise ValueError(f"delay is for models of frames or segments, got {delay:g} s")
        parts = without_gaps(source.frames()) if is_capture else [(0.0, source)]
        for offset, frames in parts:
            if self.over == "segments":
                model = self._fast or self._model
                answers = stream_segments(self.pipeline, model, frames, fps, delay, min_score)
            elif self.over == "steps":
                answers = stream_steps(self.pipeline, self._run, frames, fps, delay)
            else:
                sizes = self._sizes(fps, window, stride)
                windows = stream_windows(self.pipeline, frames, fps, *sizes)
                answers = answer_windows(windows, self._run, skip_static)
            for output, where in answers:
                prediction = self.to_prediction(output, source=name, **where)
                start, end = prediction.seconds
                yield replace(prediction, seconds=(start + offset, end + offset))

    def frame_by_frame(
        self, source: Capture | Iterable[StreamFrame], restart: float | None = None
    ) -> Iterator[StreamFrame]:
        """Answer after each frame, by a recurrent model.

        The model remembers its state, whose size does not grow (in a causal transformer, if its
        past is bounded). A prediction equals that of the clip of all frames since the start. The
        state is reset when an address comes back after it went away.

        Args:
            source: A video file, camera or address, or frames, which are consumed one by one.
            restart: Interval in seconds at which the state is reset; default: never.

        Yields:
            Each frame that the model sees, with its predictions.

        Raises:
            ValueError: If the model is not recurrent, or ``restart`` is not positive.
        """
        name = source.name if isinstance(source, Capture) else None
        outputs = self.frame_runner.run(lambda: self._fast_frames or self._model, source, restart)
        for frame, start, scores_by_time in outputs:
            is_step = self.over == "steps"
            where = dict(
                source=name,
                seconds=(frame.seconds if is_step else start, frame.seconds),
                so_far=not is_step,
            )
            predictions = [
                to_prediction(
                    scores, self.names, self._model.cls_head, logits=True, ahead=ahead, **where
                )
                for scores, ahead in zip(scores_by_time, self.frame_runner.times_ahead, strict=True)
            ]
            yield frame._replace(predictions=tuple(predictions))

    def boxes(
        self, video: str | Path, second: int, boxes: Sequence[Sequence[float]]
    ) -> list[Prediction]:
        """Classify boxes at a moment of a video, by a model of boxes (``BoxesHead``).

        Args:
            video: Path.
            second: Moment in seconds.
            boxes: Left, top, right and bottom of each, in shares of width and height.

        Raises:
            FileNotFoundError: If the file does not exist.
            ValueError: If the video cannot be read, its frame rate is unknown, or the model is
                none of boxes.
        """
        if self.over != "boxes":
            raise ValueError(f"the model is about {self.over}, not about boxes")
        task, names = next(iter(self.names.items()))
        opened = self.pipeline.open(video)
        times_of(opened)  # which numbers frames by time
        sample = dict(
            opened,
            gt_labels=torch.zeros(len(boxes), len(names)),
            gt_bboxes=np.array(boxes, np.float32).reshape(-1, 4),
            timestamp=second,
            video_id=str(video),
        )
        output = self._run(self.pipeline.read(sample))
        head, where = self._model.cls_head, dict(source=str(video), seconds=(second, second))
        return [
            to_prediction({task: scores[1:]}, self.names, head, box=tuple(map(float, box)), **where)
            for scores, box in zip(output.pred_instances.scores, boxes, strict=True)
        ]

    def to_prediction(self, output: ActionDataSample | InstanceData, **where: Any) -> Prediction:
        """Convert scores of the head, whose place is ``where``, or a segment that it found."""
        if isinstance(output, InstanceData):
            return to_segment(output, self.names, **where)
        scores = output.pred_score
        if not isinstance(scores, dict):
            scores = {next(iter(self.names)): scores}
        return to_prediction(scores, self.names, self._model.cls_head, **where)

    @torch.no_grad()
    def _run(self, sample: dict) -> ActionDataSample:
        data = {key: [value] for key, value in sample.items()}
        (output,) = (self._fast or self._model).test_step(data)
        return output

    def _check_windows(self, **options: float | None) -> None:
        if self.over == "boxes":
            raise ValueError("a model of boxes needs them: recognizer.boxes(video, second, boxes)")
        given = [f"{name}={value:g}" for name, value in options.items() if value is not None]
        if given and (self.over != "clip" or self._anticipates):
            about = "anticipation" if self._anticipates else self.over
            raise ValueError(f"a model of {about} has no windows, got {given[0]}")
