"""What the transforms have in common."""

from abc import abstractmethod

import numpy as np
from mmcv.transforms import BaseTransform


class ClipTransform(BaseTransform):
    """A transform whose public attributes are its settings, which ``repr`` shows."""

    def __repr__(self) -> str:
        settings = [f"{k}={v!r}" for k, v in vars(self).items() if not k.startswith("_")]
        return f"{type(self).__name__}({', '.join(settings)})"


class FrameSampler(ClipTransform):
    """A transform that chooses the frames of a video, in place of ``SampleFrames``.

    Required keys: ``total_frames``, ``start_index``. Added keys: ``frame_inds``, ``clip_len``,
    ``num_clips``, ``frame_interval`` (None if the frames have no fixed interval).

    Raises:
        ValueError: If a video has no frames.
    """

    frame_interval: int | None = None

    @abstractmethod
    def sample(self, total: int, results: dict) -> np.ndarray:
        """Choose frames (num_clips, T) of ``total``, from 0."""

    def transform(self, results: dict) -> dict:
        """Set ``results['frame_inds']``."""
        if results["total_frames"] < 1:
            raise ValueError(f"{results.get('filename')} has no frames")
        clips = self.sample(results["total_frames"], results)
        results["frame_inds"] = clips.flatten() + results["start_index"]
        results["num_clips"], results["clip_len"] = clips.shape
        results["frame_interval"] = self.frame_interval
        return results
