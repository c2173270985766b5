"""What MMAction2's transforms of these names do to RGB videos in tests, without MMAction2.

Values that they do not handle are for MMAction2's own (``NotCovered``).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from mmvidformer.catalog import TRANSFORMS, NotCovered
from mmvidformer.data.transforms.base import Transform
from mmvidformer.layers.samples import DataSample, Instances

META_KEYS = ("img_shape", "img_key", "video_id", "timestamp")
BOXES = ("gt_bboxes", "proposals")


@TRANSFORMS.add_stand_in
@dataclass
class SampleFrames(Transform):
    """Choose clips of frames at regular intervals, spread evenly over a video.

    Args:
        clip_len: Number of frames of a clip.
        frame_interval: Interval of the frames.
        num_clips: Number of clips.
        test_mode: Must be True: training draws clips.
        target_fps: Rate that the interval refers to. None: that of the video.
        out_of_bound_opt: Frames after the end: ``'loop'`` begins again, ``'repeat_last'`` stays.
    """

    clip_len: int
    frame_interval: int = 1
    num_clips: int = 1
    test_mode: bool = False
    target_fps: float | None = None
    out_of_bound_opt: str = "loop"

    def __post_init__(self) -> None:
        if not self.test_mode or self.out_of_bound_opt not in ("loop", "repeat_last"):
            raise NotCovered

    def transform(self, results: dict) -> dict:
        """Set ``results['frame_inds']``."""
        total, fps = results["total_frames"], results.get("avg_fps")
        ratio = fps / self.target_fps if self.target_fps and fps else 1.0
        if self.target_fps:
            span = max(1.0, self.clip_len * self.frame_interval * ratio)
            offsets = np.linspace(0, span - 1, self.clip_len).astype(np.int32)
        else:
            span = (self.clip_len - 1) * self.frame_interval + 1
            offsets = np.arange(self.clip_len) * self.frame_interval
        numbers = self.starts(total, span)[:, None] + offsets
        if self.out_of_bound_opt == "loop":
            numbers = np.mod(numbers, total)
        else:
            inside = numbers < total
            last = np.max(inside * numbers, axis=1, keepdims=True)
            numbers = np.where(inside, numbers, last)
        results["frame_inds"] = (numbers.flatten() + results["start_index"]).astype(np.int32)
        results["clip_len"], results["num_clips"] = self.clip_len, self.num_clips
        results["frame_interval"] = self.frame_interval
        return results

    def starts(self, total: int, span: float) -> np.ndarray:
        """Return the first frames of clips of ``span`` frames in a video of ``total``."""
        if self.clip_len == 1:
            return (np.arange(self.num_clips) + 0.5) * total / self.num_clips
        largest = max(total - span, 0)
        if self.num_clips == 1:
            return np.array([largest // 2])
        step = largest / (self.num_clips - 1)
        if self.target_fps is not None:  # as PySlowFast
            return np.arange(self.num_clips) * np.floor(step)
        return np.round(np.arange(self.num_clips) * step)


@TRANSFORMS.add_stand_in
@dataclass
class UniformSample(Transform):
    """Choose a frame in each of ``clip_len`` equal parts of a video; ``test_mode`` must be True."""

    clip_len: int
    num_clips: int = 1
    test_mode: bool = False

    def __post_init__(self) -> None:
        if not self.test_mode:
            raise NotCovered

    def transform(self, results: dict) -> dict:
        """Set ``results['frame_inds']``."""
        part = (results["total_frames"] - 1) / self.clip_len
        starts = np.round(part * np.arange(self.clip_len)).astype(int)
        shifts = [int(part / (self.num_clips + 1) * (k + 1)) for k in range(self.num_clips)]
        numbers = np.concatenate([starts + shift for shift in shifts]) + results["start_index"]
        results["frame_inds"] = numbers.astype(np.int32)
        results["clip_len"], results["num_clips"] = self.clip_len, self.num_clips
        results["frame_interval"] = None
        return results


@TRANSFORMS.add_stand_in
class ArrayDecode(Transform):
    """Take the sampled frames of ``results['array']``, RGB frames (T, H, W, 3) or by number."""

    def transform(self, results: dict) -> dict:
        """Set ``results['imgs']``."""
        array, offset = results["array"], results.get("offset", 0)
        numbers = results["frame_inds"].reshape(-1)
        images = [array[number + offset] for number in numbers]
        shape = images[0].shape[:2]
        return {**results, "imgs": images, "original_shape": shape, "img_shape": shape}


@TRANSFORMS.add_stand_in
@dataclass
class Resize(Transform):
    """Resize frames.

    Args:
        scale: Width and height; with ``keep_ratio`` the largest sides, in any order, of which -1
            is any.
        keep_ratio: Whether the aspect ratio stays.
        interpolation: As OpenCV calls it.
    """

    scale: tuple[float, float]
    keep_ratio: bool = True
    interpolation: str = "bilinear"

    def __post_init__(self) -> None:
        names = ("nearest", "bilinear", "bicubic", "area", "lanczos")
        if not isinstance(self.scale, tuple) or self.interpolation not in names:
            raise NotCovered
        if min(self.scale) == -1:
            self.scale = (math.inf, max(self.scale))

    def transform(self, results: dict) -> dict:
        """Resize ``results['imgs']``, and boxes."""
        import cv2  # not for models that resize nothing

        height, width = results["img_shape"]
        size = self.size(width, height)
        name = CV2_NAMES.get(self.interpolation, self.interpolation)
        code = getattr(cv2, f"INTER_{name.upper()}")
        factors = np.array([size[0] / width, size[1] / height], np.float32)
        if "imgs" in results:
            results["imgs"] = [
                cv2.resize(image, size, interpolation=code) for image in results["imgs"]
            ]
        for key in BOXES:
            if results.get(key) is not None:
                results[key] = results[key] * np.tile(factors, 2)
        results["img_shape"], results["keep_ratio"] = size[::-1], self.keep_ratio
        results["scale_factor"] = results.get("scale_factor", np.ones(2, np.float32)) * factors
        return results

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Return the new width and height of a frame."""
        if not self.keep_ratio:
            return int(self.scale[0]), int(self.scale[1])
        long, short = max(self.scale), min(self.scale)
        factor = min(long / max(height, width), short / min(height, width))
        return int(width * factor + 0.5), int(height * factor + 0.5)


