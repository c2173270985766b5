"""Answers of a recurrent model as frames come in, with constant memory and time per frame."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from mmengine.config import Config
from torch import Tensor, nn

from mmvidformer.apis.pipeline import build_all, inference_transforms, normalize
from mmvidformer.config.building import building
from mmvidformer.errors import UserError
from mmvidformer.layers.stream import join_states, shapes_of, split_states
from mmvidformer.tasks.answers import Answers
from mmvidformer.tasks.prediction import Prediction
from mmvidformer.video.capture import FrameSource
from mmvidformer.video.times import FrameTimes

Scores = dict[str, Tensor]  # logits by task


class Step(NamedTuple):
    """What a model is asked for a frame of a stream.

    Attributes:
        inputs: Those of a ``StreamFrame``.
        is_first: Whether the state is to be reset before it.
    """

    inputs: Tensor
    is_first: bool


class StreamRow:
    """The state of one stream, which is a row of a batch while a step runs.

    Args:
        run: Runs steps, each a frame and the state before it, together with others
            (``FrameRunner.step``).
    """

    def __init__(self, run: Callable[[list[tuple[Tensor, Any]]], Sequence]) -> None:
        self._run, self._state = run, None

    def run(self, step: Step) -> Scores:
        """Return logits (times, classes) by task."""
        state = None if step.is_first else self._state
        ((scores, self._state),) = self._run([(step.inputs, state)])
        return scores


class StreamFrame(NamedTuple):
    """A frame of a stream, and what the model predicts after it.

    Attributes:
        number: Number of the frame in the source, from 0.
        seconds: Time since the first frame of the source.
        inputs: RGB pixels, uint8, in the format of the config: (1, 3, 1, H, W) or (1, 3, H, W).
        predictions: Empty until the model has seen the frame. One prediction per time ahead, the
            farthest first; a single one if the model names no time.
    """

    number: int
    seconds: float
    inputs: Tensor
    predictions: tuple[Prediction, ...] = ()

    @property
    def picture(self) -> np.ndarray:
        """RGB pixels (H, W, 3), uint8: what the model sees."""
        size = self.inputs.shape[-2:]
        return np.ascontiguousarray(self.inputs.reshape(3, *size).permute(1, 2, 0).cpu().numpy())


class FramePipeline:
    """The part of a config's test pipeline that follows decoding, for one frame at a time.

    How often a frame is taken is ``time_step`` of ``ObserveBefore``, or ``frame_interval`` of
    ``ObserveFirst`` or ``SampleFrames``, at their ``target_fps`` if they have one.

    Attributes:
        frame_interval: Frames of the source from one step to the next.
        time_step: Seconds from one step to the next; None if frames are counted.

    Raises:
        UserError: If the config has no pipeline, or it does not decode or sample frames.
    """

    def __init__(self, cfg: Config) -> None:
        with building(cfg):
            transforms = build_all(inference_transforms(cfg))
        names = [type(transform).__name__ for transform in transforms]
        start = next((i for i, name in enumerate(names, 1) if name.endswith("Decode")), 0)
        options = [vars(transform) for transform in transforms[:start]]
        sampler = next((o for o in options if o.get("time_step") or o.get("frame_interval")), None)
        if sampler is None:
            steps = "ObserveFirst, ObserveBefore or SampleFrames, and decode images"
            raise UserError(f"the test pipeline must have {steps}, got {', '.join(names)}")
        self.frame_interval = sampler.get("frame_interval") or 1
        self.time_step = sampler.get("time_step")
        if sampler.get("target_fps"):
            self.time_step = FrameTimes(sampler["target_fps"]).seconds(self.frame_interval)
        transforms[-1].meta_keys = ()  # they describe clips
        self._transforms = transforms[start:]

    def rate(self, fps: float) -> float:
        """Steps per second of a source with ``fps`` frames per second."""
        return 1 / self.time_step if self.time_step else fps / self.frame_interval

    def __call__(self, pixels: np.ndarray) -> Tensor:
        """Transform RGB pixels (H, W, 3), uint8, to the inputs of a ``StreamFrame``.

        Raises:
            UserError: If the transforms do not make exactly one view of the frame.
        """
        size = pixels.shape[:2]
        sample = {"imgs": [pixels], "original_shape": size, "img_shape": size, "modality": "RGB"}
        sample.update(num_clips=1, clip_len=1, frame_inds=np.zeros(1, int))
        for transform in self._transforms:
            sample = transform(sample)
        inputs = torch.as_tensor(sample["inputs"])
        height, width = inputs.shape[-2:]
        if inputs.numel() != 3 * height * width:
            raise UserError(
                "a stream needs one view of each frame, but the test pipeline makes inputs of "
                f"shape {tuple(inputs.shape)}; use one crop, and FormatShape NCTHW or NCHW"
            )
        return inputs

    def read(self, source: FrameSource) -> Iterator[StreamFrame]:
        """Read and transform the frames of a source that are steps of the model.

        Raises:
            UserError: If a file has fewer frames per second than the model has steps.
        """
        if not source.is_live:
            self._check_rate(source.fps, source.name)
        for number, seconds, pixels in source.frames(self.frame_interval, self.time_step):
            yield StreamFrame(number, seconds, self(pixels))

    def take(self, frames: Iterable[np.ndarray], fps: float) -> Iterator[StreamFrame]:
        """Transform those of RGB frames (H, W, 3), uint8, that are steps of the model.

        Raises:
            UserError: If there are fewer frames per second than the model has steps.
        """
        self._check_rate(fps, "the stream")
        times = FrameTimes(fps)
        due = 0.0  # seconds of the next step, if steps have a time
        for number, pixels in enumerate(frames):
            seconds = times.seconds(number)
            is_step = number % self.frame_interval == 0
            if self.time_step:  # the first frame at or after each multiple, as of Capture.frames
                now = seconds + 1e-6
                is_step = now >= due
                due = (now // self.time_step + 1) * self.time_step if is_step else due
            if is_step:
                yield StreamFrame(number, seconds, self(pixels))

    def _check_rate(self, fps: float, name: str) -> None:
        rate = self.rate(fps)
        if rate > 1.01 * fps:  # 23.976 will do for 24
            raise UserError(f"{name} has {fps:g} frames per second, but the config takes {rate:g}")


class FrameRunner:
    """A recurrent model (HORST or a causal transformer) that takes frames one by one.

    Args:
        cfg: A config whose test pipeline reads frames.
        model: Its recognizer, which is recurrent.
        task: What it answers.

    Attributes:
        pipeline: What reads the frames.
        steps_ahead: Numbers of time steps to the actions that the head names, the farthest first;
            empty if it names none.

    Raises:
        UserError: If the test pipeline does not read frames.
    """

    def __init__(self, cfg: Config, model: nn.Module, task: Answers) -> None:
        self.task = task
        self.pipeline = FramePipeline(cfg)
        self.steps_ahead: list[int] = []
        if cfg.model.cls_head.get("classifier") == "unrolling":
            self.steps_ahead = list(range(model.cls_head.times, 0, -1))
            if self.pipeline.time_step is None:
                raise UserError("unrolling needs a test pipeline with ObserveBefore")

    @property
    def times_ahead(self) -> list[float | None]:
        """Seconds to the actions that the head names; a single None if it names no time."""
        return [steps * self.pipeline.time_step for steps in self.steps_ahead] or [None]

    def run(
        self,
        run: Callable[[Step], Scores],
        source: FrameSource | Iterable[StreamFrame],
        restart: float | None,
    ) -> Iterator[tuple[StreamFrame, float, list[Scores]]]:
        """Run the model on each frame.

        Args:
            run: That of an ``StreamRow``.
            source: A video file, camera or address, or frames, which are consumed one by one.
            restart: Interval in seconds at which the state is reset; None: never.

        Yields:
            The frame, the time of the first one that the state knows, and logits by time ahead.
        """
        if restart is not None and restart <= 0:
            raise UserError(f"restart must be positive, got {restart} s")
        frames, cuts = source, list[int]()
        if isinstance(source, FrameSource):
            frames, cuts = self.pipeline.read(source), source.cuts
        start, last, size = None, -1, None
        for frame in frames:
            is_cut = any(last < number <= frame.number for number in cuts)
            is_over = restart and start is not None and frame.seconds - start > restart - 1e-6
            is_first = start is None or is_cut or bool(is_over)
            height_width = tuple(frame.inputs.shape[-2:])
            if not is_first and height_width != size:
                this = f"frame {frame.number} has height and width {height_width}"
                raise UserError(f"{this}, those before it {size}; a stream has one size")
            start, last = frame.seconds if is_first else start, frame.number
            size = height_width
            yield frame, start, self._by_time(run(Step(frame.inputs, is_first)))

    @torch.no_grad()
    def step(
        self, model: nn.Module, requests: Sequence[tuple[Tensor, Any]]
    ) -> list[tuple[Scores, Any]]:
        """Run a model on frames of several streams; those of equal shapes go through it together.

        Args:
            model: The model.
            requests: Inputs of a ``StreamFrame``, and the state before it, of each stream.

        Returns:
            Logits (times, classes) by task, and the new state, of each stream.
        """
        groups: dict[Any, list[int]] = {}
        for number, (inputs, state) in enumerate(requests):
            groups.setdefault((inputs.shape, shapes_of(state)), []).append(number)
        results: dict[int, tuple[Scores, Any]] = {}
        for numbers in groups.values():
            inputs, states = zip(*(requests[number] for number in numbers), strict=True)
            clips = normalize(model, torch.cat(inputs))  # (B, 3, 1, H, W) or (B, 3, H, W)
            clips = clips.reshape(len(numbers), -1, *clips.shape[-2:])
            outputs, state = model.stream(clips, join_states(states))
            states = split_states(state, len(numbers))
            for row, (number, state) in enumerate(zip(numbers, states, strict=True)):
                output = type(outputs)(*(part[row : row + 1] for part in outputs))
                scores = self.task.frame_scores(model.cls_head, output, self.steps_ahead)
                results[number] = scores, state
        return [results[number] for number in range(len(requests))]

    def _by_time(self, scores: Scores) -> list[Scores]:
        scores_by_time = []
        for number in range(len(self.times_ahead)):
            scores_by_time.append({task: rows[number] for task, rows in scores.items()})
        return scores_by_time
