"""Predictions of a recognizer for files, arrays, windows of long videos, and running streams."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmaction.structures import ActionDataSample
from mmengine.config import Config
from mmengine.structures import InstanceData

from mmvidformer.apis.factory import PUBLISHED, LoadedModel
from mmvidformer.apis.pipeline import Source, VideoPipeline
from mmvidformer.apis.predictions import Prediction, to_prediction, to_segment
from mmvidformer.apis.windows import (
    answer_windows,
    in_frames,
    last_frames,
    list_parts,
    list_windows,
    rate_of,
    read_ahead,
    stream_segments,
    stream_steps,
)
from mmvidformer.models.inference import frames_of_stage, reuse_frames


class Recognizer(LoadedModel):
    """A trained model, ready to be called on videos.

    A model of frames (``FramesHead``) gives a prediction for each step of time, one of segments
    (``SegmentsHead``) for each segment that it finds, and one of boxes for each box (``boxes``).

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
        pipeline: The test pipeline.

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
        if self._anticipates:
            raise ValueError("the model predicts what comes next; use mmvidformer stream")
        if frames_of_stage(self._model):
            self._fast = reuse_frames(self._fast or self._model)
        self.pipeline = VideoPipeline(self.cfg, clips)

    def __call__(self, videos: Source | Iterable[Source]) -> Prediction | list[Prediction]:
        """Classify a path or RGB frames (T, H, W, 3) of type uint8, or each of an iterable.

        A model of frames or segments returns what ``timeline`` does, as a list.

        Raises:
            FileNotFoundError: If a file does not exist.
            ValueError: If a video cannot be read.
        """
        if not isinstance(videos, Source):
            return [self(video) for video in videos]
        if self.over != "clip":
            return list(self.timeline(videos))  # or an error, if it needs boxes
        opened = self.pipeline.open(videos)
        found = self._run(self.pipeline.read(opened))
        return self.to_prediction(found, source=opened.get("filename"))

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
        windows.

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
        self._check_steps(window=window, stride=stride, skip_static=skip_static)
        opened = self.pipeline.open(video, fps)
        fps = rate_of(opened)
        answers = list_parts(self.pipeline, self._run, opened, self.over, min_score)
        if self.over == "clip":
            windows = read_ahead(
                (self.pipeline.read(opened, one), (one[0] / fps, (one[1] + 1) / fps))
                for one in self.windows(opened, window, stride)[first:]
            )
            answers = answer_windows(windows, self._run, skip_static)
        for found, where in answers:
            yield self.to_prediction(found, source=opened.get("filename"), **where)

    def windows(
        self, opened: dict, window: float | None = None, stride: float | None = None
    ) -> list[tuple[int, int]]:
        """First and last frame of the windows that ``timeline`` classifies, and its errors.

        ``opened`` is a result of ``pipeline.open``.
        """
        sizes = self._sizes(rate_of(opened), window, stride)  # which numbers frames by time
        return list_windows(opened["total_frames"], *sizes)

    def _sizes(self, fps: float, window: float | None, stride: float | None) -> tuple[int, int]:
        frames = frames_of_stage(self._model)
        return in_frames(fps, window, stride, lambda size: self.pipeline.period(size, fps, frames))

    def stream(
        self,
        frames: Iterable[np.ndarray],
        fps: float,
        window: float | None = None,
        stride: float | None = None,
        delay: float = 0.0,
        skip_static: float | None = None,
        min_score: float = 0.3,
    ) -> Iterator[Prediction]:
        """Classify a running stream: after each stride the last window of frames, or its steps.

        A model of segments finds each at the end of the first clip that ends ``delay`` after it.

        Args:
            frames: RGB frames (H, W, 3), uint8; consumed one by one. Those that a window samples
                are kept.
            fps: Frames per second.
            window: Length of a window in seconds; default: 2.
            stride: Seconds from one prediction to the next; default: as in ``timeline``.
            delay: Of models of frames or segments, without windows: least seconds from the end of a
                step or segment to its prediction. The more, the more they know of what follows.
            skip_static: As in ``timeline``.
            min_score: Least score of a segment.

        Raises:
            ValueError: If a frame cannot be read, window, stride or fps is not positive, the delay
                of steps is longer than a clip, or one is given that the model has no use for.
        """
        self._check_steps(window=window, stride=stride, skip_static=skip_static)
        if self.over == "segments":
            model = self._fast or self._model
            answers = stream_segments(self.pipeline, model, frames, fps, delay, min_score)
        elif self.over == "steps":
            answers = stream_steps(self.pipeline, self._run, frames, fps, delay)
        else:
            if delay:
                raise ValueError(f"delay is for models of frames or segments, got {delay:g} s")
            size, step = self._sizes(fps, window, stride)
            sampled = self.pipeline.sample(size, fps)
            places = sampled["frame_inds"].flatten().tolist()
            windows = (
                (self.pipeline.read_frames(kept, sampled), ((count - size) / fps, count / fps))
                for count, kept in last_frames(frames, size, step, places)
            )
            answers = answer_windows(windows, self._run, skip_static)
        for found, where in answers:
            yield self.to_prediction(found, **where)

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
        truth = dict(gt_labels=torch.zeros(len(boxes), len(names)), timestamp=second)
        given = dict(gt_bboxes=np.array(boxes, np.float32).reshape(-1, 4), video_id=str(video))
        opened = self.pipeline.open(video)
        rate_of(opened)
        found = self._run(self.pipeline.read({**opened, **truth, **given}))
        head, where = self._model.cls_head, dict(source=str(video), seconds=(second, second))
        return [
            to_prediction({task: scores[1:]}, self.names, head, box=tuple(map(float, box)), **where)
            for scores, box in zip(found.pred_instances.scores, boxes, strict=True)
        ]

    def to_prediction(self, sample: ActionDataSample | InstanceData, **where: Any) -> Prediction:
        """Convert scores of the head, whose place is ``where``, or a segment that it found."""
        if isinstance(sample, InstanceData):
            return to_segment(sample, self.names, **where)
        scores = sample.pred_score
        if not isinstance(scores, dict):
            scores = {next(iter(self.names)): scores}
        return to_prediction(scores, self.names, self._model.cls_head, **where)

    @torch.no_grad()
    def _run(self, sample: dict) -> ActionDataSample:
        data = {key: [value] for key, value in sample.items()}
        (found,) = (self._fast or self._model).test_step(data)
        return found

    def _check_steps(self, **given: float | None) -> None:
        if self.over == "boxes":
            raise ValueError("a model of boxes needs them: recognizer.boxes(video, second, boxes)")
        wrong = [f"{name}={value:g}" for name, value in given.items() if value is not None]
        if wrong and self.over != "clip":
            raise ValueError(f"a model of {self.over} has no windows, got {wrong[0]}")
