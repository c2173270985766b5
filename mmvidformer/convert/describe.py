"""What a converted model looks like: the arguments that build its backbone or neck."""

import math
from collections.abc import Mapping

from torch import Tensor

from mmvidformer.convert.feature_fixation import own_fixation
from mmvidformer.convert.keymap import Conversion


def count_blocks(state: Mapping[str, Tensor], encoder: str) -> int:
    """Count the blocks of an encoder, given as its full name."""
    stem = f"{encoder}.blocks."
    return len({name.removeprefix(stem).split(".")[0] for name in state if name.startswith(stem)})


def settings_of(result: Conversion) -> tuple[str, dict]:
    """Read what the weights are of, whichever model it is.

    Returns:
        The described part of a recogniser (``'neck'`` where there is one, else ``'backbone'``, or
        ``'cls_head'`` where there is nothing else), and the arguments that build it as far as
        weights tell.

    Raises:
        ValueError: If the weights are of no model of ours.
    """
    for part, describe, sign in (
        ("neck", horst_settings, "neck.layers.0.encode.conv.weight"),
        ("cls_head", classifier_settings, "cls_head.classifier.action.weight"),
        ("backbone", lambda _: {}, "backbone.blocks.5b.branches.1x1.conv.weight"),
        ("backbone", feature_fixation_settings, "backbone.embed.norm.weight"),
        ("backbone", timesformer_settings, "backbone.encoder.pos_embed.hw"),
    ):
        if sign in result.state:
            return part, describe(result)
    return "backbone", vivit_settings(result)


def _arch(result: Conversion) -> dict:
    dim = result.state["backbone.embed.proj.weight"].shape[0]
    hidden = result.state["backbone.encoder.blocks.0.mlp.fc1.weight"].shape[0]
    ratio = hidden / dim
    if int(dim * ratio) != hidden:  # the quotient was rounded down
        ratio = math.nextafter(ratio, math.inf)
    heads = {} if result.num_heads is None else {"num_heads": result.num_heads}
    depth = count_blocks(result.state, "backbone.encoder")
    return dict(embed_dims=dim, depth=depth, mlp_ratio=ratio, **heads)


def horst_settings(result: Conversion) -> dict:
    """Read the arguments of ``Horst`` off its weights; not told are strides and order.

    ``'temporal'`` and ``'space_time'`` attention have the same weights, and are taken for the
    latter; so have ``'e+h'`` and ``'q+h'``, which are taken for the variant's own.

    Returns:
        ``in_channels``, ``channels``, ``variant``, ``attention`` and ``key_value``.
    """
    stem = "neck.layers.{}.{}"
    count = len({name.split(".")[2] for name in result.state if name.startswith("neck.layers.")})
    encoders = [result.state[stem.format(i, "encode.conv.weight")] for i in range(count)]
    parts = {
        layer: result.state[stem.format(0, f"{layer}.conv.weight")].shape[1] // len(encoders[0])
        for layer in ("key", "value")
    }
    official = stem.format(0, "readout.excite.fc1.weight") in result.state
    attention = "space_time"
    if stem.format(0, "attend.filter.conv.weight") not in result.state:
        attention = "joint"
    elif stem.format(0, "attend.states.filter.conv.weight") not in result.state:
        attention = "spatial"
    both = "e+h" if official else "q+h"
    return dict(
        in_channels=encoders[0].shape[1],
        channels=[len(kernel) for kernel in encoders],
        variant="official" if official else "paper",
        attention=attention,
        key_value=both if parts["key"] == 2 else "e|h",
    )


def classifier_settings(result: Conversion) -> dict:
    """Read the arguments of ``AnticipationHead`` off the weights of its classifier.

    Returns:
        ``tasks``, in the order of RULSTM's labels, ``in_channels``, ``classifier`` and ``form``.
    """
    stem = "cls_head.classifier"
    unrolling = f"{stem}.unroll.weight_ih_l0" in result.state
    official = f"{stem}.start.fc.weight" in result.state
    if not unrolling:
        verbs = len(result.state[f"{stem}.verb.weight"])
        official = len(result.state[f"{stem}.action_to_verb.weight"]) == verbs
    return dict(
        tasks={
            task: len(result.state[f"{stem}.{task}.weight"]) for task in ("verb", "noun", "action")
        },
        in_channels=result.state[f"{stem}.noun.weight"].shape[1],
        classifier="unrolling" if unrolling else "linear",
        form="official" if official else "paper",
    )


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
