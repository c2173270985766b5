"""Decoding of videos through a choice of libraries, and of LMDBs of frames or features."""

import os
from collections.abc import Sequence
from functools import cache

import mmcv
import numpy as np
from mmaction.datasets.transforms import DecordDecode, DecordInit
from mmcv.transforms import BaseTransform
from mmengine.fileio import LmdbBackend, get

from mmvidformer.datasets.decoding.errors import with_suffix
from mmvidformer.datasets.decoding.readers import BACKENDS, open_video
from mmvidformer.lookup import look_up
from mmvidformer.registry import TRANSFORMS


@TRANSFORMS.register_module()
class VideoInit(DecordInit):
    """Open a video. Replaces ``DecordInit``, and has its keys; ``VideoDecode`` follows.

    Local files are read as frames are needed, instead of whole into memory.

    Args:
        backend: ``'pyav'``, ``'torchcodec'``, or ``'decord'`` to open videos as ``DecordInit``
            does, which may hang or crash on damaged files.
        num_threads: Number of decoding threads. More than 1 helps only with few dataloader workers.
        short_side: Short side to which each frame is resized when it is decoded, so that frames of
            full size are not kept; the same numbers as ``Resize(scale=(-1, short_side))`` gives.
            None to keep the size. Not with ``'decord'``.
        max_pixels: Largest height x width of a frame, which only ``'pyav'`` knows. None for any.
        io_backend: MMEngine's file backend of videos that are not local files.
        **kwargs: Arguments of the file backend.

    Raises:
        BadVideo: If a video cannot be opened (from ``transform``).
        ImportError: If the backend is not installed (from ``transform``).
        KeyError: If ``backend`` is unknown.
        ValueError: If the backend has no ``short_side`` or ``max_pixels``.
    """

    def __init__(
        self,
        backend: str = "pyav",
        num_threads: int = 1,
        short_side: int | None = None,
        max_pixels: int | None = None,
        io_backend: str = "disk",
        **kwargs,
    ) -> None:
        super().__init__(io_backend, num_threads, **kwargs)
        self.backend = look_up(BACKENDS, backend, "video backend")
        if max_pixels and backend != "pyav":
            raise ValueError(f"max_pixels={max_pixels} needs backend='pyav', got {backend!r}")
        if short_side and backend == "decord":
            raise ValueError(f"short_side={short_side} needs another backend than 'decord'")
        self.options = dict(num_threads=num_threads, short_side=short_side, max_pixels=max_pixels)

    def transform(self, results: dict) -> dict:
        """Open ``results['filename']``, unless frames are given as ``array`` (``ArrayDecode``)."""
        return results if "array" in results else super().transform(results)

    def _get_video_reader(self, filename: str) -> object:
        if self.backend == "decord":
            return super()._get_video_reader(filename)
        filename = with_suffix(filename)
        backend = {"backend": self.io_backend, **self.kwargs}
        content = None if self.io_backend == "disk" else get(filename, backend)
        return open_video(filename, self.backend, content, **self.options)


@TRANSFORMS.register_module()
class VideoDecode(DecordDecode):
    """Decode the sampled frames of a video that ``VideoInit`` opened.

    Like ``DecordDecode``, without its ``mode='efficient'``. Except with decord, frames that
    overlapping clips or a looped video share are decoded once, which takes half the time for ten
    views of a ten-second video, and frames beyond the end are replaced by the last frame, with a
    warning.
    """

    def transform(self, results: dict) -> dict:
        """Decode ``results['frame_inds']``, unless frames are given as ``array``."""
        return results if "array" in results else super().transform(results)


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
        ValueError: If the features of a frame have another size, or an image cannot be decoded.
    """

    def __init__(self, feature_shape: Sequence[int] | None = None) -> None:
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
