from collections.abc import Sequence

from mmaction.datasets.transforms import (
    DecordDecode,
    DecordInit,
    OpenCVDecode,
    OpenCVInit,
    PIMSDecode,
    PIMSInit,
    PyAVDecode,
    PyAVDecodeMotionVector,
    PyAVInit,
)

from mmvidformer.errors import UserError
from mmvidformer.layers.lookup import look_up
from mmvidformer.registry import TRANSFORMS
from mmvidformer.storage.files import is_remote
from mmvidformer.storage.range_file import RangeFile
from mmvidformer.video.errors import with_suffix
from mmvidformer.video.readers import BACKENDS
from mmvidformer.video.video import Video


@TRANSFORMS.register_module()
class VideoInit(DecordInit):
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

    def __init__(
        self,
        backend: str = "pyav",
        num_threads: int = 1,
        max_pixels: int | None = None,
        io_backend: str = "disk",
        **kwargs,
    ) -> None:
        super().__init__(io_backend, num_threads, **kwargs)
        self.backend = look_up(BACKENDS, backend, "video backend")
        if max_pixels and backend != "pyav":
            raise UserError(f"max_pixels={max_pixels} needs backend='pyav', got {backend!r}")
        if io_backend not in ("disk", "local") and backend != "decord":
            raise UserError(f"io_backend={io_backend!r} needs backend='decord', got {backend!r}")
        self.options = dict(num_threads=num_threads, max_pixels=max_pixels)

    def transform(self, results: dict) -> dict:
        """Open ``results['filename']``, or the video of a shard, ``results['stored_video']``.

        Frames that are given as ``array`` stay (``ArrayDecode``).
        """
        if "array" in results:
            return results
        stored = results.pop("stored_video", None)
        if stored is None:
            return super().transform(results)
        video = stored.open(self.backend, **self.options)
        facts = dict(total_frames=len(video), avg_fps=video.get_avg_fps())
        return {**results, **facts, "video_reader": video}

    def _get_video_reader(self, filename: str) -> object:
        if self.backend == "decord":
            return super()._get_video_reader(filename)
        if is_remote(filename):
            return Video.open(RangeFile.open(filename), self.backend, **self.options)
        return Video.open(with_suffix(filename), self.backend, **self.options)


@TRANSFORMS.register_module()
class VideoDecode(DecordDecode):
    """Decode the sampled frames of a video that ``VideoInit`` opened.

    Like ``DecordDecode``, without its ``mode='efficient'``. Except with decord, each frame is
    decoded once, and frames beyond the end are replaced by the last one, with a warning.
    """

    def transform(self, results: dict) -> dict:
        """Decode ``results['frame_inds']``, unless frames are given as ``array``."""
        return results if "array" in results else super().transform(results)


# Transforms that decode what another one opens, the first of them by preference.
DECODERS: dict[type, tuple[type, ...]] = {
    VideoInit: (VideoDecode, DecordDecode),
    DecordInit: (DecordDecode, VideoDecode),
    PyAVInit: (PyAVDecode, PyAVDecodeMotionVector),
    OpenCVInit: (OpenCVDecode,),
    PIMSInit: (PIMSDecode,),
}


def check_decoders(transforms: Sequence[object]) -> None:
    """Check that the transforms of a pipeline decode what those before them open.

    Transforms of other projects, also subclasses, may open and decode anything.

    Raises:
        UserError: If one cannot; names both, and the right one.
    """
    known = {decoder for decoders in DECODERS.values() for decoder in decoders}
    opener: object = None
    for transform in transforms:
        if type(transform) in DECODERS:
            opener = transform
        if opener is None or type(transform) not in known:
            continue
        decoders = DECODERS[type(opener)]
        name, fits = type(transform).__name__, type(transform) in decoders
        own_reader = isinstance(opener, VideoInit) and opener.backend != "decord"
        if fits and own_reader and transform.mode != "accurate":
            name, fits = f"{name}(mode={transform.mode!r})", False
        if not fits:
            what = f"{name} cannot decode what {type(opener).__name__} opens"
            raise UserError(f"{what}; use {decoders[0].__name__}()")
