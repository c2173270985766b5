"""VideoMAE and V-JEPA 2 (official, MMAction2, HuggingFace) to this package's names, and back."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from mmvidformer.convert.huggingface import HUB
from mmvidformer.convert.keymap import (
    BLOCK,
    STACK_PAIR,
    Conversion,
    Rule,
    State,
    apply_rules,
    linear,
    part_rules,
    strip_prefixes,
)
from mmvidformer.convert.own import ENCODER, count_blocks
from mmvidformer.layers.embed import flat_sine_positions
from mmvidformer.lookup import look_up

# Wrappers of the official code; the keys of a teacher and a student are in ``convert.io``.
WRAPPERS = ("module.", "_orig_mod.", "model.", "backbone.", "encoder.")
IGNORED = (r"(.*\.)?(predictor|decoder|encoder_to_decoder)\..*", r"(.*\.)?(mask_tokens?|pos_embed)")

# Names of the parts; a dialect's prefix is in front of those of the backbone. ``bias`` is that of
# queries and values, where it is on its own.
Dialect = dict[str, Any]
OFFICIAL: Dialect = dict(
    prefix="",
    embed="patch_embed.proj",
    block="blocks.{i}",
    parts={part: part for part in BLOCK},
    bias=("attn.q_bias", "attn.v_bias"),
    norm="norm",
    fc_norm="fc_norm",
    head="head",
)
MMACTION: Dialect = OFFICIAL | dict(
    prefix="backbone.",
    embed="patch_embed.projection",
    parts={**OFFICIAL["parts"], "mlp.fc1": "mlp.layers.0.0", "mlp.fc2": "mlp.layers.1"},
    head="cls_head.fc_cls",
)
HUGGINGFACE: Dialect = dict(
    prefix="videomae.",
    embed="embeddings.patch_embeddings.projection",
    block="encoder.layer.{i}",
    parts=HUB,
    bias=("attention.attention.q_bias", "attention.attention.v_bias"),
    norm="layernorm",
    fc_norm="/fc_norm",  # without the prefix
    head="classifier",
)
QV_MODULES = ("attention.attention.query.bias", "attention.attention.value.bias")
MLP = {"mlp.fc1": "mlp.fc1", "mlp.fc2": "mlp.fc2"}
VJEPA2: Dialect = OFFICIAL | dict(
    bias=None,
    head="linear",
    query="pooler.query_tokens",
    pooler="pooler.cross_attention_block",
    cross={"norm": "norm1", "q": "xattn.q", "mlp_norm": "norm2", "kv": "xattn.kv", **MLP},
    layers="pooler.blocks.{i}",
    layer=OFFICIAL["parts"],
)
VJEPA2_HUGGINGFACE: Dialect = VJEPA2 | dict(
    prefix="vjepa2.",
    embed="encoder.embeddings.patch_embeddings.proj",
    block="encoder.layer.{i}",
    parts={
        **OFFICIAL["parts"],
        "attn.qkv": tuple(f"attention.{part}" for part in ("query", "key", "value")),
        "attn.proj": "attention.proj",
    },
    norm="encoder.layernorm",
    head="classifier",
    pooler="pooler.cross_attention_layer",
    cross={
        **{"norm": "layer_norm1", "q": "cross_attn.q_proj", "mlp_norm": "layer_norm2", **MLP},
        "kv": ("cross_attn.k_proj", "cross_attn.v_proj"),
    },
    layers="pooler.self_attention_layers.{i}",
    layer={
        **{"norm1": "layer_norm1", "attn.proj": "self_attn.out_proj", "norm2": "layer_norm2"},
        **{"attn.qkv": tuple(f"self_attn.{part}_proj" for part in "qkv"), **MLP},
    },
)
DIALECTS: dict[str, dict[str, Dialect]] = {
    "videomae": {
        "official": OFFICIAL,
        "mmaction": MMACTION,
        "huggingface": HUGGINGFACE,
        "modules": HUGGINGFACE | dict(bias=QV_MODULES),  # of transformers 5
    },
    "vjepa2": {"official": VJEPA2, "huggingface": VJEPA2_HUGGINGFACE},
}
QKV = BLOCK["attn.qkv"]
POOLER = "cls_head.pooling"
# Heads of the published models of a width, where it determines them.
HEADS = {384: 6, 768: 12, 1024: 16, 1280: 16}
LAST = {"videomae": 16, "vjepa2": 22}  # of width 1408


def _rules(
    names: Mapping[str, Any], prefix: str, encoder: bool, pooled: bool, depth: int
) -> list[Rule]:
    """Return the rows of a dialect.

    Args:
        names: Its names.
        prefix: Prefix of the backbone.
        encoder: Whether there is a backbone.
        pooled: Whether its norm is that of the mean.
        depth: Number of blocks of the attentive pooler, -1 without a pooler.
    """
    rules = linear(names["head"], "cls_head.fc_cls", optional=True)
    if encoder:
        block, target = f"{prefix}{names['block']}", f"{ENCODER}.blocks.{{i}}"
        rules += linear(f"{prefix}{names['embed']}", "backbone.embed.proj")
        last = names["fc_norm" if pooled else "norm"]
        last = last[1:] if last.startswith("/") else prefix + last
        rules += linear(last, "backbone.fc_norm" if pooled else f"{ENCODER}.norm")
        rules += part_rules(block, target, names["parts"])
        if names["bias"]:
            bias, given = f"{target}.{QKV}.bias", (f"{block}.{name}" for name in names["bias"])
            rules = [rule for rule in rules if rule.targets != (bias,)]
            rules.append(Rule(tuple(given), (bias,), STACK_PAIR))
    if depth >= 0:
        rules.append(Rule((names["query"],), (f"{POOLER}.query",)))
        rules += part_rules(names["pooler"], POOLER, names["cross"])
    if depth > 0:
        rules += part_rules(names["layers"], f"{POOLER}.blocks.{{i}}", names["layer"])
    return rules


def is_videomae(state: Mapping[str, Tensor]) -> bool:
    """Whether the names are those of VideoMAE, whose queries have a bias, and keys none."""
    video = any("patch_embed" in name and value.dim() == 5 for name, value in state.items())
    own = any(name.endswith((".q_bias", ".attention.query.bias")) for name in state)
    return video and own and not any(name.endswith("attention.key.bias") for name in state)


def is_vjepa2(state: Mapping[str, Tensor]) -> bool:
    """Whether the names are those of V-JEPA 2's encoder, its classifier, or both."""
    ends = (".patch_embeddings.proj.weight", "patch_embed.proj.weight")
    video = any(name.endswith(ends) and value.dim() == 5 for name, value in state.items())
    plain = any(name.endswith(("blocks.0.attn.qkv.bias", "layer.0.attention.query.bias"))
                for name in state)  # fmt: skip
    alone = any(name.endswith("pooler.cross_attention_block.xattn.kv.weight") for name in state)
    return (video and plain and not any("cls_token" in name for name in state)) or alone


