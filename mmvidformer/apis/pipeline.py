"""The test pipeline of a config, applied to files, arrays and single frames."""

import logging
import sys
from collections.abc import Iterator, Sequence
from copy import copy, deepcopy
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from mmengine.config import Config
from mmengine.dataset import Compose
from torch import Tensor, nn

from mmvidformer.apis.predictions import Prediction
from mmvidformer.config import config_scope, pipelines, type_name
from mmvidformer.engine.pipelines import set_views
from mmvidformer.video.capture import Capture
from mmvidformer.video.errors import first_line

logger = logging.getLogger("mmvidformer")

Source = str | Path | np.ndarray


def inference_transforms(cfg: Config, clips: int | None = None) -> list[dict]:
    """Copy the transforms that inference applies to a video.

    Args:
        cfg: A recognition config.
        clips: None: the test pipeline with all its views. A number: the validation pipeline with
            this number of evenly spread clips, and the center crop of each. If the config has only
            one of the two, that one is used.

    Raises:
        ValueError: If the config has neither pipeline, or a number of clips cannot be set.
    """
    names = ["test_dataloader", "val_dataloader"]
    loaders = (cfg.get(name) or {} for name in (names if clips is None else reversed(names)))
    found = [p for loader in loaders for p in pipelines(loader.get("dataset", {}))]
    if not found:
        raise ValueError(f"the config has no pipeline in {' or '.join(names)}")
    holder = Config({"test_pipeline": deepcopy(list(found[0]))})
    if clips is not None:
        set_views(holder, clips, 1)
    return holder.test_pipeline


def normalize(model: nn.Module, clips: Tensor) -> Tensor:
    """Apply a recognizer's preprocessor to clips (N, C, T, H, W) of a pipeline."""
    data = model.data_preprocessor({"inputs": [clips], "data_samples": None}, training=False)
    return data["inputs"][0]


