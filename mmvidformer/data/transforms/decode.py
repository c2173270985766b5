from typing import Any

import numpy as np

from mmvidformer.catalog import TRANSFORMS
from mmvidformer.data.transforms.base import Transform
from mmvidformer.errors import UserError
from mmvidformer.lookup import look_up
from mmvidformer.storage.files import is_remote
from mmvidformer.storage.range_file import RangeFile
from mmvidformer.video.choices import BACKENDS
from mmvidformer.video.errors import with_suffix
from mmvidformer.video.video import Video


@TRANSFORMS.add
class VideoInit(Transform):
    """Open a video. Replaces ``DecordInit``, and has its keys; ``VideoDecode`` follows.

    Args:
        backend: ``'pyav'``, ``'torchcodec'``, or ``'decord'`` to open videos as ``DecordInit``
            does, which may hang or crash on damaged files.
        num_threads: Number of decoding threads. More than 1 helps only with few dataloader workers.
        max_pixels: Largest height x width of a frame, which only ``'pyav'`` knows. None for any.
        io_backend: MMEngine's file backend, with ``'decord'``; others read local files.
        **kwargs: Arguments of the file backend.

    Raises:
        ImportError: If the backend is not installed (from ``transform``).
        KeyError: If ``backend`` is unknown.
        UserError: If the backend has no ``max_pixels``, or reads local files only.
    """

    reads_files = True

    def __init__(
        self,
        backend: str = "pyav",
        num_threads: int = 1,
        max_pixels: int | None = None,
        io_backend: str = "disk",
        **kwargs: Any,
    ) -> None:
        self.backend = look_up(BACKENDS, backend, "video backend")
        if max_pixels and backend != "pyav":
            raise UserError(f"max_pixels={max_pixels} needs backend='pyav', got {backend!r}")
        if io_backend not in ("disk", "local") and backend != "decord":
            raise UserError(f"io_backend={io_backend!r} needs backend='decord', got {backend!r}")
        self.options = dict(num_threads=num_threads, max_pixels=max_pixels)
        self.of_decord = dict(io_backend=io_backend, num_threads=num_threads, **kwargs)

    def transform(self, results: dict) -> dict:
        """Open ``results['filename']``, or the video of a shard, ``results['stored_video']``.

        Frames that are given as ``array`` stay (``ArrayDecode``).
        """
        if "array" in results:
            return results
        stored = results.pop("stored_video", None)
        if stored is not None:
            video = stored.open(self.backend, **self.options)
        else:
            video = self._open(results["filename"])
        facts = dict(total_frames=len(video), avg_fps=video.get_avg_fps())
        return {**results, **facts, "video_reader": video}

    def _open(self, filename: str) -> Any:
        if self.backend == "decord":
            import mmvidformer.repairs  # noqa: F401  isort: skip  (repairs MMAction2 first)
            from mmaction.datasets.transforms import DecordInit

            return DecordInit(**self.of_decord)._get_video_reader(filename)
        if is_remote(filename):
            return Video.open(RangeFile.open(filename), self.backend, **self.options)
        return Video.open(with_suffix(filename), self.backend, **self.options)


@TRANSFORMS.add
class VideoDecode(Transform):
    """Decode the sampled frames of a video that ``VideoInit`` opened.

    Like ``DecordDecode``, without its ``mode='efficient'``. Except with decord, each frame is
    decoded once, and frames beyond the end are replaced by the last one, with a warning.
    """

    reads_files = True

    def transform(self, results: dict) -> dict:
        """Decode ``results['frame_inds']``, unless frames are given as ``array``.

        Boxes, which are shares of the frame's width and height, become pixels.
        """
        if "array" in results:
            return results
        video, numbers = results["video_reader"], results["frame_inds"].reshape(-1)
        images = self.decode(video, numbers)
        height, width = images[0].shape[:2]
        for key in ("gt_bboxes", "proposals"):
            if results.get(key) is not None:
                sides = np.array([width, height, width, height])
                results[key] = (results[key] * sides).astype(np.float32)
        shapes = dict(original_shape=(height, width), img_shape=(height, width))
        return {**results, **shapes, "frame_inds": numbers, "imgs": images, "video_reader": None}

    def decode(self, video: Any, numbers: np.ndarray) -> list[np.ndarray]:
        """Return RGB frames (H, W, 3), uint8, by number."""
        return list(video.get_batch(numbers).asnumpy())
