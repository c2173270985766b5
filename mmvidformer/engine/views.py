"""The views of a multi-view test: temporal clips and spatial crops of each video."""

import re
from collections.abc import Iterator, Sequence

from mmengine.config import Config

from mmvidformer.config import pipelines, type_name

# Crop transform: crops it makes of a frame.
CROPS = {"CenterCrop": 1, "ThreeCrop": 3, "TenCrop": 10}

# Recognisers that can take the views of a video some at a time.
LIMITED = ("Recognizer3D", "MultiViewRecognizer")


def parse_views(text: str) -> tuple[int, int]:
    """Read views written as clips x crops, such as ``4x3``.

    Raises:
        ValueError: If ``text`` is not of that form, or the crops are not 1, 3 or 10.
    """
    match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text)
    if match is None or int(match[2]) not in CROPS.values():
        raise ValueError(f"views must be CLIPSxCROPS with 1, 3 or 10 crops, as 4x3; got {text!r}")
    return int(match[1]), int(match[2])


def set_views(cfg: Config, clips: int, crops: int) -> None:
    """Rewrite the test pipelines of ``cfg``, in place, to ``clips`` x ``crops`` views.

    The sampler's ``num_clips`` and the crop transform change. Three crops lie along the longer
    side of a frame whose shorter side is the crop's, so that the ``Resize`` before them is set
    to it where it keeps the aspect ratio.

    Args:
        cfg: A whole config; its ``test_dataloader`` and ``test_pipeline`` are rewritten.
        clips: Temporal clips, evenly spread.
        crops: 1 (centre), 3 (along the longer side) or 10 (corners, centre, and flipped).

    Raises:
        ValueError: If a pipeline has no sampler of frames, or no crop where one is needed.
    """
    for pipeline in _test_pipelines(cfg):
        sampler = _sampler(pipeline)
        if sampler is None:
            raise ValueError(f"no transform of the test pipeline has clips: {_names(pipeline)}")
        sampler["num_clips"] = clips
        place = _crop_place(pipeline)
        if place is None:
            if crops == 1:
                continue
            raise ValueError(
                f"{crops} crops need one of {', '.join(CROPS)} in the test pipeline, "
                f"which has {_names(pipeline)}"
            )
        if CROPS[type_name(pipeline[place])] != crops:
            _set_crops(pipeline, place, crops)


def get_views(cfg: Config) -> tuple[int, int]:
    """Tell the clips and crops of the test pipeline of ``cfg``."""
    pipeline = next(_test_pipelines(cfg), [])
    place = _crop_place(pipeline)
    crops = 1 if place is None else CROPS[type_name(pipeline[place])]
    sampler = _sampler(pipeline)
    return (1 if sampler is None else sampler.get("num_clips", 1)), crops


def may_limit_views(cfg: Config) -> bool:
    """Tell whether the recogniser of ``cfg`` can have a limit of views, and has none."""
    limited = (cfg.model.get("test_cfg") or {}).get("max_testing_views")
    return not limited and type_name(cfg.model) in LIMITED


def limit_views(cfg: Config, limit: int) -> None:
    """Let at most ``limit`` views go through the model of ``cfg`` at once, in place.

    Scores stay what they are. MMAction2's ``Recognizer3D`` is replaced by
    ``mmvidformer.MultiViewRecognizer``, which keeps the limit for batches of any size.

    Raises:
        ValueError: If ``limit`` is not positive, or the recogniser is of another type.
    """
    if limit < 1:
        raise ValueError(f"the limit of views must be at least 1, got {limit}")
    if type_name(cfg.model) not in LIMITED:
        raise ValueError(
            f"views can be limited in one of {', '.join(LIMITED)}, the model is a "
            f"{type_name(cfg.model)}"
        )
    cfg.model.type = "mmvidformer.MultiViewRecognizer"
    cfg.model.test_cfg = {**(cfg.model.get("test_cfg") or {}), "max_testing_views": limit}


def _set_crops(pipeline: list[dict], place: int, crops: int) -> None:
    size = pipeline[place]["crop_size"]
    by_count = {count: name for name, count in CROPS.items()}
    pipeline[place] = dict(type=by_count[crops], crop_size=size)
    if crops != 3:
        return
    short = size if isinstance(size, int) else min(size)
    for step in reversed(pipeline[:place]):
        if type_name(step) == "Resize":
            if step.get("keep_ratio", True):
                step["scale"] = (-1, short)
            return


def _test_pipelines(cfg: Config) -> Iterator[list[dict]]:
    if cfg.get("test_dataloader"):
        yield from pipelines(cfg.test_dataloader.dataset)
    if cfg.get("test_pipeline"):
        yield cfg.test_pipeline


def _sampler(pipeline: Sequence[dict]) -> dict | None:
    # MMAction2's are all called Sample..., or say num_clips.
    for step in pipeline:
        if "num_clips" in step or "Sample" in type_name(step) or type_name(step) == "SpanFrames":
            return step
    return None


def _crop_place(pipeline: Sequence[dict]) -> int | None:
    for place, step in enumerate(pipeline):
        if type_name(step) in CROPS:
            return place
    return None


def _names(pipeline: Sequence[dict]) -> str:
    return ", ".join(map(type_name, pipeline))
