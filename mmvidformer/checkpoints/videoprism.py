"""VideoPrism (Zhao et al. 2024): Google's flax files, and HuggingFace's models in both directions.

It is ViViT's factorized encoder without pooling in between: attention within frames, a norm, and
attention over time at each place. Both store the weights of norms less one.
"""

import re
from collections.abc import Mapping
from math import isqrt

from torch import Tensor

from mmvidformer.checkpoints.backbones import HEADS, read_act
from mmvidformer.checkpoints.keymap import (
    Conversion,
    Rule,
    State,
    apply_rules,
    count_blocks,
    has,
    key_map,
)
from mmvidformer.checkpoints.operations import ADD_ONE, TIME_TABLE, Grid, positions

ENCODERS = {"space": "backbone.encoders.0", "time": "backbone.encoders.1"}
FLAX_BLOCKS = re.compile(r"(.*/x_layers)/(.*)")


def is_videoprism(state: Mapping[str, Tensor]) -> bool:
    """Whether the names are those of Google's flax files or of HuggingFace's vision model."""
    flax = has(state, r"spatial_encoder/transformers_stack/x_layers")
    return flax or has(state, r"temporal_embeddings\.position_embeddings$", r"spatial_layers\.0\.")


def from_videoprism(
    state: Mapping[str, Tensor], grid: Grid | None = None, meta: Mapping = {}
) -> Conversion:
    """Convert ``VideoPrismVisionModel``, ``VideoPrismForVideoClassification`` or a flax file.

    Text encoders, and what lies between video and text, are not read.

    Raises:
        UserError: If names do not fit, frames are not square and their grid is unknown, or
            settings are those of another function.
    """
    flax = has(state, "spatial_encoder/")
    if flax:
        state = _read_flax(state)
    read_act(meta, "gelu", "gelu")
    side, tubelet = meta.get("image_size"), meta.get("tubelet_size")
    if grid is None and side and tubelet:
        height, width = (side, side) if isinstance(side, int) else side
        grid = 1, height // tubelet[1], width // tubelet[2]
    dialect = "flax" if flax else "huggingface"
    result = apply_rules(state, videoprism_rules(state, dialect, grid))
    result.model, result.scheme = "VideoTransformer", "videoprism"
    width = len(result.state["backbone.embed.proj.bias"])
    result.num_heads = meta.get("num_attention_heads", HEADS.get(width))
    result.settings = _settings(result, meta)
    if "cls_head.pooling.query" in result.state:
        result.head = dict(pooling="videoprism", depth=0, norm="layer")
        result.head |= {"num_heads": result.num_heads} if result.num_heads else {}
    result.info = dict(mean=[0.0] * 3, std=[255.0] * 3)
    return result


def videoprism_rules(
    state: Mapping[str, Tensor], dialect: str, grid: Grid | None = None
) -> list[Rule]:
    """Return the rows for the parts that a state has; its names may be theirs or ours."""
    ops = {
        f"{ENCODERS['space']}.pos_embed.hw": positions(grid, cls=False, slot=False),
        f"{ENCODERS['time']}.pos_embed.t": TIME_TABLE,
        "cls_head.pooling.norm.weight": ADD_ONE,
    }
    rules: list[Rule] = []
    for axis, encoder in ENCODERS.items():
        block = f"{encoder}.blocks.{{i}}"
        norms = (f"{encoder}.norm", f"{block}.norm", f"{block}.sublayers.{axis}.norm")
        ops |= {f"{norm}.weight": ADD_ONE for norm in norms}
    theirs = any(re.match(r"(vision_model\.)?spatial_layers\.", name) for name in state)
    classifies = has(state, r"^vision_model\.") if theirs else has(state, r"^cls_head\.")
    parts = dict(prefix="vision_model." if classifies else "")
    rules += key_map("videoprism", "model", dialect=dialect, ops=ops, **parts)
    if classifies:
        rules += key_map("videoprism", "head", dialect=dialect, ops=ops)
    return rules


def _settings(result: Conversion, meta: Mapping) -> dict:
    """Return the arguments of the backbone, but for the shapes that ``backbones`` measures."""
    eps, cap = meta.get("layer_norm_eps", 1e-6), meta.get("attn_logit_softcapping", 50.0)
    encoders = []
    for axis, encoder in ENCODERS.items():  # positions have the names of the patterns
        sublayer = dict(pattern=axis, kernel=dict(type="capped", cap=cap))
        positions = dict(type=axis, rule="bilinear")
        depth = count_blocks(result.state, f"{encoder}.blocks.")
        encoders.append(dict(depth=depth, block=[sublayer], positions=positions))
    tubelet = result.state["backbone.embed.proj.weight"].shape[2:]
    _, _, rows, columns, _ = result.state[f"{ENCODERS['space']}.pos_embed.hw"].shape
    return dict(
        clip_len=tubelet[0] * result.state[f"{ENCODERS['time']}.pos_embed.t"].shape[1],
        img_size=(rows * tubelet[1], columns * tubelet[2]),
        encoders=encoders,
        norm=dict(type="layer", eps=eps),
        pool="none",
    )


def _read_flax(state: Mapping[str, Tensor]) -> State:
    """Return the weights of a flax file with PyTorch's axes, one name for each block.

    Published files have the blocks of an encoder in one tensor, along its first axis.
    """
    blocks: dict[str, Tensor] = {}
    for name, value in state.items():
        name = name.removeprefix("params/")
        stacked = FLAX_BLOCKS.fullmatch(name)
        if stacked:
            start, end = stacked.groups()
            blocks |= {f"{start}_{i}/{end}": x for i, x in enumerate(value)}
        else:
            blocks[name] = value
    return {name: _with_axes(name, value) for name, value in blocks.items()}


def _with_axes(name: str, x: Tensor) -> Tensor:
    if name == "patch_projection/linear/kernel":  # (h w C, D)
        side = isqrt(x.shape[0] // 3)
        return x.unflatten(0, (side, side, 3)).permute(3, 2, 0, 1)[:, :, None]
    if name.endswith("/kernel"):
        return x.T
    if name.endswith("/emb_var"):
        return x[None]
    if name.endswith("/post/w"):
        return x.flatten(1)  # (D, n d)
    if name.endswith("/w"):
        return x.flatten(1).T  # (n d, D)
    return x.flatten()
