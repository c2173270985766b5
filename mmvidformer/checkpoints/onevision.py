"""OneVision-Encoder (Tang et al. 2026), the names of its code, in both directions.

It is a ViT with rotary positions of frames, rows and columns, a norm before the blocks and no bias
of the patches. The attention that pools is that of SigLIP with an RMS norm.
"""

from collections.abc import Mapping

from torch import Tensor

from mmvidformer.checkpoints.backbones import ENCODER, HEADS, read_act
from mmvidformer.checkpoints.keymap import Conversion, Rule, apply_rules, has, key_map
from mmvidformer.checkpoints.operations import IN_PROJ, Op
from mmvidformer.errors import UserError

PREFIX = "onevision_encoder."


def is_onevision(state: Mapping[str, Tensor]) -> bool:
    """Whether the names are those of OneVision-Encoder."""
    patches = has(state, r"embeddings\.patch_embedding\.weight$", r"layernorm_pre\.weight$")
    return patches and has(state, r"encoder\.layers\.0\.self_attn\.q_proj\.weight$")


def from_onevision(state: Mapping[str, Tensor], meta: Mapping = {}) -> Conversion:
    """Convert ``OneVisionEncoderModel``; its pooling becomes that of an ``AttentiveHead``.

    Args:
        state: Weights.
        meta: ``config.json``. Without it, the settings are those of the published model.

    Raises:
        UserError: If names do not fit, or settings are those of another function.
    """
    act, norm_type = read_act(meta, "gelu"), meta.get("layer_norm_type", "layer_norm")
    if norm_type != "layer_norm":
        raise UserError(f"layer_norm_type must be 'layer_norm', got {norm_type!r}")
    result = apply_rules(state, onevision_rules(state))
    result.model, result.scheme = "VideoTransformer", "onevision"
    width = len(result.state["backbone.embed.proj.bias"])
    result.num_heads = meta.get("num_attention_heads", HEADS.get(width))
    eps, base = meta.get("layer_norm_eps", 1e-6), meta.get("rope_theta", 10000.0)
    result.settings = dict(
        rope=dict(type="onevision", base=base, span=meta.get("rope_temporal_size", 64)),
        norm=dict(type="layer", eps=eps),
        mlp=dict(type="mlp", act=act),
    )
    if f"{ENCODER}.norm.weight" not in result.state:  # of a model without its pooling
        result.settings["fc_norm"] = "none"
    if "cls_head.pooling.query" in result.state:
        pooling = dict(type="siglip", act=act)
        norm = dict(type="rms", eps=eps)
        result.head = dict(pooling=pooling, num_heads=result.num_heads, depth=0, norm=norm)
    return result


def onevision_rules(state: Mapping[str, Tensor]) -> list[Rule]:
    """Return the rows for the parts that a state has; its names may be theirs or ours."""
    ops = {
        "backbone.embed.proj.weight": WITH_BIAS,
        "cls_head.pooling.q.weight": IN_PROJ,
        "cls_head.pooling.q.bias": IN_PROJ,
    }
    prefix = PREFIX if has(state, rf"^{PREFIX}") else ""
    rules = key_map("onevision", "model", ops=ops, prefix=prefix)
    if has(state, r"(head\.probe|pooling\.query)$"):
        rules += key_map("onevision", "head", ops=ops, prefix=prefix)
    return rules


def _without_bias(kernel: Tensor, bias: Tensor) -> tuple[Tensor]:
    if bias.any():
        raise UserError("OneVision-Encoder's patches have no bias, but this model's is not zero")
    return (kernel[:, :, 0],)


# A kernel of images without a bias, and ours of one frame with a bias of zero.
WITH_BIAS = Op(lambda kernel: (kernel[:, :, None], kernel.new_zeros(len(kernel))), _without_bias)
