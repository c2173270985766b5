"""Choosing the library that decodes videos, in a config that names MMAction2's decoders."""

from mmengine.config import Config, ConfigDict

from mmvidformer.config import type_name

# What opens a video, and what decodes it then.
_OPEN = {"DecordInit", "OpenCVInit", "PyAVInit", "VideoInit"}
_DECODE = {"DecordDecode", "OpenCVDecode", "PyAVDecode", "VideoDecode"}


def set_video_backend(cfg: Config, backend: str) -> None:
    """Let every pipeline of ``cfg`` decode with ``mmvidformer.VideoInit`` and ``VideoDecode``.

    Args:
        cfg: A whole config; rewritten in place.
        backend: ``'auto'``, ``'decord'``, ``'pyav'`` or ``'opencv'``.

    Raises:
        ValueError: If no transform of ``cfg`` opens a video.
    """
    if not _replace(cfg._cfg_dict, backend):
        raise ValueError(
            f"video_backend={backend}: no pipeline of the config opens videos (with one of "
            f"{', '.join(sorted(_OPEN))})"
        )


def _replace(part: object, backend: str) -> int:
    """Replace the decoders in a part of a config; gives their number."""
    if isinstance(part, list | tuple):
        return sum(_replace(one, backend) for one in part)
    if not isinstance(part, dict):
        return 0
    name = type_name(part)
    if name in _OPEN:
        _replace_opening(part, backend)
        return 1
    if name in _DECODE:
        part.clear()
        part["type"] = "mmvidformer.VideoDecode"
        return 0
    return sum(_replace(one, backend) for one in part.values())


def _replace_opening(step: ConfigDict, backend: str) -> None:
    new = dict(type="mmvidformer.VideoInit", backend=backend)
    new["num_threads"] = step.pop("num_threads", 1)
    place = step.pop("io_backend", "disk")
    args = step.pop("backend_args", None)
    others = {key: value for key, value in step.items() if key not in ("type", "backend")}
    if args is not None or place != "disk":
        new["backend_args"] = args or dict(backend=place, **others)
    step.clear()
    step.update(new)
