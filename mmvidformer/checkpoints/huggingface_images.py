"""HuggingFace's image models: ViT, MAE, MSN, I-JEPA, DINOv2, and the images of CLIP and SigLIP."""

from collections.abc import Mapping

from torch import Tensor

from mmvidformer.checkpoints.backbones import ENCODER, count_registers, read_act
from mmvidformer.checkpoints.keymap import Conversion, apply_rules, has, key_map
from mmvidformer.checkpoints.operations import ADD_TIME, Grid, Op, positions

# Heads, text encoders, decoders, and what models are trained with.
UNUSED_WEIGHTS = (
    r"(.*\.)?(pooler|head|classifier|decoder)\..*",
    r"(.*\.)?(mask_token|position_ids)",
    r"text_model\..*|(text|visual)_projection\..*|logit_(scale|bias)",
)
# What a file without ``config.json`` is taken for: epsilon of the norms (ViT has several), and
# activation.
EPS = {"dinov2": 1e-6, "clip": 1e-5, "siglip": 1e-6}
DEFAULT_ACTS = {"clip": "quick_gelu", "siglip": "gelu_pytorch_tanh"}
# CLIP's class token and positions have no axis of the batch.
AS_TOKEN = Op(lambda x: (x.view(1, 1, -1),), lambda x: (x.flatten(),))


def is_huggingface_image(state: Mapping[str, Tensor]) -> bool:
    """Whether the names are those of an image model, whose kernel has no axis of time."""
    vit = has(state, r"embeddings\.patch_embeddings\.projection\.weight$", dim=4)
    clip = has(state, r"embeddings\.patch_embedding\.weight$", dim=4)
    return vit or clip


def from_huggingface_image(
    state: Mapping[str, Tensor], grid: Grid | None = None, meta: Mapping = {}
) -> Conversion:
    """Convert an image model without its head.

    Raises:
        UserError: If names or settings do not fit, such as relative positions (BEiT).
    """
    meta = {**meta, **meta.get("vision_config", {})}  # CLIP with its text encoder
    family, dialect = _recognize(state)
    (prefix,) = {name.partition("embeddings.")[0] for name in state if "embeddings.patch" in name}
    table_name = next(
        iter(n for n in state if n.startswith(f"{prefix}embeddings.position_emb")), ""
    )
    gated = has(state, r"mlp\.weights_in\.weight$")
    fc1, fc2 = ("weights_in", "weights_out") if gated else ("fc1", "fc2")
    cls = has(state, r"embeddings\.(cls_token|class_embedding)$")
    table_op = positions(grid, (), cls, cls)
    if family in ("clip", "siglip"):
        split = table_op.forward
        table_op = Op(lambda table: split(table[None]), table_op.backward)
    ops = {"backbone.embed.proj.weight": ADD_TIME, f"{ENCODER}.pos_embed.thw": table_op}
    if family == "clip":
        ops[f"{ENCODER}.cls_token"] = AS_TOKEN
    parts = dict(prefix=prefix, fc1=fc1, fc2=fc2)
    parts["positions"] = table_name.removeprefix(prefix) or "embeddings.position_embeddings"
    sections = "model", "positions_with_cls" if cls else "positions"
    rules = key_map("image", *sections, dialect=dialect, ops=ops, **parts)
    result = apply_rules(state, rules, UNUSED_WEIGHTS)
    result.settings = _settings(result.state, meta, family, gated)
    result.num_heads = meta.get("num_attention_heads")
    return result


def _recognize(state: Mapping[str, Tensor]) -> tuple[str, str]:
    """Return the family and the dialect of ``names.yml``."""
    if has(state, r"embeddings\.patch_embedding\.weight$"):
        return ("clip" if has(state, r"embeddings\.class_embedding$") else "siglip"), "clip"
    family = "dinov2" if has(state, r"layer_scale1\.lambda1$") else "vit"
    is_file = has(state, r"attention\.attention\.query\.weight$")
    return family, family if is_file else f"{family}_modules"


def _settings(state: Mapping[str, Tensor], meta: Mapping, family: str, gated: bool) -> dict:
    """Return the arguments of ``VideoTransformer`` that weights do not tell."""
    act = read_act(meta, DEFAULT_ACTS.get(family, "gelu"))
    mlp = dict(type="swiglu", norm=False) if gated else dict(type="mlp", act=act)
    eps = meta.get("layer_norm_eps", EPS.get(family))
    norm = {} if eps is None else {"norm": dict(type="layer", eps=eps)}
    return dict(
        **norm,
        norm_pre=family == "clip",
        mlp=mlp,
        positions="joint",
        rope=None,
        qk_norm=None,
        registers=count_registers(state),
    )
