"""This package's own weights: reading them, and the arguments that build their model."""

import math
from collections.abc import Mapping

from torch import Tensor

from mmvidformer.convert.feature_fixation import own_fixation
from mmvidformer.convert.keymap import Conversion

# Part of a weight's name that every backbone has, and the neck of HORST.
SIGNS = ("encoders.0.blocks.0.sublayers.", "blocks.5b.branches.", "neck.layers.0.encode.conv.")
BACKBONE = ("embed.", "encoders.", "stem.", "blocks.")
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
    result.scheme = settings.get("scheme", settings.get("attention", scheme))
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

    Returns:
        The arguments as far as the weights determine them; empty if they do not belong to a
        ``VideoTransformer``.
    """
    if "backbone.embed.proj.weight" not in result.state:
        return {}
    norm = "backbone.encoders.0.norm."
    rms = norm + "weight" in result.state and norm + "bias" not in result.state
    options = {"norm": "rms"} if rms else {}
    if "backbone.embed.norm.weight" in result.state:
        return feature_fixation_settings(result) | options
    if "backbone.encoders.0.pos_embed.hw" in result.state:
        return timesformer_settings(result) | options
    return vivit_settings(result) | options


def _arch(result: Conversion) -> dict:
    dim = result.state["backbone.embed.proj.weight"].shape[0]
    hidden = result.state["backbone.encoders.0.blocks.0.mlp.fc1.weight"].shape[0]
    ratio = hidden / dim
    if int(dim * ratio) != hidden:  # the quotient was rounded down
        ratio = math.nextafter(ratio, math.inf)
    heads = {} if result.num_heads is None else {"num_heads": result.num_heads}
    depth = count_blocks(result.state, "backbone.encoders.0")
    return dict(embed_dims=dim, depth=depth, mlp_ratio=ratio, **heads)


def feature_fixation_settings(result: Conversion) -> dict:
    """Infer the arguments of ``FeatureFixationTransformer`` with the official stem.

    The weights do not determine the image size, the shifts and the kernel.
    """
    return dict(
        arch=_arch(result),
        attention=result.scheme,
        clip_len=result.state["backbone.encoders.0.pos_embed.t"].shape[1],
        patch_size=result.state["backbone.embed.proj.weight"].shape[-1],
        fixation=own_fixation(result.state),
    )


def timesformer_settings(result: Conversion) -> dict:
    """Infer the arguments of ``TimeSformer``; ``clip_len`` is 1 without a table over time."""
    patch = result.state["backbone.embed.proj.weight"].shape[-1]
    rows, columns = result.state["backbone.encoders.0.pos_embed.hw"].shape[2:4]
    times = result.state.get("backbone.encoders.0.pos_embed.t")
    return dict(
        arch=_arch(result),
        attention=result.scheme,
        img_size=(rows * patch, columns * patch),
        clip_len=1 if times is None else times.shape[1],
        patch_size=patch,
    )


def vivit_settings(result: Conversion) -> dict:
    """Infer the arguments of ``ViViT``.

    The weights of a model that averages its frames do not determine the clip length; one tubelet
    is assumed. Image models get no ``scheme``.
    """
    state = result.state
    try:
        _, _, *tubelet = state["backbone.embed.proj.weight"].shape
        frames, rows, columns = state["backbone.encoders.0.pos_embed.thw"].shape[1:4]
    except KeyError as error:
        raise ValueError(f"the weights are not those of a ViViT: {error} is missing") from error
    times = state.get("backbone.encoders.1.pos_embed.thw")
    frames = frames if times is None else times.shape[1]
    scheme = {} if result.scheme is None else {"scheme": result.scheme}
    return dict(
        arch=_arch(result),
        **scheme,
        img_size=(rows * tubelet[1], columns * tubelet[2]),
        clip_len=frames * tubelet[0],
        tubelet=tuple(tubelet),
        temporal_depth=count_blocks(state, "backbone.encoders.1"),
        pool="cls" if "backbone.encoders.0.cls_token" in state else "mean",
    )
