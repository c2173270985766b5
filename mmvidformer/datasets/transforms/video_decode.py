"""Opening and decoding videos, each frame once, through a choice of libraries."""

import os.path as osp
import warnings

import numpy as np
from mmaction.datasets.transforms import DecordDecode, DecordInit
from mmengine.fileio import get

from mmvidformer.datasets.decoding.readers import READERS, VideoReader, open_video
from mmvidformer.registry import TRANSFORMS


@TRANSFORMS.register_module()
class VideoInit(DecordInit):
    """Open a video; comes in place of ``DecordInit``.

    A local file is read where frames are wanted, instead of whole into memory. Keys as those of
    ``DecordInit``.

    Args:
        backend: ``'decord'``, ``'pyav'``, ``'opencv'``, or ``'auto'``: the first of these that is
            installed and opens the file. All give the same frames.
        num_threads: Threads that decode a video. Above 1 pays only where few workers decode.
        backend_args: Arguments of MMEngine's file backend, where the videos are not local files.

    Raises:
        BadVideo: If a video cannot be opened (from ``transform``).
        ValueError: If ``backend`` is unknown.
    """

    def __init__(
        self, backend: str = "auto", num_threads: int = 1, backend_args: dict | None = None
    ) -> None:
        if backend not in ("auto", *READERS):
            raise ValueError(f"backend must be auto, {', '.join(READERS)}; got {backend!r}")
        super().__init__(num_threads=num_threads)
        self.backend, self.backend_args = backend, backend_args

    def _get_video_reader(self, filename: str) -> VideoReader:
        if not osp.splitext(filename)[1]:  # as MMAction2 does: lists without endings
            filename += ".mp4"
        content = None if self.backend_args is None else get(filename, self.backend_args)
        return open_video(filename, self.backend, self.num_threads, content)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(backend={self.backend!r}, num_threads={self.num_threads})"


@TRANSFORMS.register_module()
class VideoDecode(DecordDecode):
    """Decode the sampled frames of an open video, each of them once; comes after ``VideoInit``.

    Clips that overlap, or go round in a short video, ask for frames more than once, and decord
    decodes them as often: twice the time for ten views of a ten-second video. A frame beyond the
    video's last one is replaced by that; a warning tells the video and how many. Keys as those of
    ``DecordDecode``, and ``clamped_frames``, the number of those replaced.

    Raises:
        BadVideo: If a frame cannot be decoded (from ``transform``).
    """

    def __init__(self) -> None:
        super().__init__()

    def transform(self, results: dict) -> dict:
        """Fill ``results['imgs']``."""
        reader, wanted = results["video_reader"], np.ravel(results["frame_inds"])
        results = super().transform(results)
        clamped = int((wanted >= len(reader)).sum())
        results["clamped_frames"] = clamped
        if clamped:
            warnings.warn(
                f"{results.get('filename')}: {clamped} of {len(wanted)} sampled frames lie beyond "
                f"its {len(reader)} frames; the last one stands in",
                stacklevel=2,
            )
        return results

    def _decord_load_frames(
        self, container: VideoReader, frame_inds: np.ndarray
    ) -> list[np.ndarray]:
        real = np.clip(frame_inds, 0, len(container) - 1)
        indices, places = np.unique(real, return_inverse=True)
        frames = container.get_batch(indices)
        seen: set[int] = set()
        images = []
        for place in places:
            # Transforms such as Flip work in place: no two images may be the same array.
            images.append(frames[place].copy() if place in seen else frames[place])
            seen.add(place)
        return images

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
