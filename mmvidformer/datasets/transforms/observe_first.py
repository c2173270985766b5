"""The first part of a video, all frames of it."""

import numpy as np
from mmcv.transforms import BaseTransform

from mmvidformer.datasets.transforms.frame_count import total_frames
from mmvidformer.registry import TRANSFORMS


@TRANSFORMS.register_module()
class ObserveFirst(BaseTransform):
    """Take the frames of the first part of a video, as many as there are (early recognition).

    Clips differ in length. No collate function is needed: ``ActionDataPreprocessor`` stacks them
    with black frames at the end, before it normalises, and ``length`` tells a
    ``RecurrentRecognizer`` the frames of each:
    ``dict(type="PackActionInputs", meta_keys=("length",))``. ``ClipPadding`` notes it by itself.

    Comes in place of ``SampleFrames``. Required keys: ``total_frames``, ``start_index``. Added:
    ``frame_inds``, ``clip_len``, ``num_clips``, ``length`` (equal to ``clip_len``).

    Args:
        ratio: Part of the video that is observed, above 0 to 1; whole frames, rounded down, but at
            least one.
        frame_interval: Frames from one to the next; 1 takes all, as the HORST paper does.

    Raises:
        ValueError: If ``ratio`` or ``frame_interval`` is out of range, or a video has no frames.
    """

    def __init__(self, ratio: float = 1.0, frame_interval: int = 1) -> None:
        if not 0 < ratio <= 1:
            raise ValueError(f"ratio must be above 0 and at most 1, got {ratio}")
        if frame_interval < 1:
            raise ValueError(f"frame_interval must be at least 1, got {frame_interval}")
        self.ratio = ratio
        self.frame_interval = frame_interval

    def transform(self, results: dict) -> dict:
        """Choose ``results['frame_inds']``."""
        total = total_frames(results)
        # 0.29 of 100 frames is 28.999999999999996 in floating point.
        observed = max(1, int(self.ratio * total + 1e-6))
        inds = np.arange(0, observed, self.frame_interval) + results["start_index"]
        results["frame_inds"] = inds
        results["clip_len"] = results["length"] = len(inds)
        results["num_clips"] = 1
        return results

    def __repr__(self) -> str:
        return f"{type(self).__name__}(ratio={self.ratio}, frame_interval={self.frame_interval})"
