"""Flax checkpoints (ViViT of scenic, image ViT of Google) to this package's names."""

import re
from collections.abc import Mapping

from torch import Tensor

from mmvidformer.checkpoints.backbones import ENCODER
from mmvidformer.checkpoints.keymap import Conversion, State, apply_rules, has, key_map
from mmvidformer.checkpoints.operations import Grid, positions
from mmvidformer.errors import UserError

PREFIXES = "^(optimizer/target/|opt/target/)?(params/)?"
# Other parts of a train state.
TRAIN_STATE = (
    r"(opt|optimizer|opt_state|model_state)(/.*)?",
    r"global_step|rng|accum_train_time|step",
)
# Classifiers, the hidden layer before them, and optimizer states.
HEADS = (r"(head|pre_logits|output_projection|MAPHead_0)/.*", *TRAIN_STATE)
# Encoder in the source, its class token, encoder in this package.
ENCODERS = (
    ("Transformer", "cls", "backbone.encoders.0"),
    ("SpatialTransformer", "cls_SpatialTransformer", "backbone.encoders.0"),
    ("TemporalTransformer", "cls_TemporalTransformer", "backbone.encoders.1"),
)

# Schemes with the same names, by an expression of a name. The first one is assumed: the official
# default of model 3, otherwise the published one.
SCHEMES_BY_KEY: dict[str, tuple[str, ...]] = {
    "^SpatialTransformer/": ("factorized_encoder",),
    "Attention_time/": ("factorized_self_attention_ts", "factorized_self_attention"),
    "^cls$": ("spacetime",),
    "": ("spacetime", "factorized_dot_product"),
}


def from_scenic(
    state: Mapping[str, Tensor], grid: Grid | None = None, scheme: str | None = None
) -> Conversion:
    """Convert a ViViT of scenic.

    The ``scheme`` is a key of ``models.vivit.SCHEMES``. It is needed for model 4, which has the
    names of model 1 without class token, and for model 3 in the paper's order, space before time.
    """
    state, num_heads = read_flax(state)
    possible = next(schemes for pattern, schemes in SCHEMES_BY_KEY.items() if has(state, pattern))
    if scheme is not None and scheme not in possible:
        wanted = " or ".join(map(repr, possible))
        raise UserError(f"scheme {scheme!r} does not fit; the checkpoint needs {wanted}")
    assumed = scheme is None and len(possible) > 1
    scheme = scheme or possible[0]
    rules = key_map("flax", "stem", "head", dialect="linen")
    blocks = "divided" if scheme.startswith("factorized_self_attention") else "joint"
    tubelet = state["embedding/kernel"].shape[2:] if "embedding/kernel" in state else ()
    for encoder, cls, ours in ENCODERS:
        if not has(state, f"^{encoder}/"):
            continue
        table, table_grid, with_cls = f"{encoder}/posembed_input/pos_embedding", grid, cls in state
        if encoder == "TemporalTransformer" and table in state:
            frames = state[table].shape[1] - with_cls
            table_grid = frames, 1, 1
            if grid and grid[0] != frames:
                raise UserError(f"the temporal position table has {frames} frames, not {grid[0]}")
        table_tubelet = tubelet if encoder != "SpatialTransformer" else ()
        op = positions(table_grid, table_tubelet, with_cls, with_cls)
        rules += key_map(
            *("flax", "norm", blocks),
            *(("cls_token", "positions_with_cls") if with_cls else ("positions",)),
            dialect="linen",
            ops={f"{ours}.pos_embed.thw": op},
            ours=ours,
            encoder=encoder,
            positions=table,
            cls=cls,
            sublayer="time_space" if scheme == "factorized_dot_product" else "joint",
        )
    result = apply_rules(state, rules, TRAIN_STATE)
    if assumed:
        result.notes.append(f"scheme {possible[0]!r} assumed; {possible[1]!r} has the same names")
    result.model, result.scheme, result.num_heads = "ViViT", scheme, num_heads
    return result


def from_google_npz(state: Mapping[str, Tensor], grid: Grid | None = None) -> Conversion:
    """Convert an image ViT without its classifier."""
    state, num_heads = read_flax(state)
    original = has(state, "MultiHeadDotProductAttention_1/")
    table, cls = "pos_embedding", "cls" in state
    slot = cls and original  # big_vision has no position for the class token
    rules = key_map(
        "flax",
        *("stem", "joint", "norm", "cls_token", "positions_with_cls" if cls else "positions"),
        dialect="nn" if original else "linen",
        ops={f"{ENCODER}.pos_embed.thw": positions(grid, (), cls, slot)},
        ours=ENCODER,
        encoder="Transformer",
        positions=table if table in state else f"Transformer/posembed_input/{table}",
        cls="cls",
        sublayer="joint",
    )
    result = apply_rules(state, rules, HEADS)
    result.num_heads = num_heads
    result.settings = dict(norm=dict(type="layer", eps=1e-6), mlp=dict(type="mlp", act="gelu_tanh"))
    return result


def read_flax(state: Mapping[str, Tensor]) -> tuple[State, int | None]:
    """Return weights with PyTorch's axes, under names without prefixes, and the number of heads.

    The latter is None if there is no attention.
    """
    queries = (x for name, x in state.items() if name.endswith("/query/kernel") and x.dim() == 3)
    heads = next((query.shape[1] for query in queries), None)
    return {re.sub(PREFIXES, "", name): _with_axes(name, x) for name, x in state.items()}, heads


def _with_axes(name: str, x: Tensor) -> Tensor:
    if name.endswith("/bias"):
        return x.flatten()  # (n, d) of the heads
    if not name.endswith("/kernel"):
        return x
    if x.dim() in (4, 5):  # (h, w, C, D) of an image model, or (t, h, w, C, D)
        return (x if x.dim() == 5 else x[None]).permute(4, 3, 0, 1, 2)
    if x.dim() == 3:  # (n, d, D) of the output of attention, otherwise (D, n, d)
        x = x.flatten(0, 1) if name.endswith("/out/kernel") else x.flatten(1)
    return x.T if x.dim() == 2 else x