CV2_NAMES = {"bilinear": "linear", "bicubic": "cubic", "lanczos": "lanczos4"}


@TRANSFORMS.add_stand_in
@dataclass
class CenterCrop(Transform):
    """Cut out the middle of frames.

    Args:
        crop_size: Side of the crop, or its width and height.
    """

    crop_size: int | tuple[int, int]

    def transform(self, results: dict) -> dict:
        """Crop ``results['imgs']``, and move boxes."""
        size = self.crop_size
        width, height = (size, size) if isinstance(size, int) else size
        shape = results["img_shape"]
        left, top = (shape[1] - width) // 2, (shape[0] - height) // 2
        box = np.array([left, top, left + width, top + height])
        if "imgs" in results:
            region = np.s_[top : top + height, left : left + width]
            results["imgs"] = [image[region] for image in results["imgs"]]
        for key in BOXES:
            if results.get(key) is not None:
                moved = results[key] - np.tile([left, top], 2)
                limits = np.tile([width - 1, height - 1], 2)
                results[key] = np.clip(moved, 0, limits).astype(results[key].dtype)
        quadruple = results.get("crop_quadruple", np.array([0, 0, 1, 1], np.float32))
        place = np.array([left / shape[1], top / shape[0], width / shape[1], height / shape[0]])
        place[:2] = quadruple[:2] + place[:2] * quadruple[2:]
        place[2:] = place[2:] * quadruple[2:]
        results["crop_quadruple"] = place.astype(np.float32)
        results["crop_bbox"], results["img_shape"] = box, (height, width)
        return results


@TRANSFORMS.add_stand_in
@dataclass
class ThreeCrop(Transform):
    """Cut three crops along the longer side of frames: first, last and middle.

    Args:
        crop_size: Side of the crop, that of the shorter side of the frames.
    """

    crop_size: int

    def __post_init__(self) -> None:
        if not isinstance(self.crop_size, int):
            raise NotCovered

    def transform(self, results: dict) -> dict:
        """Crop ``results['imgs']``: the first crop of all frames, then the next."""
        images, size = results["imgs"], self.crop_size
        height, width = images[0].shape[:2]
        assert size in (height, width), f"a side of {width} x {height} must be {size}"
        step = (max(height, width) - size) // 2
        corners = [(0, offset) if size == height else (offset, 0) for offset in (0, 2 * step, step)]
        results["imgs"] = [
            image[top : top + size, left : left + size] for top, left in corners for image in images
        ]
        boxes = [[left, top, left + size, top + size] for top, left in corners]
        results["crop_bbox"] = np.repeat(boxes, len(images), axis=0)
        results["img_shape"] = (size, size)
        return results


@TRANSFORMS.add_stand_in
@dataclass
class FormatShape(Transform):
    """Put frames together.

    Args:
        input_format: ``'NCTHW'``: clips (crops * clips, 3, T, H, W). ``'NCHW'``: frames (N, 3, H,
            W).
        collapse: Whether the first dimension, of one clip, is left out.
    """

    input_format: str
    collapse: bool = False

    def __post_init__(self) -> None:
        if self.input_format not in ("NCTHW", "NCHW"):
            raise NotCovered

    def transform(self, results: dict) -> dict:
        """Change ``results['imgs']``."""
        images = np.asarray(results["imgs"])
        if self.input_format == "NCHW":
            images = images.transpose(0, 3, 1, 2)
        else:
            clips = images.reshape(-1, results["clip_len"], *images.shape[1:])
            images = clips.transpose(0, 4, 1, 2, 3)
        if self.collapse:
            (images,) = images
        return {**results, "imgs": images, "input_shape": images.shape}


@TRANSFORMS.add_stand_in
@dataclass
class PackActionInputs(Transform):
    """Make ``inputs`` and the data sample of a video.

    Args:
        meta_keys: Facts of the video that the data sample has.
    """

    meta_keys: Sequence[str] = META_KEYS

    def transform(self, results: dict) -> dict:
        """Return ``inputs`` and ``data_samples``."""
        sample = DataSample({key: results[key] for key in self.meta_keys if key in results})
        if "gt_bboxes" in results:
            boxes, labels = (torch.as_tensor(results[key]) for key in ("gt_bboxes", "gt_labels"))
            sample.gt_instances = Instances(bboxes=boxes, labels=labels)
            if "proposals" in results:
                sample.proposals = Instances(bboxes=torch.as_tensor(results["proposals"]))
        if "label" in results:
            sample.set_gt_label(results["label"])
        return {"inputs": torch.as_tensor(results["imgs"]), "data_samples": sample}
