"""Scenic's ViViT checkpoints (Flax), models 1 to 4, to this package's names."""

from collections.abc import Mapping, Sequence
from functools import partial

from torch import Tensor

from mmvidformer.convert.flax_layers import LINEN, TRAIN_STATE, read_flax
from mmvidformer.convert.keymap import Conversion, apply_rules, has, key_map
from mmvidformer.convert.positions import Grid, clip_grid, frame_grid, positions

# Encoder in the source, its class token, encoder in this package.
ENCODERS = (
    ("Transformer", "cls", "backbone.encoders.0"),
    ("SpatialTransformer", "cls_SpatialTransformer", "backbone.encoders.0"),
    ("TemporalTransformer", "cls_TemporalTransformer", "backbone.encoders.1"),
)

# Schemes with the same names. The first one is assumed: the official default of model 3, otherwise
# the published one.
SCHEMES = {
    "per_frame": ("factorized_encoder",),
    "divided": ("factorized_self_attention_ts", "factorized_self_attention"),
    "cls": ("spacetime",),
    "no_cls": ("spacetime", "factorized_dot_product"),
}


def from_scenic(
    state: Mapping[str, Tensor], grid: Grid | None = None, scheme: str | None = None
) -> Conversion:
    """Convert a ViViT of scenic.

    The ``scheme`` is a key of ``models.vivit.SCHEMES``. It is needed for model 4, which has the
    names of model 1 without class token, and for model 3 in the paper's order, space before time.
    """
    state, num_heads = read_flax(state)
    possible = SCHEMES[_kind(state)]
    if scheme is not None and scheme not in possible:
        wanted = " or ".join(map(repr, possible))
        raise ValueError(f"scheme {scheme!r} does not fit; the checkpoint needs {wanted}")
    assumed = scheme is None and len(possible) > 1
    scheme = scheme or possible[0]
    rules = key_map("flax", "stem", "head")
    blocks = "divided" if scheme.startswith("factorized_self_attention") else "joint"
    tubelet = state["embedding/kernel"].shape[2:] if "embedding/kernel" in state else ()
    for encoder, cls, ours in ENCODERS:
        if not has(state, f"^{encoder}/"):
            continue
        tokens = ("cls_token", "positions_with_cls") if cls in state else ("positions",)
        tables = positions(partial(_grid, encoder, tubelet, grid), cls in state, slot=cls in state)
        rules += key_map(
            *("flax", "norm", blocks, *tokens),
            ops={f"{ours}.pos_embed.thw": tables},
            ours=ours,
            encoder=encoder,
            positions=f"{encoder}/posembed_input/pos_embedding",
            cls=cls,
            sublayer="time_space" if scheme == "factorized_dot_product" else "joint",
            **LINEN,
        )
    result = apply_rules(state, rules, TRAIN_STATE)
    if assumed:
        result.notes.append(f"scheme {possible[0]!r} assumed; {possible[1]!r} has the same names")
    result.model, result.scheme, result.num_heads = "ViViT", scheme, num_heads
    return result


def _kind(state: Mapping[str, Tensor]) -> str:
    if has(state, "^SpatialTransformer/"):
        return "per_frame"
    if has(state, "MultiHeadDotProductAttention_time"):
        return "divided"
    return "cls" if "cls" in state else "no_cls"


def _grid(encoder: str, tubelet: Sequence[int], given: Grid | None, count: int) -> Grid:
    if encoder == "SpatialTransformer":
        return frame_grid(count, given)
    if encoder == "TemporalTransformer":
        if given and given[0] != count:
            raise ValueError(f"the temporal position table has {count} frames, not {given[0]}")
        return count, 1, 1
    return clip_grid(count, tubelet, given)