def from_videomae(state: Mapping[str, Tensor], meta: Mapping | None = None) -> Conversion:
    """Convert VideoMAE or VideoMAE v2, fine-tuned or pretrained; decoders are ignored.

    Raises:
        ValueError: If names or settings do not fit, or positions are not the fixed ones.
    """
    meta = meta or {}
    hugging = any(name.endswith(HUGGINGFACE["embed"] + ".weight") for name in state)
    mmaction = any(name.endswith("patch_embed.projection.weight") for name in state)
    dialect = "mmaction" if mmaction else "official"
    if hugging:
        new = any(name.endswith("attention.query.bias") for name in state)
        dialect = "modules" if new else "huggingface"
    for name, table in state.items():
        if name.endswith("pos_embed") and not name.startswith("decoder"):
            fixed = flat_sine_positions((1, 1, table.shape[1]), table.float())[:, 0, 0]
            if not torch.allclose(fixed, table.float(), atol=1e-2):
                raise ValueError(f"{name} must be VideoMAE's fixed table; learned ones do not fit")
    result = _convert(state, "videomae", dialect, meta)
    biases = [x for name, x in result.state.items() if name.endswith(f"{QKV}.bias")]
    if biases and not any(bias.any() for bias in biases):
        result.notes.append(
            "all biases of queries and values are 0: transformers 5 before September 2026 loses "
            "them; use the original weights"
        )
    if hugging:
        result.settings["fc_norm"] = dict(type="layer", eps=1e-5)  # whatever the config says
    if "backbone.fc_norm.weight" not in result.state:
        result.settings["fc_norm"] = None
    return result


