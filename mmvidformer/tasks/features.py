"""Saved features of videos, for heads without a backbone."""

import io
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from mmcv.transforms import BaseTransform

from mmvidformer.errors import UserError
from mmvidformer.registry import TRANSFORMS
from mmvidformer.storage.files import read_file


@TRANSFORMS.register_module()
@dataclass
class LoadFeatures(BaseTransform):
    """Read what ``mmvidformer features --every N --files`` saved of a video, as tokens of a clip.

    ``filename`` is the file of the features, or its address (``SpanDataset`` with
    ``suffix='.npz'``). A row stands for the N frames in the middle of its window. Added keys:
    ``imgs`` (1, T, 1, 1, D), and those of ``CoverFrames``.

    Args:
        rows: Number of successive rows in training, drawn at random; a shorter video repeats its
            last row. None: all, for testing.

    Raises:
        FileNotFoundError: If there are no features of the video.
        StorageError: If remote storage does not answer.
        UserError: If the file has other content.
    """

    rows: int | None = None
    reads_files: ClassVar[bool] = True  # for SafeDataset

    def transform(self, results: dict) -> dict:
        """Read the features."""
        with np.load(io.BytesIO(read_file(results["filename"]))) as file:
            saved = {name: file[name] for name in file}
        missing = {"features", "every", "span", "frames", "fps"} - {*saved}
        if missing:
            raise UserError(f"{results['filename']} has no {', '.join(sorted(missing))}")
        values, every = saved["features"], int(saved["every"])
        count = self.rows or len(values)
        start = np.random.randint(0, max(len(values) - count, 0) + 1)
        places = start + np.arange(count)
        tokens = values[np.minimum(places, len(values) - 1)]
        results |= dict(imgs=tokens[None, :, None, None].astype(np.float32), frame_step=every)
        results |= dict(frame_inds=places * every + (int(saved["span"]) - every) / 2)
        results |= dict(total_frames=int(saved["frames"]), avg_fps=float(saved["fps"]))
        return results | dict(num_clips=1, start_index=0)
