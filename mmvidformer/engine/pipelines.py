"""Pipelines of a config with another decoder."""

from collections.abc import Iterator

from mmengine.config import Config

from mmvidformer.config import type_name

# Transforms that open a video, and those that decode it then.
_OPEN = ("DecordInit", "OpenCVInit", "PyAVInit", "VideoInit")
_DECODE = ("DecordDecode", "OpenCVDecode", "PyAVDecode", "VideoDecode")


def set_video_backend(cfg: Config, backend: str, **options: object) -> None:
    """Let all pipelines of a config decode with ``mmvidformer.VideoInit`` and ``VideoDecode``.

    Args:
        cfg: Config; changed in place.
        backend: Name in ``readers.BACKENDS``, such as ``'pyav'``.
        **options: Other arguments of ``VideoInit``.

    Raises:
        ValueError: If no pipeline opens videos.
    """
    steps = list(_dicts(cfg._cfg_dict))
    opening = [step for step in steps if type_name(step) in _OPEN]
    if not opening:
        raise ValueError(
            f"cannot use the video backend {backend!r}: no pipeline of the config opens videos "
            f"(with {', '.join(_OPEN)})"
        )
    for step in opening:
        step.update(type="mmvidformer.VideoInit", backend=backend, **options)
    for step in steps:
        if type_name(step) in _DECODE:
            step.clear()
            step["type"] = "mmvidformer.VideoDecode"


def _dicts(part: object) -> Iterator[dict]:
    """Yield all dictionaries in a part of a config."""
    if isinstance(part, dict):
        yield part
    if isinstance(part, dict | list | tuple):
        for inner in part.values() if isinstance(part, dict) else part:
            yield from _dicts(inner)
