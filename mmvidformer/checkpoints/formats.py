"""All formats of checkpoints: recognizing one by its names, and converting its weights."""

from collections.abc import Callable, Mapping
from inspect import signature
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from mmvidformer.checkpoints.backbones import VIDEO_VITS, backbone_arguments
from mmvidformer.checkpoints.dinov3 import from_dinov3, is_dinov3
from mmvidformer.checkpoints.flax import from_google_npz, from_scenic
from mmvidformer.checkpoints.huggingface_images import from_huggingface_image, is_huggingface_image
from mmvidformer.checkpoints.internvideo_next import from_internvideo_next, is_internvideo_next
from mmvidformer.checkpoints.keymap import Conversion, has, strip_prefixes
from mmvidformer.checkpoints.levjepa import from_levjepa, is_levjepa
from mmvidformer.checkpoints.metadata import read_info
from mmvidformer.checkpoints.native import from_native, is_native
from mmvidformer.checkpoints.onevision import from_onevision, is_onevision
from mmvidformer.checkpoints.published import row_of
from mmvidformer.checkpoints.reading import Checkpoint
from mmvidformer.checkpoints.streamformer import from_streamformer, is_streamformer
from mmvidformer.checkpoints.timm_models import from_timm
from mmvidformer.checkpoints.trecvit import from_trecvit, is_trecvit
from mmvidformer.checkpoints.video_models import (
    DIALECTS,
    IMAGE,
    from_feature_fixation,
    from_timesformer,
    from_videomae,
    from_vivit,
    from_vjepa2,
    is_videomae,
    is_vjepa2,
)
from mmvidformer.checkpoints.videoprism import from_videoprism, is_videoprism
from mmvidformer.checkpoints.vjepa2_1 import from_vjepa2_1, is_vjepa2_1
from mmvidformer.errors import UserError


class Format(NamedTuple):
    """A format: title, test of a state dict, converter, and whether its models are of images.

    A converter takes a state dict (trees flattened with ``/``, wrappers such as ``model_state``
    removed) and, as it needs them, ``grid``, tokens (T, H, W) of the position table (default: see
    ``operations.grid_of``), the attention ``scheme``, and ``meta``, what the file contains beside
    the weights. It raises a ``UserError`` if names or options do not fit.
    """

    title: str
    matches: Callable[[Mapping[str, Tensor]], bool]
    convert: Callable[..., Conversion]
    is_image: bool = False


def _is_scenic(state: Mapping[str, Tensor]) -> bool:
    tubelets = has(state, "embedding/kernel$", dim=5)
    return has(state, "ransformer/encoder") and (tubelets or has(state, "SpatialTransformer/"))


def from_bn_inception(state: Mapping[str, Tensor]) -> Conversion:
    """Convert BN-Inception without its classifier, in the two wrappers of a TSN or in none.

    Missing and unknown names are errors when the backbone loads them.
    """
    state = strip_prefixes(state, ("module.", "base_model."))
    ignored = [name for name in state if name.startswith(("last_linear.", "fc.", "new_fc."))]
    kept = {f"backbone.{name}": state[name] for name in state if name not in ignored}
    return Conversion(kept, ignored=ignored)


