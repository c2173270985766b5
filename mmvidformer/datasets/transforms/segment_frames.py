"""A frame of each segment of a video, at several places in testing."""

import numpy as np
from mmcv.transforms import BaseTransform

from mmvidformer.datasets.transforms.frame_count import total_frames
from mmvidformer.registry import TRANSFORMS

# Places within a segment, in the order of the test views.
PLACES = ("middle", "start", "end")


@TRANSFORMS.register_module()
class SegmentFrames(BaseTransform):
    """Take a frame from each of T equal segments of the whole video.

    Segment i goes from frame ``round(i s)`` to ``round((i + 1) s)``, both included, with
    ``s = (frames - 1) / T``. In training a frame is drawn from each; in testing the first clip has
    their middle frames (rounded down), the second their first and the third their last ones: the
    test views of the official code of feature fixation on Something-Something V2. In training it
    is MMAction2's ``UniformSample``, whose test clips lie elsewhere.

    Comes in place of ``SampleFrames``. Required keys: ``total_frames``, ``start_index``. Added:
    ``frame_inds``, ``clip_len``, ``frame_interval`` (None), ``num_clips``.

    Args:
        clip_len: Frames T of a clip.
        num_clips: Clips of a video; in testing at most 3.
        test_mode: Frames at fixed places.

    Raises:
        ValueError: If a count is less than 1, more than 3 clips are asked for in testing, or a
            video has no frames.
    """

    def __init__(self, clip_len: int, num_clips: int = 1, test_mode: bool = False) -> None:
        if min(clip_len, num_clips) < 1:
            raise ValueError(
                f"clip_len and num_clips must be at least 1, got {clip_len} and {num_clips}"
            )
        if test_mode and num_clips > len(PLACES):
            raise ValueError(
                f"SegmentFrames has {len(PLACES)} test clips ({', '.join(PLACES)}), "
                f"num_clips is {num_clips}"
            )
        self.clip_len = clip_len
        self.num_clips = num_clips
        self.test_mode = test_mode

    def transform(self, results: dict) -> dict:
        """Choose ``results['frame_inds']``."""
        size = (total_frames(results) - 1) / self.clip_len
        borders = np.round(np.arange(self.clip_len + 1) * size).astype(int)
        start, end = borders[:-1], borders[1:]
        if self.test_mode:
            places = {"middle": (start + end) // 2, "start": start, "end": end}
            clips = [places[name] for name in PLACES[: self.num_clips]]
        else:
            clips = [np.random.randint(start, end + 1) for _ in range(self.num_clips)]
        results["frame_inds"] = np.concatenate(clips) + results["start_index"]
        results["clip_len"] = self.clip_len
        results["frame_interval"] = None
        results["num_clips"] = self.num_clips
        return results

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(clip_len={self.clip_len}, num_clips={self.num_clips}, "
            f"test_mode={self.test_mode})"
        )