class VideoPipeline:
    """The pipeline of a config for video files and arrays.

    Args:
        cfg: A recognition config that reads video files.
        clips: See ``inference_transforms``.

    Raises:
        ValueError: If the config has no pipeline, or the pipeline does not read video files.
    """

    def __init__(self, cfg: Config, clips: int | None = None) -> None:
        transforms = inference_transforms(cfg, clips)
        names = [type_name(transform) for transform in transforms]
        start = next((i for i, name in enumerate(names, 1) if name.endswith("Init")), None)
        if start is None:
            raise ValueError(f"the test pipeline does not read video files: {', '.join(names)}")
        transforms[-1]["meta_keys"] = (*transforms[-1].get("meta_keys", ()), "frame_inds")
        rest = transforms[start:]
        if "LimitToSegment" not in names:
            rest.insert(0, {"type": "mmvidformer.LimitToSegment"})
        decode = next(i for i, t in enumerate(rest) if type_name(t).endswith("Decode"))
        with config_scope(cfg):
            self._open, self._sample = Compose(transforms[:start]), Compose(rest[:decode])
            self._from_file = Compose(rest[decode:])
            self._from_array = Compose([{"type": "ArrayDecode"}, *rest[decode + 1 :]])

    def open(self, source: Source, fps: float | None = None) -> dict:
        """Open a video file, or RGB frames (T, H, W, 3), uint8, at ``fps`` frames per second.

        Returns:
            A sample for MMAction2's transforms, with ``total_frames`` and ``avg_fps`` (or None).

        Raises:
            FileNotFoundError: If the file does not exist.
            ValueError: If the source cannot be read as a video.
        """
        sample = {"label": -1, "start_index": 0, "modality": "RGB"}
        if isinstance(source, np.ndarray):
            if source.ndim != 4 or source.shape[-1] != 3 or source.dtype != np.uint8:
                found = f"{source.shape} of {source.dtype}"
                raise ValueError(f"an array must be (T, H, W, 3) of type uint8, got {found}")
            sample.update(array=source, total_frames=len(source), avg_fps=fps)
        elif not Path(source).is_file():
            raise FileNotFoundError(f"video {source} does not exist")
        elif not Path(source).stat().st_size:
            raise ValueError(f"cannot read {source} as a video: the file is empty")
        else:
            sample = _apply(self._open, {**sample, "filename": str(source)})
        if not sample["total_frames"]:
            raise ValueError(f"{sample.get('filename', 'the array')} has no frames")
        return sample

    def read(self, video: dict, segment: Sequence[int] = (0, sys.maxsize)) -> dict:
        """Sample, decode and transform an opened video, or its frames first to last of ``segment``.

        Returns:
            ``inputs`` (views, C, T, H, W) and ``data_samples``, as MMAction2's datasets give them.

        Raises:
            ValueError: If the video cannot be decoded or transformed.
        """
        transforms = self._from_array if "array" in video else self._from_file
        sampled = _apply(self._sample, {**video, "segment": tuple(segment)})
        self._check_length(sampled, min(segment[1] + 1, video["total_frames"]) - segment[0])
        return _apply(transforms, sampled)

    def sample(self, size: int, fps: float) -> dict:
        """Sample the frames of a stream's window of ``size`` frames: their ``frame_inds``."""
        video = {"total_frames": size, "avg_fps": fps, "start_index": 0, "label": -1}
        return _apply(self._sample, {**video, "segment": (0, size - 1), "modality": "RGB"})

    def read_frames(self, frames: Sequence[np.ndarray | None], sampled: dict) -> dict:
        """``read`` RGB frames (H, W, 3), uint8, of a stream's window.

        ``sampled`` is a result of ``sample``. Frames that are not sampled may be None.
        """
        # Copies of these alone: transforms may work in place, and windows share frames.
        pixels = {number: np.array(frames[number]) for number in set(sampled["frame_inds"].flat)}
        found = {f"{image.shape} of {image.dtype}" for image in pixels.values()}
        image = next(iter(pixels.values()))
        if len(found) > 1 or image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
            text = ", ".join(sorted(found))
            raise ValueError(f"frames must be (H, W, 3) of one size and type uint8, got {text}")
        self._check_length(sampled, len(frames))
        return _apply(self._from_array, {**sampled, "array": pixels})

    def _check_length(self, sampled: dict, frames: int) -> None:
        """Warn if a video or window is shorter than a clip, so that the clip repeats frames."""
        numbers = sampled["frame_inds"].flatten()[: sampled["clip_len"]]
        needed = max(round(self.span(sampled.get("avg_fps") or 1.0)), len(numbers))
        if frames < needed and len(set(numbers.tolist())) < len(numbers):
            _warn_of_repeats(sampled.get("filename", "the array"), frames, needed)

    def span(self, fps: float) -> float:
        """Return how many frames at ``fps`` a clip spans; 0 if its frames spread over a video."""
        for one in self._sample.transforms:
            interval = getattr(one, "frame_interval", 0)
            if interval and hasattr(one, "clip_len"):
                return one.clip_len * interval * fps / (getattr(one, "target_fps", None) or fps)
        return 0.0

    def period(self, size: int, fps: float, frames: int | None) -> int:
        """Return of how many frames the step of windows must be a multiple to share frames.

        It is the interval of the frames of a clip, which ``size`` frames at ``fps`` give, times
        ``frames``, the number that a model sees at a time (``frames_of_stage``); 1 without one.
        """
        if frames is None:
            return 1
        found = self.sample(size, fps)
        steps = np.diff(found["frame_inds"][: found["clip_len"]])
        intervals = {int(step) for step in steps if step > 0}  # after the end it may begin again
        return intervals.pop() * frames if len(intervals) == 1 else 1


def _apply(transforms: Compose, sample: dict) -> dict:
    try:
        for transform in transforms.transforms:
            # A copy: some, such as Resize, keep numbers of the sample, and threads share them.
            sample = copy(transform)(sample)
        return sample
    except Exception as error:  # the errors of decoders have no common base class
        name = sample.get("filename", "the array")
        raise ValueError(f"cannot read {name} as a video: {first_line(error)[:160]}") from error


