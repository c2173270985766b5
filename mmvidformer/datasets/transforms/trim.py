from dataclasses import dataclass

import numpy as np
from mmcv.transforms import BaseTransform

from mmvidformer.registry import TRANSFORMS


@TRANSFORMS.register_module()
@dataclass
class TrimToVideo(BaseTransform):
    """End clips with their video, where the sampler before it loops or repeats the last frame.

    Follows a sampler of increasing frames, such as ``SampleFrames`` or ``SpanFrames``. All clips of
    a video get the length of the shortest. Batches need ``VideoDataPreprocessor`` and
    ``MultiViewRecognizer``. Changed keys: ``frame_inds``, ``clip_len``.

    Args:
        multiple: The tubelet's number of frames, of which a clip keeps a multiple, at least one.
    """

    multiple: int = 1

    def transform(self, results: dict) -> dict:
        """Cut ``results['frame_inds']``."""
        clips = results["frame_inds"].reshape(results["num_clips"], -1)
        step, last = np.diff(clips), clips.max(axis=1, keepdims=True)
        ends = ((step < 0) | ((step == 0) & (clips[:, 1:] == last))).any(axis=0)
        length = int(ends.argmax()) + 1 if ends.any() else clips.shape[1]
        clips = clips[:, : max(length - length % self.multiple, self.multiple)]
        return {**results, "frame_inds": clips.flatten(), "clip_len": clips.shape[1]}