def from_vjepa2(state: Mapping[str, Tensor], meta: Mapping | None = None) -> Conversion:
    """Convert V-JEPA 2's encoder, its attentive classifier, or both; the predictor is ignored."""
    hugging = any(".patch_embeddings.proj." in name for name in state)
    result = _convert(state, "vjepa2", "huggingface" if hugging else "official", meta or {})
    if f"{POOLER}.query" in result.state:
        heads = result.num_heads if hugging else 16  # of the classifiers of all sizes
        norm = result.settings.get("norm", "layer") if hugging else dict(type="layer", eps=1e-5)
        depth = count_blocks(result.state, POOLER)
        result.head = dict(num_heads=heads, depth=depth, norm=norm)
    return result


def _convert(state: Mapping[str, Tensor], family: str, dialect: str, meta: Mapping) -> Conversion:
    names = DIALECTS[family][dialect]
    prefix = names["prefix"]
    if dialect == "official":
        state = strip_prefixes(state, WRAPPERS)
    elif not any(name.startswith(prefix) for name in state):
        prefix = ""
    pooled = any(name.endswith("fc_norm.weight") for name in state)
    encoder = any(name.endswith(f"{names['embed']}.weight") for name in state)
    depth = -1
    if family == "vjepa2" and names["query"] in state:
        stem = names["layers"].removesuffix("{i}")
        depth = len({n.removeprefix(stem).split(".")[0] for n in state if n.startswith(stem)})
    result = apply_rules(state, _rules(names, prefix, encoder, pooled, depth), IGNORED)
    result.model, result.scheme = "VideoTransformer", family
    _read_config(result, family, meta)
    return result


def _read_config(result: Conversion, family: str, meta: Mapping) -> None:
    """Take what ``config.json`` tells, and the number of heads."""
    if meta.get("hidden_act", "gelu") != "gelu":
        raise ValueError(f"hidden_act must be gelu, got {meta['hidden_act']!r}")
    width = len(result.state.get("backbone.embed.proj.bias", ()))
    heads = HEADS.get(width, LAST[family] if width == 1408 else None)
    result.num_heads = meta.get("num_attention_heads", heads)
    if (family, width, result.num_heads) == ("videomae", 384, 16):
        result.num_heads = 6
        result.notes.append("num_heads is 6, of the published model; config.json says 16")
    if "layer_norm_eps" in meta and meta["layer_norm_eps"] != 1e-6:
        result.settings["norm"] = dict(type="layer", eps=meta["layer_norm_eps"])
    side = meta.get("image_size", meta.get("crop_size"))
    frames = meta.get("num_frames", meta.get("frames_per_clip"))
    if isinstance(side, int | list | tuple):
        result.settings["img_size"] = (side, side) if isinstance(side, int) else tuple(side)
    if frames:
        result.settings["clip_len"] = frames


def to_video_vit(state: Mapping[str, Tensor], family: str, dialect: str = "huggingface") -> State:
    """Convert back.

    Args:
        state: Weights as ``from_videomae`` and ``from_vjepa2`` return them.
        family: ``'videomae'`` or ``'vjepa2'``.
        dialect: ``'official'`` or ``'huggingface'``, for VideoMAE also ``'mmaction'``, and
            ``'modules'``, the names in transformers 5.
    """
    names = look_up(DIALECTS[family], dialect, "dialect")
    depth = count_blocks(state, POOLER) if f"{POOLER}.query" in state else -1
    pooled, encoder = "backbone.fc_norm.weight" in state, "backbone.embed.proj.weight" in state
    rules = _rules(names, names["prefix"], encoder, pooled, depth)
    return apply_rules(state, [rule.reversed() for rule in rules]).state