@cache  # says so once for a video
def _warn_of_repeats(name: str, frames: int, clip: int) -> None:
    logger.warning(
        "%s: clips repeat frames, since they take %d, and the video or window has only %d: "
        "the answer is uncertain",
        *(name, clip, frames),
    )


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

    def record(self, k: int = 5) -> dict:
        """``frame``, ``seconds``, and by time ahead the k most likely classes or the values."""
        pairs = ((one.ahead, one.record(k)) for one in self.predictions)
        rows = [{"ahead": t, **(one.get("predictions") or one["values"])} for t, one in pairs]
        return {"frame": self.number, "seconds": round(self.seconds, 3), "predictions": rows}


class FramePipeline:
    """The part of a config's test pipeline that follows decoding, for one frame at a time.

    How often a frame is taken is ``time_step`` of ``ObserveBefore``, or ``frame_interval`` of
    ``ObserveFirst`` or ``SampleFrames``, at their ``target_fps`` if they have one.

    Attributes:
        frame_interval: Frames of the source from one step to the next.
        time_step: Seconds from one step to the next; None if frames are counted.

    Raises:
        ValueError: If the config has no pipeline, or it does not decode or sample frames.
    """

    def __init__(self, cfg: Config) -> None:
        with config_scope(cfg):
            transforms = Compose(inference_transforms(cfg)).transforms
        names = [type(transform).__name__ for transform in transforms]
        start = next((i for i, name in enumerate(names, 1) if name.endswith("Decode")), 0)
        options = [vars(transform) for transform in transforms[:start]]
        sampler = next((o for o in options if o.get("time_step") or o.get("frame_interval")), None)
        if sampler is None:
            steps = "ObserveFirst, ObserveBefore or SampleFrames, and decode images"
            raise ValueError(f"the test pipeline must have {steps}, got {', '.join(names)}")
        self.frame_interval = sampler.get("frame_interval") or 1
        self.time_step = sampler.get("time_step")
        if sampler.get("target_fps"):
            self.time_step = self.frame_interval / sampler["target_fps"]
        transforms[-1].meta_keys = ()  # they describe clips
        self._transforms = Compose(transforms[start:])

    def rate(self, fps: float) -> float:
        """Steps per second of a source with ``fps`` frames per second."""
        return 1 / self.time_step if self.time_step else fps / self.frame_interval

    def __call__(self, pixels: np.ndarray) -> Tensor:
        """Transform RGB pixels (H, W, 3), uint8, to the inputs of a ``StreamFrame``.

        Raises:
            ValueError: If the transforms do not make exactly one view of the frame.
        """
        size = pixels.shape[:2]
        sample = {"imgs": [pixels], "original_shape": size, "img_shape": size, "modality": "RGB"}
        sample.update(num_clips=1, clip_len=1, frame_inds=np.zeros(1, int))
        inputs = torch.as_tensor(self._transforms(sample)["inputs"])
        height, width = inputs.shape[-2:]
        if inputs.numel() != 3 * height * width:
            raise ValueError(
                "a stream needs one view of each frame, but the test pipeline makes inputs of "
                f"shape {tuple(inputs.shape)}; use one crop, and FormatShape NCTHW or NCHW"
            )
        return inputs

    def read(self, source: Capture) -> Iterator[StreamFrame]:
        """Read and transform the frames of a source that are steps of the model.

        Raises:
            ValueError: If a file has fewer frames per second than the model has steps.
        """
        rate = self.rate(source.fps)
        if not source.is_live and rate > 1.01 * source.fps:  # 23.976 will do for 24
            have = f"{source.name} has {source.fps:g} frames per second"
            raise ValueError(f"{have}, but the config takes {rate:g}")
        for number, seconds, pixels in source.frames(self.frame_interval, self.time_step):
            yield StreamFrame(number, seconds, self(pixels))
