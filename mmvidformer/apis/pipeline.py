"""The test pipeline of a config, applied to files, arrays and single frames."""

import logging
import sys
from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from functools import cache
from io import IOBase
from pathlib import Path
from typing import Any

import numpy as np
from mmengine.config import Config
from torch import Tensor, nn

from mmvidformer.catalog import TRANSFORMS
from mmvidformer.config import pipelines, type_name
from mmvidformer.config.building import building
from mmvidformer.data.shards.index import StoredVideo
from mmvidformer.data.sources import RemoteVideo, VideoContent
from mmvidformer.engine.pipelines import set_views
from mmvidformer.errors import MissingFile, UserError
from mmvidformer.video.errors import blame
from mmvidformer.video.facts import require_file, require_frames
from mmvidformer.video.progress import reading
from mmvidformer.video.times import FrameTimes

logger = logging.getLogger("mmvidformer")

Source = str | Path | np.ndarray | StoredVideo | RemoteVideo | VideoContent
Foreign = Tensor | bytes | IOBase  # one video in other libraries, but no list of videos


def inference_transforms(cfg: Config, clips: int | None = None) -> list[dict]:
    """Copy the transforms that inference applies to a video.

    Args:
        cfg: A recognition config.
        clips: None: the test pipeline with all its views. A number: the validation pipeline with
            this number of evenly spread clips, and the center crop of each. If the config has only
            one of the two, that one is used.

    Raises:
        UserError: If the config has neither pipeline, or a number of clips cannot be set.
    """
    names = ["test_dataloader", "val_dataloader"]
    in_order = names if clips is None else reversed(names)
    datasets = [(cfg.get(name) or {}).get("dataset", {}) for name in in_order]
    candidates = [pipeline for dataset in datasets for pipeline in pipelines(dataset)]
    if not candidates:
        raise UserError(f"the config has no pipeline in {' or '.join(names)}")
    holder = Config({"test_pipeline": deepcopy(list(candidates[0]))})
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
        UserError: If the config has no pipeline, or the pipeline does not read video files.
    """

    def __init__(self, cfg: Config, clips: int | None = None) -> None:
        transforms = inference_transforms(cfg, clips)
        names = [type_name(transform) for transform in transforms]
        start = next((i for i, name in enumerate(names, 1) if name.endswith("Init")), None)
        if start is None:
            raise UserError(f"the test pipeline does not read video files: {', '.join(names)}")
        transforms[-1]["meta_keys"] = (*transforms[-1].get("meta_keys", ()), "frame_inds")
        opening, later = transforms[:start], transforms[start:]
        if "LimitToSegment" not in names:
            later.insert(0, {"type": "mmvidformer.LimitToSegment"})
        decode = next(i for i, t in enumerate(later) if type_name(t).endswith("Decode"))
        with building(cfg):
            self._open, self._sample = build_all(opening), build_all(later[:decode])
            self._from_file = build_all(later[decode:])
            self._from_array = build_all([{"type": "ArrayDecode"}, *later[decode + 1 :]])

    def open(self, source: Source, fps: float | None = None) -> dict:
        """Open a video file, or RGB frames (T, H, W, 3), uint8, at ``fps`` frames per second.

        Videos of shards, of remote storage and in memory need ``VideoInit`` in the pipeline.

        Returns:
            A sample for MMAction2's transforms, with ``total_frames`` and ``avg_fps`` (or None).

        Raises:
            FileNotFoundError: If the file does not exist.
            StorageError: If remote storage does not answer.
            TypeError: If the source is something else.
            BadVideo: If the source cannot be read as a video.
            UserError: If an array has another shape or type.
        """
        sample = {"label": -1, "start_index": 0, "modality": "RGB"}
        if not isinstance(source, Source):
            what = "a video is a path, or an array (T, H, W, 3) of type uint8, as tensor.numpy()"
            raise TypeError(f"{what}; got {type(source).__name__}")
        if isinstance(source, np.ndarray):
            if source.ndim != 4 or source.shape[-1] != 3 or source.dtype != np.uint8:
                shape = f"{source.shape} of {source.dtype}"
                raise UserError(f"an array must be (T, H, W, 3) of type uint8, got {shape}")
            sample.update(array=source, total_frames=len(source), avg_fps=fps)
        elif isinstance(source, StoredVideo | RemoteVideo | VideoContent):
            stored = {**sample, "filename": source.filename, "stored_video": source}
            sample = _apply(self._open, stored)
        elif not Path(source).exists():
            raise MissingFile(f"video {source} does not exist")
        else:
            require_file(str(source))
            sample = _apply(self._open, {**sample, "filename": str(source)})
        require_frames(sample.get("filename", "the array"), sample["total_frames"])
        return sample

    def read(self, video: dict, segment: Sequence[int] = (0, sys.maxsize)) -> dict:
        """Sample, decode and transform an opened video, or its frames first to last of ``segment``.

        Returns:
            ``inputs`` (views, C, T, H, W) and ``data_samples``, as MMAction2's datasets give them.

        Raises:
            BadVideo: If the video cannot be decoded or transformed.
        """
        transforms = self._from_array if "array" in video else self._from_file
        sampled = _apply(self._sample, {**video, "segment": tuple(segment)})
        self._check_length(sampled, min(segment[1] + 1, video["total_frames"]) - segment[0])
        return _apply(transforms, sampled)

    def sample(self, size: int, fps: float, **facts: Any) -> dict:
        """Sample the frames of a stream's window of ``size`` frames: their ``frame_inds``.

        ``facts`` are further keys of the sample.
        """
        video = {"total_frames": size, "avg_fps": fps, "start_index": 0, "label": -1}
        video |= {"segment": (0, size - 1), "modality": "RGB"}
        return _apply(self._sample, {**video, **facts})

    def read_frames(
        self,
        frames: Sequence[np.ndarray | None],
        sampled: dict,
        first: int = 0,
        is_whole: bool = True,
    ) -> dict:
        """``read`` RGB frames (H, W, 3), uint8, of a stream's window.

        ``sampled`` is a result of ``sample``. Frames that are not sampled may be None. ``first`` is
        the number of the window's first frame in the stream. Without ``is_whole`` it may be shorter
        than a clip, as the stream before a moment is.
        """
        numbers = sampled["frame_inds"]
        # Copies of these alone: transforms may work in place, and windows share frames.
        pixels = {first + number: np.array(frames[number]) for number in set(numbers.flat)}
        shapes = {f"{image.shape} of {image.dtype}" for image in pixels.values()}
        image = next(iter(pixels.values()))
        if len(shapes) > 1 or image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
            text = ", ".join(sorted(shapes))
            raise UserError(f"frames must be (H, W, 3) of one size and type uint8, got {text}")
        if is_whole:
            self._check_length(sampled, len(frames))
        of_stream = dict(frame_inds=numbers + first, start_index=first)
        return _apply(self._from_array, {**sampled, **of_stream, "array": pixels})

    def _check_length(self, sampled: dict, frames: int) -> None:
        """Warn if a video or window is shorter than a clip, so that the clip repeats frames."""
        numbers = sampled["frame_inds"].flatten()[: sampled["clip_len"]]
        needed = max(round(self.span(sampled.get("avg_fps") or 1.0)), len(numbers))
        if frames < needed and len(set(numbers.tolist())) < len(numbers):
            _warn_of_repeats(sampled.get("filename", "the array"), frames, needed)

    def span(self, fps: float) -> float:
        """Return how many frames at ``fps`` a clip spans; 0 if its frames spread over a video."""
        for transform in self._sample:
            interval = getattr(transform, "frame_interval", 0)
            if interval and hasattr(transform, "clip_len"):
                rate = getattr(transform, "target_fps", None)
                return float(FrameTimes(fps).rescale(transform.clip_len * interval, rate))
        return 0.0

    def period(self, size: int, fps: float, frames: int | None) -> int:
        """Return of how many frames the step of windows must be a multiple to share frames.

        It is the interval of the frames of a clip, which ``size`` frames at ``fps`` give, times
        ``frames``, the number that a model sees at a time (``frames_of_stage``); 1 without one.
        """
        if frames is None:
            return 1
        sampled = self.sample(size, fps)
        steps = np.diff(sampled["frame_inds"][: sampled["clip_len"]])
        intervals = {int(step) for step in steps if step > 0}  # after the end it may begin again
        return intervals.pop() * frames if len(intervals) == 1 else 1


def build_all(transforms: Sequence[dict]) -> list[Callable[[dict], dict]]:
    """Build the transforms of a pipeline."""
    return [TRANSFORMS.build(transform) for transform in transforms]


def _apply(transforms: Sequence[Callable[[dict], dict]], sample: dict) -> dict:
    for transform in transforms:
        with reading(), blame(sample.get("filename", "the array"), type(transform).__name__):
            # A copy: some, such as Resize, keep numbers of the sample, and threads share them.
            sample = copy(transform)(sample)
    return sample


@cache  # says so once for a video
def _warn_of_repeats(name: str, frames: int, clip: int) -> None:
    logger.warning(
        "%s: clips repeat frames, since they take %d, and the video or window has only %d: "
        "the answer is uncertain",
        *(name, clip, frames),
    )