# The first one that matches counts.
FORMATS: dict[str, Format] = {
    "mmvidformer": Format("mmvidformer", is_native, from_native),
    "scenic": Format("scenic ViViT", _is_scenic, from_scenic),
    "google_npz": Format(
        "Google image ViT",
        lambda state: has(state, "embedding/kernel", "Transformer/encoder"),
        from_google_npz,
        is_image=True,
    ),
    "internvideo_next": Format(
        "InternVideo-Next (official)", is_internvideo_next, from_internvideo_next
    ),
    "videomae": Format("VideoMAE (official, HuggingFace or MMAction2)", is_videomae, from_videomae),
    "vjepa2_1": Format("V-JEPA 2.1 (official)", is_vjepa2_1, from_vjepa2_1),
    "levjepa": Format("LeVJEPA (official)", is_levjepa, from_levjepa),
    "onevision": Format("OneVision-Encoder (official)", is_onevision, from_onevision),
    "vjepa2": Format("V-JEPA 2 (official or HuggingFace)", is_vjepa2, from_vjepa2),
    "videoprism": Format("VideoPrism (flax or HuggingFace)", is_videoprism, from_videoprism),
    "streamformer": Format("StreamFormer (official)", is_streamformer, from_streamformer),
    "trecvit": Format("TRecViT (flax)", is_trecvit, from_trecvit),
    "huggingface": Format(
        "HuggingFace ViViT",
        lambda state: (
            has(state, r"embeddings\.cls_token$")
            and has(state, r"embeddings\.patch_embeddings\.projection\.weight$", dim=5)
        ),
        from_vivit,
    ),
    "timesformer": Format(
        "TimeSformer (official, HuggingFace or MMAction2)",
        lambda state: (  # it has positions, and no LayerScale
            any(name in state for name in (*DIALECTS, IMAGE))
            and has(state, r"pos_embed$|position_embeddings$")
            and not has(state, r"gamma(_1)?$")
        ),
        from_timesformer,
    ),
    "feature_fixation": Format(
        "linear video transformer with feature fixation (official)",
        lambda state: has(state, "temp_embed", r"patch_embed\.proj\.weight"),
        from_feature_fixation,
    ),
    "bn_inception": Format(
        "BN-Inception (ImageNet, or TSN of RULSTM)",
        lambda state: has(state, r"conv1_7x7_s2\.weight", r"inception_5b_pool_proj\.weight"),
        from_bn_inception,
    ),
    "dinov3": Format("DINOv3 (official or HuggingFace)", is_dinov3, from_dinov3, is_image=True),
    "timm": Format(
        "timm or DINOv2 image ViT",
        lambda state: has(
            state, r"^patch_embed\.proj\.weight$", r"^blocks\.0\.attn\.(qkv|q_proj)\.weight$"
        ),
        from_timm,
        is_image=True,
    ),
    "huggingface_image": Format(
        "HuggingFace image ViT", is_huggingface_image, from_huggingface_image, is_image=True
    ),
}


def recognize(state: Mapping[str, Tensor]) -> str:
    """Return the name in ``FORMATS`` of a state dict's format.

    Raises:
        UserError: If no format matches. The message shows some of the names.
    """
    for name, row in FORMATS.items():
        if row.matches(state):
            return name
    titles = [row.title for row in FORMATS.values()]
    raise UserError(f"the names match none of the formats {titles}: {list(state)[:8]}, ...")


def convert_checkpoint(
    checkpoint: Checkpoint, source: str | Path, **options: object
) -> tuple[str, Conversion]:
    """Convert the content of a file; ``source`` is its name. See ``convert.read_model``."""
    name = recognize(checkpoint.state)
    title, convert = FORMATS[name].title, FORMATS[name].convert
    accepted = signature(convert).parameters
    arguments = {key: value for key, value in options.items() if value is not None}
    if wrong := sorted(arguments.keys() - accepted.keys()):
        raise UserError(f"{source} is a {title} checkpoint, which takes no {', '.join(wrong)}")
    if "meta" in accepted:
        arguments["meta"] = checkpoint.meta
    try:
        conversion = convert(checkpoint.state, **arguments)
    except ValueError as error:
        raise UserError(f"{source} ({title}): {error}") from error
    conversion.info |= read_info(checkpoint.meta, row_of(source))
    return name, conversion


def meta_of(name: str, conversion: Conversion) -> dict:
    """Return ``meta`` of a converted checkpoint: its format, the model's arguments, the data."""
    arguments = backbone_arguments(conversion)
    meta: dict = {
        "converted_from": name,
        "backbone": {"type": conversion.model, **arguments} if arguments else {},
    }
    if conversion.scheme in VIDEO_VITS:
        meta |= {"scheme": conversion.scheme, "head": conversion.head}
    return meta | conversion.info
