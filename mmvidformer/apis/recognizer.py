"""Predictions of a recognizer for files, arrays, parts of long videos, and running streams."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from mmvidformer.apis.box_answers import BoxAnswers
from mmvidformer.apis.part_clock import without_gaps
from mmvidformer.apis.pipeline import Foreign, Source
from mmvidformer.apis.shots import ShotWindow
from mmvidformer.apis.stream import StreamFrame
from mmvidformer.apis.windows import times_of
from mmvidformer.errors import UserError
from mmvidformer.tasks.prediction import Prediction
from mmvidformer.video.capture import Capture, FrameSource


class Recognizer(BoxAnswers):
    """A trained model, ready to be called on videos.

    - ``recognizer(video)`` answers for a whole video,
    - ``timeline(video)`` for the parts of a long one,
    - ``stream(frames)`` as frames come in, from a generator, a camera or an address,
    - ``boxes(video, seconds, boxes)`` for boxes in it, and ``persons(video)`` for those of persons,
      ``stream_persons(frames)`` as frames come in.

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
            or made (``apis.checkpoint_config``).
        checkpoint: File or address; None: initial weights; ``'published'`` (default): the published
            weights of a shipped config.
        device: Where the model runs, such as ``'cuda:1'``; default: the GPU if there is one.
        names: Class names by task, or files of them (``class_names``); default: those of the
            checkpoint, of the config or of its dataset (``known_names``), or numbers.
        clips: Number of clips to read from each video, with one crop each; default: the views of
            the test pipeline.
        int8: Whether linear layers multiply in 8 bits, on a CPU. Answers differ a little: the first
            ones are computed in float32 too, and if more than a tenth differ, ``TooInexact`` is
            raised (``tasks.changes``).
        static: Parts of clips that change by at most this, in the mean of pixels of 0 to 255, are
            computed once (``fast.run_lengths``). Answers differ, and are compared likewise, the
            first ones and fewer and fewer later. Segments of streams: the first ones.

    Attributes:
        check: How many answers differ, if they do (``SelfCheck``); None: they are exact.
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

        A model of frames or segments, or one that anticipates, returns what ``timeline`` does, as a
        list.

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
        if not self.task.has_windows:
            return list(self.timeline(videos, fps=fps))  # or an error, if it needs boxes
        opened = self.pipeline.open(videos, fps)
        output = self._start()(self.pipeline.read(opened))
        (prediction,) = self._answers(output, source=opened.get("filename"))
        return prediction

    def timeline(
        self,
        video: Source,
        window: float | None = None,
        stride: float | None = None,
        fps: float | None = None,
        min_score: float | None = None,
        skip_static: float | None = None,
        first: int = 0,
        cuts: str | None = None,
    ) -> Iterator[Prediction]:
        """Classify the windows of a long video, each as if it were a video, or its steps.

        No window crosses a cut: the last window of a shot ends with it, and a shot that is shorter
        than a window is one window. Frames that windows share are decoded once, and computed once
        if the first stage of the model sees frames on their own (``SharedFrames``). Models of
        frames and segments have no windows. A model that anticipates answers after each frame.

        Args:
            video: Path or frames.
            window: Length of a window in seconds; default: 2.
            stride: Seconds from one window to the next; default: about half a window, such that
                windows share frames.
            fps: Frames per second of an array.
            min_score: Least score of segments that a model finds; default: 0.3.
            skip_static: See ``answer_windows``; default: all windows are computed.
            first: Number of windows to leave out at the start, to go on with an earlier run.
            cuts: How cuts are found (``video.cuts.find_cuts``); default: ``'content'``. All frames
                are decoded for it. ``'none'``: a video is one shot.

        Raises:
            FileNotFoundError: If the file does not exist.
            UserError: If the video cannot be read, its frame rate is unknown, the window or the
                stride is not positive, or one is given to a model without windows.

        Errors are raised when the first prediction is asked for.
        """
        options = dict(window=window, stride=stride, skip_static=skip_static)
        self.check_windows(options)
        if self.task.is_about_future:
            yield from self.stream(video if isinstance(video, np.ndarray) else Capture(video), fps)
            return
        opened = self.pipeline.open(video, fps)
        times_of(opened)  # changes ``opened``: frames are numbered at a constant rate
        options.update(min_score=self.least_score(min_score), first=first, cuts=cuts)
        for output, where in self.task.parts(self._part_reader(), opened, options):
            yield from self._answers(output, source=opened.get("filename"), **where)

    def windows(
        self,
        opened: dict,
        window: float | None = None,
        stride: float | None = None,
        cuts: str | None = None,
    ) -> list[ShotWindow]:
        """Return the first and last frame, and the shot, of each window of ``timeline``.

        ``opened`` is a result of ``pipeline.open``. Errors are those of ``timeline``.
        """
        return self._part_reader().windows(opened, window, stride, cuts)

    def stream(
        self,
        source: FrameSource | Iterable[np.ndarray],
        fps: float | None = None,
        window: float | None = None,
        stride: float | None = None,
        delay: float = 0.0,
        skip_static: float | None = None,
        min_score: float | None = None,
        restart: float | None = None,
        cuts: str | None = None,
    ) -> Iterator[Prediction]:
        """Answer while frames come in.

        - A recurrent model answers after each frame (``frame_by_frame``). If it predicts several
          times ahead, there is a prediction for each, the farthest first. With ``window``,
          ``stride`` or ``skip_static`` it classifies windows, as other models do.
        - Others classify, after each stride, the last window of frames, or its steps. No window of
          a camera or an address has a gap or a cut: windows begin anew after it.
        - A model of segments finds each at the end of the first clip that ends ``delay`` after it.

        Args:
            source: A video file, camera or address (``Capture``, or another ``FrameSource``); or
                RGB frames (H, W, 3), uint8, which are consumed one by one. Those that a window
                samples are kept.
            fps: Frames per second of frames; a ``Capture`` knows its own.
            window: Length of a window in seconds; default: 2.
            stride: Seconds from one prediction to the next; default: as in ``timeline``.
            delay: Of models of frames or segments, without windows: least seconds from the end of a
                step or segment to its prediction. The more, the more they know of what follows.
            skip_static: As in ``timeline``.
            min_score: Least score of segments that a model finds; default: 0.3.
            restart: See ``frame_by_frame``.
            cuts: ``'content'`` (default) or ``'none'``; see ``timeline``.

        Raises:
            UserError: If a frame cannot be read, window, stride or fps is not positive, the delay
                of steps is longer than a clip, or one is given that the model has no use for.
            ConnectionError: If a camera or an address ends before its time.

        Errors are raised when the first prediction is asked for.
        """
        options = dict(window=window, stride=stride, skip_static=skip_static)
        self.check_windows(options)
        by_windows = any(value is not None for value in options.values())
        has_times = isinstance(source, FrameSource)
        name = source.name if has_times else None
        fps = source.fps if has_times else fps
        if fps is None:
            raise UserError("the frame rate of the frames is unknown, set fps")
        if self.is_recurrent and not by_windows:
            if delay:
                raise UserError(f"a recurrent model answers at once, got a delay of {delay:g} s")
            frames = source if has_times else self.frame_runner.pipeline.take(source, fps)
            for frame in self.frame_by_frame(frames, restart):
                yield from frame.predictions
            return
        if restart is not None:
            raise UserError("restart is for recurrent models without windows")
        options.update(delay=delay, min_score=self.least_score(min_score), cuts=cuts)
        for part in without_gaps(source) if has_times else [source]:
            for output, where in self.task.stream_parts(self._part_reader(), part, fps, options):
                for prediction in self._answers(output, source=name, **where):
                    if has_times:
                        ends = part.seconds(prediction.start), part.seconds(prediction.end)
                        prediction = replace(prediction, seconds=ends)
                    yield prediction

    def frame_by_frame(
        self, source: FrameSource | Iterable[StreamFrame], restart: float | None = None
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
            UserError: If the model is not recurrent, or ``restart`` is not positive.
        """
        name = source.name if isinstance(source, FrameSource) else None
        outputs = self.frame_runner.run(lambda: self.fast_model, source, restart, self.check)
        so_far = self.task.is_about_past
        for frame, start, scores_by_time in outputs:
            seconds = (start if so_far else frame.seconds, frame.seconds)
            where = dict(source=name, seconds=seconds, so_far=so_far)
            predictions = [
                self.task.predict(scores, self.names, ahead=ahead, **where)
                for scores, ahead in zip(scores_by_time, self.frame_runner.times_ahead, strict=True)
            ]
            yield frame._replace(predictions=tuple(predictions))
