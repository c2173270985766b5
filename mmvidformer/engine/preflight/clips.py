"""The clips that a pipeline makes against those that a backbone is built for."""

from collections.abc import Iterator, Mapping, Sequence

from mmengine.config import Config

from mmvidformer.config import leaf_datasets, type_name
from mmvidformer.engine.preflight.problems import Problem

CROPS = ("CenterCrop", "ThreeCrop", "TenCrop", "RandomCrop", "RandomResizedCrop", "MultiScaleCrop")


def check_clips(cfg: Config, split: str, dataset: Mapping) -> list[Problem]:
    """Compare frames and pixels of a split's clips with the backbone's grid.

    What a pipeline leaves open (lengths of early recognition, sizes kept in proportion) is passed
    over.
    """
    backbone = (cfg.get("model") or {}).get("backbone") or {}
    problems = []
    for leaf in leaf_datasets(dataset):
        pipeline = leaf.get("pipeline") or ()
        problems += _length(split, pipeline, backbone)
        problems += _size(split, pipeline, backbone)
    return problems


def clip_length(pipeline: Sequence[Mapping]) -> int | None:
    """Frames of a clip; None if the pipeline does not say."""
    length = None
    for step in pipeline:
        if type_name(step) == "UniformFrames":
            length = step["num_frames"]
        elif step.get("clip_len") is not None:
            length = step["clip_len"]
    return length


def clip_size(pipeline: Sequence[Mapping]) -> tuple | None:
    """Height and width of a clip, as written; None if the pipeline does not say."""
    size = None
    for step in pipeline:
        name = type_name(step)
        if name == "Resize":
            scale = step.get("scale")
            known = not step.get("keep_ratio", True) and isinstance(scale, Sequence)
            size = (scale[1], scale[0]) if known else None
        elif name in ("RandomRescale", "RandomResizedCrop"):
            size = None
        elif name in CROPS:
            crop = step.get("crop_size", step.get("size", step.get("input_size")))
            size = tuple(reversed(crop)) if isinstance(crop, list | tuple) else (crop, crop)
    return size


def _length(split: str, pipeline: Sequence[Mapping], backbone: Mapping) -> Iterator[Problem]:
    length, wanted = clip_length(pipeline), backbone.get("clip_len")
    where = f"{split}_dataloader.dataset.pipeline"
    depth = (backbone.get("tubelet") or (1,))[0]
    if length is None:
        return
    if not isinstance(length, int) or length < 1:
        what = f"clips have {length!r} frames"
        yield Problem("clip_len", where, what, "Give a clip_len that is a whole number above 0.")
    elif length % depth:
        yield Problem(
            "clip_len",
            where,
            f"clips have {length} frames, which tubelets of {depth} frames (model.backbone."
            f"tubelet={tuple(backbone['tubelet'])}) do not divide",
            f"Give a clip_len that is a multiple of {depth}.",
        )
    elif wanted is not None and length != wanted:
        yield Problem(
            "clip_len",
            where,
            f"clips have {length} frames, model.backbone.clip_len is {wanted}",
            f"Give clip_len={wanted} here, or {length} there; if the table of positions is to be "
            "interpolated, skip this check.",
        )


def _size(split: str, pipeline: Sequence[Mapping], backbone: Mapping) -> Iterator[Problem]:
    size, wanted = clip_size(pipeline), backbone.get("img_size")
    if size is None or wanted is None:
        return
    where = f"{split}_dataloader.dataset.pipeline"
    wanted = (wanted, wanted) if isinstance(wanted, int) else tuple(wanted)
    patch = backbone.get("patch_size", 16)
    patches = tuple((backbone.get("tubelet") or (1, patch, patch))[1:])
    if len(size) != 2 or not all(isinstance(side, int) and side > 0 for side in size):
        what = f"clips are {' x '.join(map(repr, size))} pixels"
        yield Problem("crop_size", where, what, "Give a crop_size that is one whole number or two.")
    elif any(pixels % side for pixels, side in zip(size, patches, strict=True)):
        yield Problem(
            "crop_size",
            where,
            f"clips are {size[0]} x {size[1]} pixels, which patches of {patches[0]} x {patches[1]} "
            "do not divide",
            f"Crop to a multiple of {patches[0]}, such as model.backbone.img_size={wanted[0]}.",
        )
    elif size != wanted:
        yield Problem(
            "crop_size",
            where,
            f"clips are {size[0]} x {size[1]} pixels, model.backbone.img_size is "
            f"{wanted[0]} x {wanted[1]}",
            f"Crop to {wanted[0]} here, or give img_size={size[0]} there; if the table of "
            "positions is to be interpolated, skip this check.",
        )
