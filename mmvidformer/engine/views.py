"""The views of a multi-view test: temporal clips x spatial crops of each video."""

import re
from argparse import ArgumentTypeError
from collections.abc import Iterator, Sequence

from mmengine.config import Config

from mmvidformer.config import pipelines, type_name

# Crop transform: crops of a frame.
CROPS = {"CenterCrop": 1, "ThreeCrop": 3, "TenCrop": 10}

# MMAction2's samplers have num_clips, or such a name.
SAMPLERS = "Sample|SpanFrames"

# Recognizers that can process some views of a video at a time.
LIMITED = ("Recognizer3D", "MultiViewRecognizer")


def parse_views(text: str) -> tuple[int, int]:
    """Read views written as clips x crops, such as ``4x3``.

    Raises:
        ArgumentTypeError: If the text has another form, or the crops are not 1, 3 or 10.
    """
    match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text)
    if match is None or int(match[2]) not in CROPS.values():
        raise ArgumentTypeError(
            f"must be CLIPSxCROPS with 1, 3 or 10 crops, such as 4x3, got {text!r}"
        )
    return int(match[1]), int(match[2])


def set_views(cfg: Config, clips: int, crops: int) -> None:
    """Set the views of the test pipelines of ``cfg``, in place.

    Changes the sampler's ``num_clips`` and the crop transform.

    Args:
        cfg: Complete config.
        clips: Number of temporal clips, evenly spaced.
        crops: 1 (center), 3 (along the longer side) or 10 (corners and center, and flipped).

    Raises:
        ValueError: If a pipeline samples no clips, or has no crop although several are needed.
    """
    for pipeline in _test_pipelines(cfg):
        sampler, crop = _find(pipeline)
        names = ", ".join(map(type_name, pipeline))
        if sampler is None:
            raise ValueError(f"the test pipeline must have a transform that samples; got {names}")
        sampler["num_clips"] = clips
        if crop is None and crops > 1:
            raise ValueError(f"the test pipeline must have one of {', '.join(CROPS)}; got {names}")
        if crop is None or CROPS[type_name(crop)] == crops:
            continue
        size = crop["crop_size"]
        crop.clear()
        name = next(name for name, number in CROPS.items() if number == crops)
        crop.update(type=f"mmvidformer.{name}" if crops == 3 else name, crop_size=size)


def get_views(cfg: Config) -> tuple[int, int]:
    """Clips (1 if their number depends on the video) and crops in the test pipeline of ``cfg``."""
    sampler, crop = _find(next(_test_pipelines(cfg), []))
    return (sampler or {}).get("num_clips") or 1, CROPS[type_name(crop)] if crop else 1


def may_limit_views(cfg: Config) -> bool:
    """Whether the recognizer of ``cfg`` could have a limit of views, and has none."""
    limit = (cfg.model.get("test_cfg") or {}).get("max_testing_views")
    return not limit and type_name(cfg.model) in LIMITED


def limit_views(cfg: Config, limit: int) -> None:
    """Process at most ``limit`` views in one forward pass, with the same scores.

    MMAction2's ``Recognizer3D`` is replaced by ``mmvidformer.MultiViewRecognizer``, which respects
    the limit for batches of any size.

    Raises:
        ValueError: If ``limit`` is not positive, or the recognizer has another type.
    """
    if limit < 1:
        raise ValueError(f"the limit of views must be at least 1, got {limit}")
    kind = type_name(cfg.model)
    if kind not in LIMITED:
        raise ValueError(f"views can be limited for {' and '.join(LIMITED)}, the model is a {kind}")
    cfg.model.type = "mmvidformer.MultiViewRecognizer"
    cfg.model.test_cfg = {**(cfg.model.get("test_cfg") or {}), "max_testing_views": limit}


def _test_pipelines(cfg: Config) -> Iterator[list[dict]]:
    if cfg.get("test_dataloader"):
        yield from pipelines(cfg.test_dataloader.dataset)
    if cfg.get("test_pipeline"):
        yield cfg.test_pipeline


def _find(pipeline: Sequence[dict]) -> tuple[dict | None, dict | None]:
    """Sampler of clips and crop of a pipeline."""
    samplers = (s for s in pipeline if "num_clips" in s or re.search(SAMPLERS, type_name(s)))
    return next(samplers, None), next((s for s in pipeline if type_name(s) in CROPS), None)
