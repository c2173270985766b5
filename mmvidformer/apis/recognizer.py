"""Predictions of a recognizer for files, arrays, parts of long videos, and running streams."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mmvidformer.apis.loaded_model import LoadedModel
from mmvidformer.apis.part_clock import until_error, without_gaps
from mmvidformer.apis.parts import PartReader
from mmvidformer.apis.pipeline import Foreign, Source
from mmvidformer.apis.shots import ShotWindow
from mmvidformer.errors import UserError
from mmvidformer.tasks.answers import asks_windows
from mmvidformer.tasks.prediction import Prediction
from mmvidformer.video.capture import Capture, FrameSource


class Recognizer(LoadedModel):
    """A trained model, ready to be called on videos.

    - ``recognizer(video)`` answers for a whole video,
    - ``timeline(video)`` for the parts of a long one,
    - ``answers(video)`` for either, as the task of the model has it,
    - ``stream(frames)`` as frames come in, from a generator, a camera or an address.

    All give ``Prediction``. Parts are windows; of a model of frames (``FramesHead``) the steps of
    time, of one of segments (``SegmentsHead``) the segments that it finds, of one of boxes
    (``BoxesHead``) boxes of persons. A recurrent model (HORST or a causal transformer) answers
    after each frame: what it saw so far, or, if it anticipates, what comes next.

    Videos are read by the config's test pipeline, with all its views, so that the scores are those
    of ``mmvidformer test``. As there, the model runs as ``optimize_for_inference`` makes it, until
    you read the attribute ``model``: you may train it, or add hooks or LoRA. ``repr`` tells.
    Threads may share a recognizer.

    Args:
        config: A config, its file, or the name of a shipped config; or a HuggingFace folder or the
            address of a checkpoint (``mmvidformer.checkpoints.addresses``), whose config is found
            or made (``apis.checkpoint_config``).
        checkpoint: File or address; None: initial weights; ``'published'`` (default): the published
            weights of a shipped config.
        device: Where the model runs, such as ``'cuda:1'``; default: the GPU if there is one.
        names: Class names by task, or files of them (``class_names``); default: those of the
            checkpoint, of the config or of its dataset (``known_names``), or numbers.
        clips: Number of clips to read from each video, with one crop each; default: the views of
            the test pipeline.
        int8: Whether linear layers multiply in 8 bits, on a CPU. Answers differ a little;
            ``mmvidformer speed`` measures how many.
        static: Parts of clips that change by at most this, in the mean of pixels of 0 to 255, are
            computed once (``fast.run_lengths``). Answers differ; measure likewise.

    Attributes:
        task: What a prediction is about (``mmvidformer.tasks``).
        is_recurrent: Whether the model answers frame by frame.
        pipeline: The test pipeline, for whole videos and windows.
        frame_runner: What reads single frames, and runs a recurrent model on them.

    Raises:
        KeyError: If the config has no published weights.
        OSError: If the checkpoint does not exist, or cannot be fetched.
        UserError: If the weights do not fit the model, the model does not classify videos, or
            there are not as many names as classes.
    """

    def __call__(
        self, videos: Source | Iterable[Source], fps: float | None = None
    ) -> Prediction | list[Prediction]:
        """Classify a path or RGB frames (T, H, W, 3) of type uint8, or each of an iterable.

        A model of frames, segments or boxes, or one that anticipates, returns what ``timeline``
        does, as a list.

        Args:
            videos: A video, or several.
            fps: Frames per second of arrays. Models of frames and segments need it.

        Raises:
            FileNotFoundError: If a file does not exist.
            TypeError: If it is a tensor, the content of a file, or a file object.
            UserError: If a video cannot be read, or its frame rate is needed and unknown.
        """
        if not isinstance(videos, Source | Foreign):
            return [self(video, fps) for video in videos]
        predictions = list(self.answers(videos, fps))
        is_whole = predictions and predictions[0].seconds is None
        return predictions[0] if is_whole else predictions

    def answers(
        self,
        video: Source,
        fps: float | None = None,
        first: int = 0,
        in_parts: bool = False,
        **options: Any,
    ) -> Iterator[Prediction]:
        """Answer for a video: as a whole, or for its parts if the task or the options ask for it.

        Args:
            video: Path or frames.
            fps: Frames per second of an array.
            first: As of ``timeline``.
            in_parts: Whether parts are asked for.
            **options: Those of ``timeline``.

        Raises:
            Exception: As ``timeline``, when the first prediction is asked for.
        """
        asked = self._check_options(options)
        if self.task.is_about_future:
            if not isinstance(video, str | Path | np.ndarray):
                raise UserError("a model that anticipates reads local files only")
            yield from self.stream(video if isinstance(video, np.ndarray) else Capture(video), fps)
            return
        source = None
        if isinstance(video, Source) and not isinstance(video, np.ndarray):
            source = str(getattr(video, "filename", video))
        if not in_parts and self.task.is_whole(asked):
            sample = self.pipeline.read(self.pipeline.open(video, fps))
            yield from self.predictions_of(*self.run_samples([sample]), source=source)
            return
        asked["first"] = first
        for output, where in self.task.parts(PartReader(self), video, fps, asked):
            yield from self.predictions_of(output, source=source, **where)

    def timeline(
        self,
        video: Source,
        window: float | None = None,
        stride: float | None = None,
        fps: float | None = None,
        first: int = 0,
        **options: Any,
    ) -> Iterator[Prediction]:
        """Answer for the parts of a long video: windows, each as if it were a video, or others.

        No window crosses a cut: the last window of a shot ends with it, and a shot that is shorter
        than a window is one window. Frames that windows share are decoded once, and computed once
        if the first stage of the model sees frames on their own (``SharedFrames``). Models of
        frames, segments and boxes have no windows. A model that anticipates answers after each
        frame.

        Args:
            video: Path or frames; of a model of boxes a path.
            window: Length of a window in seconds; default: 2.
            stride: Seconds from one window to the next; default: about half a window, such that
                windows share frames.
            fps: Frames per second of an array.
            first: Number of windows to leave out at the start, to go on with an earlier run.
            **options: Further ones, which other tasks take. None is an option that is not given.

                - ``cuts``: of windows and of persons who are followed, how cuts are found
                  (``video.cuts.find_cuts``); default: ``'content'``. All frames are decoded for it.
                  ``'none'``: a video is one shot.
                - ``min_score``: least score of segments that a model finds; default: 0.3.
                - ``boxes``: the boxes to answer for, a list of ``StatedBoxes``, whose tracks are
                  kept. Default: those of persons, whom a detector finds. The first time its weights
                  are downloaded (``apis.detector``).
                - ``rate``: how often a second persons are looked for, at most as often as there are
                  frames; default: 1, with ``track`` 5.
                - ``track``: whether to number the persons (``apis.tracks``), for
                  ``Prediction.track``. No clip crosses a cut then.

        Raises:
            FileNotFoundError: If the file does not exist.
            MissingPackage: If the package that follows persons is not installed.
            UserError: If the video cannot be read, its frame rate is unknown, a number is not
                positive, or an option is not for the task.

        Errors are raised when the first prediction is asked for.
        """
        options |= dict(window=window, stride=stride)
        return self.answers(video, fps, first, in_parts=True, **options)

    def windows(
        self, opened: dict, window: float | None = None, stride: float | None = None, **options: Any
    ) -> list[ShotWindow]:
        """Return the first and last frame, and the shot, of each window of ``timeline``.

        ``opened`` is a result of ``pipeline.open``. Errors are those of ``timeline``.
        """
        return PartReader(self).windows(opened, dict(options, window=window, stride=stride))

    def stream(
        self,
        source: FrameSource | Iterable[np.ndarray],
        fps: float | None = None,
        window: float | None = None,
        stride: float | None = None,
        restart: float | None = None,
        **options: Any,
    ) -> Iterator[Prediction]:
        """Answer while frames come in.

        - A recurrent model answers after each frame (``frame_by_frame``). If it predicts several
          times ahead, there is a prediction for each, the farthest first. With ``window``
          or ``stride`` it classifies windows, as other models do.
        - Others classify, after each stride, the last window of frames, or its steps. No window of
          a camera or an address has a gap or a cut: windows begin anew after it.
        - A model of segments finds each at the end of the first clip that ends ``delay`` after it.
        - A model of boxes finds persons, and classifies their boxes half a clip later. Nobody is
          followed over a gap of a camera or an address.

        When the frames end or break off, what waits is answered; then their error is raised.

        Args:
            source: A video file, camera or address (``Capture``, or another ``FrameSource``); or
                RGB frames (H, W, 3), uint8, which are consumed one by one. Those that a window
                samples are kept.
            fps: Frames per second of frames; a ``Capture`` knows its own.
            window: Length of a window in seconds; default: 2.
            stride: Seconds from one prediction to the next; default: as in ``timeline``.
            restart: See ``frame_by_frame``.
            **options: Those of ``timeline`` but ``boxes``, with cuts ``'content'`` (default) or
                ``'none'``; and ``delay`` of models of frames or segments: least seconds from the
                end of a step or segment to its prediction, default 0. The more, the more they know
                of what follows.

        Raises:
            UserError: If a frame cannot be read, or has another size than those before it; window,
                stride or fps is not positive; the delay of steps is longer than a clip; or an
                option is not for the task.
            ConnectionError: If a camera or an address ends before its time.

        Errors are raised when the first prediction is asked for.
        """
        asked = self._check_options(dict(options, window=window, stride=stride))
        has_times = isinstance(source, FrameSource)
        name = source.name if has_times else None
        fps = source.fps if has_times else fps
        if fps is None:
            raise UserError("the frame rate of the frames is unknown, set fps")
        if self.is_frame_by_frame(asked):
            if asked.get("delay"):
                raise UserError(f"a recurrent model answers at once, got delay {asked['delay']:g}")
            frames = source if has_times else self.frame_runner.pipeline.take(source, fps)
            for frame in self.frame_by_frame(frames, restart):
                yield from frame.predictions
            return
        if restart is not None:
            raise UserError("restart is for recurrent models without windows")
        reader = PartReader(self)
        errors: list[BaseException] = []
        parts = without_gaps(source, errors) if has_times else [until_error(source, errors)]
        for part in parts:
            for output, where in self.task.stream_parts(reader, part, fps, asked):
                for prediction in self.predictions_of(output, source=name, **where):
                    if has_times:
                        ends = part.seconds(prediction.start), part.seconds(prediction.end)
                        prediction = replace(prediction, seconds=ends)
                    yield prediction
        if errors:
            raise errors[0]

    def has_windows(self, options: dict[str, Any], in_parts: bool = False) -> bool:
        """Whether ``answers`` answers for windows with these options."""
        return self.task.has_windows and (in_parts or asks_windows(options))

    def is_frame_by_frame(self, options: dict[str, Any]) -> bool:
        """Whether ``stream`` answers after each frame with these options."""
        return self.is_recurrent and not asks_windows(options)

    def frames_late(self, fps: float, options: dict[str, Any]) -> int:
        """Return how many frames after a frame of ``stream`` what is drawn on it is known."""
        if self.is_frame_by_frame(options):
            return 1
        return self.task.frames_late(PartReader(self), fps, options)

    def _check_options(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options that are given; raise a ``UserError`` if one is not for the task."""
        asked = {
            name: value
            for name, value in options.items()
            if value is not None and value is not False
        }
        self.task.check_options(asked)
        return asked
