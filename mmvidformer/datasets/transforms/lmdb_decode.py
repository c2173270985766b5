"""Frames or their features from an LMDB."""

import os
from collections.abc import Sequence
from functools import cache

import mmcv
import numpy as np
from mmcv.transforms import BaseTransform
from mmengine.fileio import LmdbBackend

from mmvidformer.registry import TRANSFORMS


@TRANSFORMS.register_module()
class LmdbDecode(BaseTransform):
    """Read the frames of a clip from an LMDB, as images or as features (RULSTM's format).

    The key of a frame is ``filename_tmpl`` with its number, such as
    ``P01_01_frame_0000000001.jpg``. Needs the package ``lmdb``.

    Required keys: ``lmdb`` (path), ``filename_tmpl``, ``frame_inds``. Added: ``imgs`` and, for
    images, ``img_shape`` and ``original_shape``. Images are a list of RGB arrays (H, W, 3), uint8.
    Features are one float32 array (1, C, T, H, W), like images after ``FormatShape`` with
    ``'NCTHW'``, and go to ``PackActionInputs`` as they are.

    Args:
        feature_shape: Shape (C, H, W) of the features of a frame, stored as plain float32. None if
            encoded images are stored.

    Raises:
        KeyError: If a frame is missing.
        ValueError: If ``feature_shape`` is not that of a map, the features of a frame have another
            size, or an image cannot be decoded.
    """

    def __init__(self, feature_shape: Sequence[int] | None = None) -> None:
        if feature_shape and len(feature_shape) != 3:
            raise ValueError(f"feature_shape must be (C, H, W), got {feature_shape}")
        self.feature_shape = feature_shape

    def transform(self, results: dict) -> dict:
        """Fill ``results['imgs']``."""
        keys = [results["filename_tmpl"].format(i) for i in results["frame_inds"]]
        frames = [self._decode(results["lmdb"], key) for key in keys]
        if self.feature_shape is None:
            results["imgs"] = frames
            results["img_shape"] = results["original_shape"] = frames[0].shape[:2]
        else:
            results["imgs"] = np.stack(frames, axis=1)[None]  # T arrays (C, H, W)
        return results

    def _decode(self, path: str, key: str) -> np.ndarray:
        value = _open(os.path.realpath(path), os.getpid()).get(key)
        if value is None:
            raise KeyError(f"{path} has no frame {key!r}")
        if self.feature_shape is None:
            image = mmcv.imfrombytes(value, backend="cv2")
            if image is None:
                raise ValueError(f"{path}: {key!r} is no image; for features give feature_shape")
            return mmcv.bgr2rgb(image)
        if len(value) != 4 * np.prod(self.feature_shape):
            size = f"{len(value) / 4:g} float32 numbers, not {self.feature_shape}"
            raise ValueError(f"{path}: {key!r} has {size}; RULSTM's are pooled vectors, not maps")
        return np.frombuffer(value, np.float32).reshape(self.feature_shape)


@cache
def _open(path: str, process: int) -> LmdbBackend:
    """Open an LMDB once per process, as LMDB requires, and not before a fork."""
    return LmdbBackend(path)
