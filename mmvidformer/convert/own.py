"""This package's own weights: reading them, and the arguments that build their model."""

import math
from collections.abc import Mapping

from torch import Tensor

from mmvidformer.convert.feature_fixation import own_fixation
from mmvidformer.convert.keymap import Conversion

# Part of a weight's name that every backbone has, and the neck of HORST.
SIGNS = (
    "encoders.0.blocks.0.sublayers.",
    "backbone.inception_5b_3x3.",
    "neck.layers.0.encode.conv.",
)
BACKBONE = ("embed.", "encoders.")
RECOGNIZER = ("backbone.", "neck.", "cls_head.")
IGNORED = ("data_preprocessor.",)


def is_own(state: Mapping[str, Tensor]) -> bool:
    """Return whether the names are those of a recognizer or backbone of this package."""
    return any(sign in name for name in state for sign in SIGNS)


def from_own(
    state: Mapping[str, Tensor], meta: Mapping | None = None, scheme: str | None = None
) -> Conversion:
    """Take the weights of a recognizer, or of a backbone alone.

    Args:
        state: Its state dict.
        meta: What ``convert_file`` wrote beside it. Checkpoints of training runs have none of it.
        scheme: Attention scheme of the backbone, if ``meta`` does not contain it.
    """
    result = Conversion({})
    unknown = []
    for name, value in state.items():
        if name.startswith(IGNORED):
            result.ignored.append(name)
        elif name.startswith(RECOGNIZER):
            result.state[name] = value
        elif name.startswith(BACKBONE):
            result.state[f"backbone.{name}"] = value
        else:
            unknown.append(name)
    if unknown:
        raise ValueError(f"names that are not part of a recognizer: {unknown}")
    settings = (meta or {}).get("backbone", {})
    result.scheme = settings.get("scheme", scheme)
    if scheme not in (None, result.scheme):
        raise ValueError(f"the scheme is {result.scheme!r}, not {scheme!r}")
    result.num_heads = settings.get("arch", {}).get("num_heads")
    return result


def count_blocks(state: Mapping[str, Tensor], encoder: str) -> int:
    """Count the blocks of an encoder, given its full name."""
    stem = f"{encoder}.blocks."
    return len({name.removeprefix(stem).split(".")[0] for name in state if name.startswith(stem)})


def settings_of(result: Conversion) -> dict:
    """Infer the arguments that build the backbone of converted weights.

    The weights of ``FeatureFixationTransformer`` do not determine the image size, the shifts and
    the kernel, and those of a model that averages its frames not the clip length; one tubelet is
    assumed. Image models get no ``scheme``.

    Returns:
        The arguments as far as the weights determine them; empty if they do not belong to a
        ``VideoTransformer``.
    """
    state, first = result.state, "backbone.encoders.0"
    if "backbone.embed.proj.weight" not in state:
        return {}
    tables = [f"{first}.pos_embed.{axes}" for axes in ("thw", "hw", "t")]
    if not any(table in state for table in tables):
        raise ValueError(f"the weights are not those of a ViViT: {tables[0]!r} is missing")
    dim, _, *tubelet = state["backbone.embed.proj.weight"].shape
    hidden = state[f"{first}.blocks.0.mlp.fc1.weight"].shape[0]
    ratio = hidden / dim
    if int(dim * ratio) != hidden:  # the quotient was rounded down
        ratio = math.nextafter(ratio, math.inf)
    arch = dict(embed_dims=dim, depth=count_blocks(state, first), mlp_ratio=ratio)
    if result.num_heads is not None:
        arch["num_heads"] = result.num_heads
    settings: dict = {"arch": arch, "stem": {"tubelet": tuple(tubelet)}}
    if result.scheme is not None:
        settings["scheme"] = result.scheme
    if f"{first}.norm.weight" in state and f"{first}.norm.bias" not in state:
        settings["norm"] = "rms"
    times = state.get(f"{first}.pos_embed.t")
    if "backbone.embed.norm.weight" in state:
        side = tubelet[-1]  # tubelets overlap as in the official code
        settings["stem"] |= dict(
            stride=(1, side * 7 // 8, side * 7 // 8), padding=(0, side // 2, side // 2), norm=True
        )
        return settings | dict(
            clip_len=state[f"{first}.pos_embed.t"].shape[1], fixation=own_fixation(state)
        )
    if f"{first}.pos_embed.hw" in state:
        rows, columns = state[f"{first}.pos_embed.hw"].shape[2:4]
        if fixation := own_fixation(state):
            settings["fixation"] = fixation
        return settings | dict(
            img_size=(rows * tubelet[1], columns * tubelet[2]),
            clip_len=1 if times is None else times.shape[1],
        )
    frames, rows, columns = state[f"{first}.pos_embed.thw"].shape[1:4]
    times = state.get("backbone.encoders.1.pos_embed.thw")
    if result.scheme == "factorized_encoder":
        settings["temporal_depth"] = count_blocks(state, "backbone.encoders.1")
    return settings | dict(
        img_size=(rows * tubelet[1], columns * tubelet[2]),
        clip_len=tubelet[0] * (frames if times is None else times.shape[1]),
        pool="cls" if f"{first}.cls_token" in state else "mean",
    )
