"""Which frames of a video are used, where MMAction2's sampling does not say it."""

import numpy as np
from mmcv.transforms import BaseTransform

from mmvidformer.registry import TRANSFORMS


@TRANSFORMS.register_module()
class UniformFrames(BaseTransform):
    """Keep n frames of each sampled clip, evenly spread (ViViT section 3.2).

    The k-th of n is frame ``round(k F / (n + 1))`` of F, as in scenic, which also keeps all frames
    where n is F; for tubelets of one frame.
    Comes after ``SampleFrames`` and before decoding. Required keys: ``frame_inds``,
    ``clip_len``. Changed: both.

    Args:
        num_frames: Frames n to keep.

    Raises:
        ValueError: If ``num_frames`` is less than 1, or the clips have fewer frames.
    """

    def __init__(self, num_frames: int) -> None:
        if num_frames < 1:
            raise ValueError(f"num_frames must be at least 1, got {num_frames}")
        self.num_frames = num_frames

    def transform(self, results: dict) -> dict:
        """Thin out ``results['frame_inds']``."""
        length = results["clip_len"]
        if self.num_frames > length:
            raise ValueError(f"cannot keep {self.num_frames} of {length} frames")
        k = np.arange(1, self.num_frames + 1)
        if self.num_frames == length:
            kept = k - 1
        else:
            kept = np.round(k * length / (self.num_frames + 1)).astype(int)
        clips = results["frame_inds"].reshape(-1, length)
        results["frame_inds"] = clips[:, kept].flatten()
        results["clip_len"] = self.num_frames
        return results

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_frames={self.num_frames})"


@TRANSFORMS.register_module()
class LimitToSegment(BaseTransform):
    """Let the sampling that follows see only a segment of the video.

    Comes after a decoder's ``...Init`` and before ``SampleFrames``. Required keys: ``segment``
    (first and last frame, from 0, both included), ``total_frames``. Changed: ``start_index``,
    ``total_frames``. A segment that ends after the video is cut there.

    Raises:
        ValueError: If the segment begins after the video's end.
    """

    def transform(self, results: dict) -> dict:
        """Set the range of frames to sample from."""
        first, last = results["segment"]
        total = results["total_frames"]
        if first >= total:
            raise ValueError(
                f"segment {first} to {last} of {results.get('filename')} begins after the "
                f"video's {total} frames; is it the right video, at its original frame rate?"
            )
        results["start_index"] = first
        results["total_frames"] = min(last, total - 1) - first + 1
        return results

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
