"""What a converted model looks like: the arguments that build its backbone."""

import math
from collections.abc import Mapping

from torch import Tensor

from mmvidformer.convert.feature_fixation import own_fixation
from mmvidformer.convert.keymap import Conversion


def count_blocks(state: Mapping[str, Tensor], encoder: str) -> int:
    """Count the blocks of an encoder, given as its full name."""
    stem = f"{encoder}.blocks."
    return len({name.removeprefix(stem).split(".")[0] for name in state if name.startswith(stem)})


def settings_of(result: Conversion) -> dict:
    """Read the arguments of the backbone off converted weights, whichever model it is.

    Raises:
        ValueError: If the weights are of no model of ours.
    """
    for describe, sign in (
        (feature_fixation_settings, "backbone.embed.norm.weight"),
        (timesformer_settings, "backbone.encoder.pos_embed.hw"),
    ):
        if sign in result.state:
            return describe(result)
    return vivit_settings(result)


def _arch(result: Conversion) -> dict:
    dim = result.state["backbone.embed.proj.weight"].shape[0]
    hidden = result.state["backbone.encoder.blocks.0.mlp.fc1.weight"].shape[0]
    ratio = hidden / dim
    if int(dim * ratio) != hidden:  # the quotient was rounded down
        ratio = math.nextafter(ratio, math.inf)
    heads = {} if result.num_heads is None else {"num_heads": result.num_heads}
    depth = count_blocks(result.state, "backbone.encoder")
    return dict(embed_dims=dim, depth=depth, mlp_ratio=ratio, **heads)


def feature_fixation_settings(result: Conversion) -> dict:
    """Read the arguments of ``FeatureFixationTransformer`` with the official stem off its weights.

    Without positions in space the size of the images is not told; shifts and kernel are not
    either.

    Returns:
        ``arch`` (without ``num_heads`` where that is not known), ``attention``, ``clip_len``,
        ``patch_size`` and ``fixation``.

    Raises:
        ValueError: If the gates do not tell their scheme.
    """
    return dict(
        arch=_arch(result),
        attention=result.scheme,
        clip_len=result.state["backbone.encoder.pos_embed.t"].shape[1],
        patch_size=result.state["backbone.embed.proj.weight"].shape[-1],
        fixation=own_fixation(result.state),
    )


def timesformer_settings(result: Conversion) -> dict:
    """Read the arguments of ``TimeSformer`` off converted weights.

    Without a table over time (``space_only``) the clip length is not told; one frame is given.

    Returns:
        ``arch`` (without ``num_heads`` where that is not known), ``attention``, ``img_size``,
        ``clip_len`` and ``patch_size``.
    """
    patch = result.state["backbone.embed.proj.weight"].shape[-1]
    rows, columns = result.state["backbone.encoder.pos_embed.hw"].shape[2:4]
    times = result.state.get("backbone.encoder.pos_embed.t")
    return dict(
        arch=_arch(result),
        attention=result.scheme,
        img_size=(rows * patch, columns * patch),
        clip_len=1 if times is None else times.shape[1],
        patch_size=patch,
    )


def vivit_settings(result: Conversion) -> dict:
    """Read the arguments of ``ViViT`` off converted weights.

    A model that encodes single frames and averages them does not tell its clip length; one
    tubelet is given.

    Args:
        result: Result of a converter.

    Returns:
        ``arch`` (without ``num_heads`` where that is not known), ``scheme``, ``img_size``,
        ``clip_len``, ``tubelet``, ``temporal_depth`` and ``pool``; for an image model without
        ``scheme``.

    Raises:
        ValueError: If the weights are those of another model.
    """
    state = result.state
    for name in ("backbone.embed.proj.weight", "backbone.encoder.pos_embed.thw"):
        if name not in state:
            raise ValueError(f"these are no weights of a ViViT: {name} is missing")
    _, _, *tubelet = state["backbone.embed.proj.weight"].shape
    table = state["backbone.encoder.pos_embed.thw"]
    frames, rows, columns = table.shape[1:4]
    times = state.get("backbone.temporal_encoder.pos_embed.thw")
    frames = frames if times is None else times.shape[1]
    scheme = {} if result.scheme is None else {"scheme": result.scheme}
    return dict(
        arch=_arch(result),
        **scheme,
        img_size=(rows * tubelet[1], columns * tubelet[2]),
        clip_len=frames * tubelet[0],
        tubelet=tuple(tubelet),
        temporal_depth=count_blocks(state, "backbone.temporal_encoder"),
        pool="cls" if "backbone.encoder.cls_token" in state else "mean",
    )
