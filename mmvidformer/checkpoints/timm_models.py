"""Image models of timm: the arguments of ``VideoTransformer`` that make them, and their weights."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import reduce
from math import isqrt
from typing import Any

import torch
from torch import Tensor, nn

from mmvidformer.checkpoints.backbones import ENCODER, mlp_ratio
from mmvidformer.checkpoints.keymap import Conversion, State, apply_rules, key_map
from mmvidformer.checkpoints.operations import ADD_TIME, Grid, positions
from mmvidformer.errors import UserError
from mmvidformer.layers import EncoderConfig
from mmvidformer.storage.errors import StorageError

PREFIX = "timm:"
# Parts, and names of the classes of timm that have an equal here.
PARTS = {
    "patch_embed": ("PatchEmbed",),
    "patch_embed.norm": ("Identity",),
    "rope": ("NoneType", "RotaryEmbeddingCat", "RotaryEmbeddingDinoV3"),
    "blocks.0": ("Block", "EvaBlock"),
    "blocks.0.norm1": ("LayerNorm", "RmsNorm"),
    "blocks.0.attn": ("Attention", "AttentionRope", "EvaAttention"),
    "blocks.0.attn.norm": ("Identity",),
    "blocks.0.attn.gate": ("NoneType",),
    "blocks.0.mlp": ("Mlp", "GluMlp", "SwiGLU"),
    "blocks.0.mlp.act": ("GELU", "GELUTanh", "QuickGELU", "SiLU"),
}
# Classifiers, the attention pool of SigLIP, which is a head, and what DINO is trained with: a
# mask token, a norm of local crops, EUPE's projectors, and buffers.
UNUSED_WEIGHTS = (
    r"(head|head_dist|pre_logits\.fc)\.(weight|bias)|attn_pool\..*",
    r"mask_token|local_cls_norm\..*|projectors\..*|rope_embed\.periods|.*\.bias_mask",
)
SCALES = {"blocks.0.ls1.gamma", "blocks.0.gamma_1"}  # of a VisionTransformer, of an Eva
ACTS = {"GELU": "gelu", "GELUTanh": "gelu_tanh", "QuickGELU": "quick_gelu"}


def create(name: str, pretrained: bool = True) -> Any:
    """Create an image model of timm without its classifier.

    Raises:
        OSError: If its files cannot be fetched.
        UserError: If timm has no such model, or ``VideoTransformer`` cannot compute its features;
            the message names the part.
    """
    import timm  # slow to import

    try:
        model = timm.create_model(name, pretrained=pretrained, num_classes=0)
    except RuntimeError as error:  # an unknown name or tag
        raise UserError(f"{PREFIX}{name}: {error}") from error
    except OSError as error:
        reason = str(error).partition("\n")[0]
        raise StorageError(f"{PREFIX}{name} cannot be fetched: {reason}") from error
    if obstacle := next(_obstacles(model), None):
        raise UserError(f"{PREFIX}{name} cannot be a start: {obstacle}")
    return model


def arguments_of(source: str) -> dict[str, Any]:
    """Return the arguments of ``VideoTransformer`` that make an image model of timm.

    With ``clip_len=1`` they give its features. All models of this package take ``arch=source``
    instead, which sets those that go with their schemes.

    Args:
        source: ``'timm:NAME'``. No weights are fetched.

    Raises:
        UserError: As ``create``.
    """
    with torch.device("meta"):
        model = create(source.removeprefix(PREFIX), pretrained=False)
    defaults = {field.name: field.default for field in fields(EncoderConfig)}
    arguments = {k: v for k, v in describe(model).items() if v != defaults.get(k)}
    rule = "bicubic"  # timm's, for tables that are loaded and for clips of another size
    if arguments.get("positions", "joint") == "joint":
        arguments["positions"] = dict(type="joint", rule=rule)
    return {**arguments, "init_from": dict(source=source, positions=rule)}


def describe(model: Any) -> dict[str, Any]:
    """Return all arguments of ``VideoTransformer`` that make a model of ``create``."""
    block, names = model.blocks[0], dict(model.named_parameters())
    pool = None if model.global_pool == "token" else "mean"
    norm: dict | str | None = _norm(model.fc_norm) if pool else None
    if norm is None and _norm(model.norm) is None:
        norm = "none"
    separate = {"blocks.0.attn.q_bias", "blocks.0.attn.q_proj.bias"} & names.keys()
    return dict(
        arch=dict(
            embed_dims=model.embed_dim,
            depth=len(model.blocks),
            num_heads=block.attn.num_heads,
            mlp_ratio=mlp_ratio(model.embed_dim, block.mlp.fc2.in_features),
        ),
        stem=dict(tubelet=(1, *model.patch_embed.patch_size)),
        positions="joint" if "pos_embed" in names else "time",
        rope=_rope(getattr(model, "rope", None)),
        # Without a class token, the first register takes its role in attention.
        cls="mean" if model.num_prefix_tokens else None,
        registers=max(model.num_prefix_tokens - 1, 0),
        mlp=_mlp(block.mlp),
        norm=_norm(block.norm1),
        norm_pre=_norm(model.norm_pre) is not None,
        qkv_bias=True if "blocks.0.attn.qkv.bias" in names else "qv" if separate else False,
        qk_norm=_norm(block.attn.q_norm),
        # Copies have the factors of the source; what is new starts at 1.
        layer_scale=None if SCALES.isdisjoint(names) else 1.0,
        pool=pool,
        fc_norm=norm,
    )


def _obstacles(model: Any) -> Iterator[str]:
    if type(model).__name__ not in ("VisionTransformer", "Eva"):
        yield f"it is a {type(model).__name__}, not a VisionTransformer or Eva"
    for path, known in PARTS.items():
        part = reduce(lambda part, name: getattr(part, name, None), path.split("."), model)
        if part is not None and type(part).__name__ not in known:
            yield f"{path} is a {type(part).__name__}, not {' or '.join(known)}"
    rope, mlp = getattr(model, "rope", None), model.get_submodule("blocks.0.mlp")
    shift = (0, "ij") if rope is None else (rope.grid_offset, rope.grid_indexing)
    if shift != (0, "ij") and not getattr(rope, "ref_feat_shape", None):
        yield "its rotary positions have an offset, or the width first, and are not stretched"
    if getattr(model.blocks[0].attn, "num_kv_groups", 1) > 1:
        yield "blocks.0.attn has heads that share keys"
    gated = type(mlp).__name__ != "Mlp"
    if gated != (type(mlp.act).__name__ == "SiLU") or getattr(mlp, "gate_last", False):
        yield f"blocks.0.mlp is a {type(mlp).__name__} with {mlp.act}"
    if _norm(mlp.norm) not in (None, gated and dict(type="layer", eps=1e-6)):
        yield f"blocks.0.mlp has the norm {mlp.norm}"
    if _norm(model.norm) and _norm(model.fc_norm):
        yield "it has two norms after the last block"


def _norm(norm: nn.Module) -> dict[str, Any] | None:
    if isinstance(norm, nn.Identity):
        return None
    return dict(type="rms" if type(norm).__name__ == "RmsNorm" else "layer", eps=norm.eps)


def _mlp(mlp: Any) -> dict[str, Any]:
    name = type(mlp.act).__name__
    if name == "SiLU":
        return dict(type="swiglu", norm=not isinstance(mlp.norm, nn.Identity))
    tanh = getattr(mlp.act, "approximate", "none") == "tanh"
    return dict(type="mlp", act="gelu_tanh" if tanh else ACTS[name])


def _rope(rope: Any) -> dict[str, Any] | None:
    if rope is None:
        return None
    if type(rope).__name__ == "RotaryEmbeddingDinoV3":
        return dict(type="dinov3", base=rope.temperature)
    places = rope.ref_feat_shape[0] if rope.ref_feat_shape else "integer"
    options = dict(type="eva02", base=rope.temperature, places=places)
    if rope.grid_indexing == "xy":
        options["axes"] = "wh"
    return options | ({"offset": rope.grid_offset} if rope.grid_offset else {})


def from_timm(
    state: Mapping[str, Tensor], grid: Grid | None = None, meta: Mapping = {}
) -> Conversion:
    """Convert a ``VisionTransformer`` or ``Eva`` of timm without its head, or DINOv2's own names.

    Without a ``grid``, the position table of a model with LayerScale or registers (DeiT III, DINOv2
    with registers) has no vectors for class token and registers if it is square.

    A folder of the HuggingFace hub names the model, in ``meta``; then all its settings are known.
    A file alone tells neither rotary positions nor the activation: see ``_find_untold``.

    Raises:
        UserError: If the names do not fit, or ``VideoTransformer`` cannot compute the features.
    """
    state = _rename_dinov2(state)
    rotary, untold = _find_rotary(state), _find_untold(state)
    cls_token = "cls_token" in state
    # Without a class token, the first register takes its role in attention.
    prefix = [state.pop(name) for name in ("cls_token", "reg_token") if name in state]
    tokens = torch.cat(prefix, dim=1) if prefix else torch.empty(1, 0, 0)
    cls, slots = bool(prefix), 0
    if "pos_embed" in state:
        table = state["pos_embed"]
        may_lack = bool(len(prefix) > 1 or not cls_token or not SCALES.isdisjoint(state))
        slots = _count_slots(table.shape[1], tokens.shape[1], grid, may_lack)
        if slots > 1:  # registers have no positions in this package
            tokens[:, 1:] += table[:, 1:slots]
            state["pos_embed"] = torch.cat([table[:, :1], table[:, slots:]], dim=1)
    parts = zip(("cls_token", "reg_token"), tokens.tensor_split([1], dim=1), strict=True)
    state |= {name: part for name, part in parts if part.shape[1]}
    sections = "options", "apart", "eva", "norms", "positions_with_cls" if cls else "positions"
    op = positions(grid, (), cls, bool(slots))
    options = key_map("timm", *sections, ops={f"{ENCODER}.pos_embed.thw": op})
    present = [rule for rule in options if rule.sources[0].replace("{i}", "0") in state]
    known = {rule.targets for rule in present}
    needed = key_map("timm", "needed", ops={"backbone.embed.proj.weight": ADD_TIME})
    rules = [rule for rule in needed if rule.targets not in known] + present
    result = apply_rules(state, rules, UNUSED_WEIGHTS)
    if "architecture" in meta:
        name = str(meta["architecture"])
        with torch.device("meta"):
            set_settings(result, create(name, pretrained=False))
        rotary = f"it is {name}, with rotary positions" if result.settings["rope"] else ""
        untold = ""
    result.rotary, result.untold = rotary, untold
    return result


def set_settings(result: Conversion, model: Any) -> None:
    """Add what is known of a model of ``create`` beside its weights."""
    result.settings = describe(model)
    result.num_heads = result.settings["arch"]["num_heads"]
    known = getattr(model, "pretrained_cfg", {})
    for key in ("mean", "std"):
        if key in known:
            result.info[key] = [round(255 * value, 3) for value in known[key]]


def _rename_dinov2(state: Mapping[str, Tensor]) -> State:
    """Give DINOv2's official weights timm's names; others are left as they are."""
    pairs = ("register_tokens", "reg_token"), ("mlp.w12.", "mlp.fc1."), ("mlp.w3.", "mlp.fc2.")
    return {reduce(lambda x, pair: x.replace(*pair), pairs, n): x for n, x in state.items()}


def _find_rotary(state: Mapping[str, Tensor]) -> str:
    """Return why the names are those of a model with rotary positions, which have no weights."""
    if "pos_embed" not in state:
        return "it has no table of positions, as models with rotary ones"
    first, second = (state.get(f"blocks.0.mlp.fc{number}.weight") for number in (1, 2))
    gated = first is None or second is None or len(first) == 2 * second.shape[1]
    if _is_eva(state) and gated:
        return "its names are those of EVA-02, with rotary positions"
    if "blocks.0.gamma_1" in state and "blocks.0.attn.qkv.bias" in state:
        return "its names are those of models with rotary positions"
    is_pooled = any(name.startswith("attn_pool.") for name in state)
    is_normalized = "norm.weight" in state or "fc_norm.weight" in state
    if "norm_pre.weight" in state and (is_pooled or not is_normalized):
        return "its names are those of a Perception Encoder, with rotary positions"
    return ""


def _find_untold(state: Mapping[str, Tensor]) -> str:
    """Return what a model of these names may have; empty if timm has but plain ones."""
    if "norm_pre.weight" in state:
        return "QuickGELU (OpenAI's CLIP) and rotary positions (Perception Encoder)"
    if _is_eva(state):
        return "rotary positions, and norms after the attention (EVA-02 CLIP E)"
    is_biased = any("qkv.bias" in name for name in state)
    has_prefix = "cls_token" in state or "reg_token" in state
    if not is_biased and not has_prefix and SCALES.isdisjoint(state):
        return "norms after the attention (vit_base_patch16_rpn_224)"
    return ""


def _is_eva(state: Mapping[str, Tensor]) -> bool:
    return "blocks.0.attn.q_bias" in state or "blocks.0.attn.q_proj.weight" in state


def _count_slots(count: int, prefix: int, grid: Grid | None, may_lack: bool) -> int:
    """Return how many vectors of a position table are those of class token and registers."""
    # Models with LayerScale or registers (DeiT III, timm's DINOv2) have none; DINOv2 itself one.
    for slots in (0, prefix, 1) if may_lack or grid else (prefix,):
        places = count - slots
        if 0 < places and slots <= prefix:
            fits = places == grid[1] * grid[2] if grid else isqrt(places) ** 2 == places
            if fits:
                return slots
    return prefix
