"""DINOv3, by its official names and HuggingFace's, through timm's (Siméoni et al. 2025)."""

import re
from collections.abc import Mapping

from torch import Tensor

from mmvidformer.checkpoints.backbones import count_registers
from mmvidformer.checkpoints.keymap import Conversion, State, has
from mmvidformer.checkpoints.operations import Grid
from mmvidformer.checkpoints.timm_models import from_timm
from mmvidformer.errors import UserError

HUGGINGFACE = (
    (r"^(.*\.)?embeddings\.", ""),
    (r"^(.*\.)?layer\.(?=\d)", "blocks."),
    (r"^(\w+\.)+norm\.", "norm."),
    ("^patch_embeddings", "patch_embed.proj"),
    ("^register_tokens$", "storage_tokens"),
    (r"\.attention\.o_proj\.", ".attn.proj."),
    (r"\.attention\.", ".attn."),
    (r"\.layer_scale(\d)\.lambda1$", r".ls\1.gamma"),
)
OFFICIAL = ((r"^storage_tokens$", "reg_token"), (r"\.ls(\d)\.gamma$", r".gamma_\1"))
PLAIN_MLP = (("up_proj", "fc1"), ("down_proj", "fc2"))
GATED_MLP = (("(gate_proj|w1)", "fc1_g"), ("(up_proj|w2)", "fc1_x"), ("(down_proj|w3)", "fc2"))


def is_dinov3(state: Mapping[str, Tensor]) -> bool:
    """Whether the names are official ones, or HuggingFace's."""
    official = has(state, r"^storage_tokens$", r"^blocks\.0\.attn\.qkv\.weight$")
    return official or has(
        state, r"embeddings\.patch_embeddings\.weight$", r"layer\.0\.attention\.q_proj\.weight$"
    )


def from_dinov3(
    state: Mapping[str, Tensor], grid: Grid | None = None, meta: Mapping = {}
) -> Conversion:
    """Convert DINOv3 without its head.

    Raises:
        UserError: If names or settings do not fit.
    """
    periods = state.get("rope_embed.periods")
    gated = has(state, r"\.mlp\.(gate_proj|w1)\.weight$")
    act = meta.get("hidden_act", "silu" if gated else "gelu")
    if act != ("silu" if gated else "gelu"):
        raise UserError(f"hidden_act must be silu in a gated MLP, else gelu, got {act!r}")
    result = from_timm(_rename(state, gated), grid)
    result.num_heads = meta.get("num_attention_heads")
    base = float(meta.get("rope_theta", 100))
    if periods is not None:  # base ** (k / n) for k = 0 ... n - 1, with heads of 4 n channels
        count = len(periods)
        result.num_heads = len(result.state["backbone.embed.proj.weight"]) // (4 * count)
        base = round(periods[1].double().item() ** count, 1)
    result.settings = dict(
        norm=dict(type="layer", eps=meta.get("layer_norm_eps", 1e-5)),
        norm_pre=False,
        mlp=dict(type="swiglu", norm=False) if gated else dict(type="mlp", act="gelu"),
        positions="time",
        rope=dict(type="dinov3", base=base),
        qk_norm=None,
        registers=count_registers(result.state),
    )
    result.rotary = result.untold = ""
    return result


def _rename(state: Mapping[str, Tensor], gated: bool) -> State:
    """Return the weights with timm's names."""
    renamed: State = {}
    mlp = [(rf"\.mlp\.{old}\.", f".mlp.{new}.") for old, new in (GATED_MLP if gated else PLAIN_MLP)]
    names = (*(HUGGINGFACE if "storage_tokens" not in state else ()), *OFFICIAL, *mlp)
    for name, tensor in state.items():
        for pattern, new in names:
            name = re.sub(pattern, new, name)
        renamed[name] = tensor
    for name in [name for name in renamed if name.endswith(".attn.qkv.bias")]:
        query, _, value = renamed.pop(name).chunk(3)  # that of the keys is masked
        prefix = name.removesuffix("qkv.bias")
        renamed |= {f"{prefix}q_bias": query, f"{prefix}v_bias": value}
    return renamed
