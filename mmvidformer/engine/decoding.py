"""Decoding a config's videos with another library."""

from mmengine.config import Config

from mmvidformer.config import type_name

# Transforms that open a video, and those that decode it then.
_OPEN = ("DecordInit", "OpenCVInit", "PyAVInit", "VideoInit")
_DECODE = ("DecordDecode", "OpenCVDecode", "PyAVDecode", "VideoDecode")


def set_video_backend(cfg: Config, backend: str) -> None:
    """Let all pipelines of a config decode with ``mmvidformer.VideoInit`` and ``VideoDecode``.

    Args:
        cfg: Config; changed in place.
        backend: Name in ``readers.BACKENDS``, such as ``'pyav'``.

    Raises:
        ValueError: If no pipeline opens videos.
    """
    if not _replace(cfg._cfg_dict, backend):
        raise ValueError(
            f"cannot use the video backend {backend!r}: no pipeline of the config opens videos "
            f"(with {', '.join(_OPEN)})"
        )


def _replace(part: object, backend: str) -> bool:
    """Replace the decoders in a part of a config; return whether there were any."""
    if isinstance(part, list | tuple):
        return any([_replace(one, backend) for one in part])
    if not isinstance(part, dict):
        return False
    name = type_name(part)
    if name in _OPEN:
        part.update(type="mmvidformer.VideoInit", backend=backend)
        return True
    if name in _DECODE:
        part.clear()
        part["type"] = "mmvidformer.VideoDecode"
    return any([_replace(one, backend) for one in part.values()])
