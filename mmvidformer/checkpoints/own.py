"""This package's own weights: reading them, and the arguments that build their model."""

import math
from collections.abc import Mapping

from torch import Tensor

from mmvidformer.checkpoints.keymap import Conversion, count_blocks
from mmvidformer.layers.linear import merge_lora

# Part of a weight's name that every backbone has, and the neck of HORST.
SIGNS = (
    "encoders.0.blocks.0.sublayers.",
    "backbone.inception_5b_3x3.",
    "neck.layers.0.encode.conv.",
)
BACKBONE = ("embed.", "encoders.")
ENCODER = "backbone.encoders.0"
RECOGNIZER = ("backbone.", "neck.", "cls_head.")
IGNORED = ("data_preprocessor.", "decoder.", "to_decoder.", "to_pixels.", "mask_token")
# Models that HuggingFace has too, by their schemes: the class, and its table of names with the
# sections that any weights have (``names.yml``).
MODELS: dict[str, tuple[str, ...]] = {
    "spacetime": ("ViViT", "vivit", "model"),
    "space_only": ("TimeSformer", "timesformer", "model", "joint"),
    "joint_space_time": ("TimeSformer", "timesformer", "model", "time", "joint"),
    "divided_space_time": ("TimeSformer", "timesformer", "model", "time", "divided"),
    "videomae": ("VideoTransformer", "videomae", "head"),
    "vjepa2": ("VideoTransformer", "vjepa2", "head"),
}
# Arguments of the two last ones.
VIDEO_VITS: dict[str, dict] = {
    "videomae": dict(
        clip_len=16,
        img_size=(224, 224),
        positions=dict(type="joint", fixed="flat"),
        qkv_bias="qv",
        fc_norm="layer",
    ),
    "vjepa2": dict(clip_len=64, img_size=(256, 256), positions="none", rope="vjepa2", pool="none"),
}


def is_own(state: Mapping[str, Tensor]) -> bool:
    """Return whether the names are those of a recognizer or backbone of this package."""
    return any(sign in name for name in state for sign in SIGNS)


def from_own(
    state: Mapping[str, Tensor], meta: Mapping = {}, scheme: str | None = None
) -> Conversion:
    """Take the weights of a recognizer, or of a backbone alone.

    The ``meta`` is what ``convert_file`` wrote. Checkpoints of training runs have none of it, so
    their ``scheme`` may be given.
    """
    named = {f"backbone.{n}" if n.startswith(BACKBONE) else n: x for n, x in state.items()}
    result = Conversion({name: x for name, x in named.items() if name.startswith(RECOGNIZER)})
    merge_lora(result.state)
    result.ignored = [name for name in named if name.startswith(IGNORED)]
    if unknown := [name for name in named if not name.startswith((*RECOGNIZER, *IGNORED))]:
        raise ValueError(f"names that are not part of a recognizer: {unknown}")
    result.settings, result.head = dict(meta.get("backbone", {})), dict(meta.get("head", {}))
    known = result.settings.get("scheme", meta.get("scheme", scheme))
    if scheme not in (None, known):
        raise ValueError(f"the scheme is {known!r}, not {scheme!r}")
    kind, *_ = MODELS.get(known or "", ("",))
    result.scheme, result.model = known, result.settings.pop("type", kind)
    result.num_heads = result.settings.get("arch", {}).get("num_heads")
    return result


def mlp_ratio(dim: int, hidden: int) -> float:
    """Return the ratio of two widths that gives the second as ``int(dim * ratio)``."""
    ratio = hidden / dim
    return ratio if int(dim * ratio) == hidden else math.nextafter(ratio, math.inf)


def settings_of(result: Conversion) -> dict:
    """Return the arguments that build the backbone of converted weights.

    They are those that ``convert_file`` wrote, or else what scheme, names and shapes tell: without
    a known scheme (image models, compositions) nothing, and not the image size, shifts and kernel
    of feature fixation, or the clip length of a model that averages its frames.

    Raises:
        ValueError: If the weights are not those of a model with this scheme.
    """
    heads = {} if result.num_heads is None else {"num_heads": result.num_heads}
    if "arch" in result.settings:
        return result.settings | {"arch": result.settings["arch"] | heads}
    if not result.model:
        return {}
    try:
        return _settings(result, heads) | result.settings
    except KeyError as error:
        what = f"the weights are not those of a {result.model}"
        raise ValueError(f"{what}: {error} is missing") from error


def _settings(result: Conversion, heads: Mapping) -> dict:
    state, first = result.state, ENCODER
    dim, _, *tubelet = state["backbone.embed.proj.weight"].shape
    ratio = mlp_ratio(dim, len(state[f"{first}.blocks.0.mlp.fc1.weight"]))
    depth = count_blocks(state, f"{first}.blocks.")
    arch = dict(embed_dims=dim, depth=depth, mlp_ratio=ratio, **heads)
    stem: dict = {"tubelet": tuple(tubelet)}
    if result.model == "VideoTransformer":
        return dict(arch=arch, stem=stem, **VIDEO_VITS[result.scheme or ""])
    settings: dict = dict(arch=arch, scheme=result.scheme, stem=stem)
    times, table = state.get(f"{first}.pos_embed.t"), None
    if result.model == "ViViT":
        settings["pool"] = "cls" if f"{first}.cls_token" in state else "mean"
        times = table = state[f"{first}.pos_embed.thw"]
        if result.scheme == "factorized_encoder":
            settings["temporal_depth"] = count_blocks(state, "backbone.encoders.1.blocks.")
            times = state.get("backbone.encoders.1.pos_embed.thw")
    elif result.model == "TimeSformer":
        table = state[f"{first}.pos_embed.hw"]
    else:  # tubelets overlap as in the official code
        side = tubelet[-1]
        stride, padding = (1, side * 7 // 8, side * 7 // 8), (0, side // 2, side // 2)
        stem |= dict(stride=stride, padding=padding, norm=True)
    if times is not None:
        settings["clip_len"] = tubelet[0] * times.shape[1]
    if table is not None:
        settings["img_size"] = table.shape[2] * tubelet[1], table.shape[3] * tubelet[2]
    return settings
