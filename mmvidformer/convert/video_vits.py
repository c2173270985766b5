"""VideoMAE and V-JEPA 2 (official, MMAction2, HuggingFace) to this package's names, and back."""

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from mmvidformer.convert.keymap import (
    Conversion,
    Rule,
    State,
    apply_rules,
    has,
    key_map,
    revert,
    strip_prefixes,
)
from mmvidformer.convert.own import count_blocks
from mmvidformer.layers.embed import flat_sine_positions

# Wrappers of the official code; the keys of a teacher and a student are in ``convert.io``.
WRAPPERS = ("module.", "_orig_mod.", "model.", "backbone.", "encoder.")
IGNORED = (r"(.*\.)?(predictor|decoder|encoder_to_decoder)\..*", r"(.*\.)?(mask_tokens?|pos_embed)")

# Prefixes of the backbone by dialect.
PREFIXES = {
    "videomae": {"mmaction": "backbone.", "huggingface": "videomae.", "modules": "videomae."},
    "vjepa2": {"huggingface": "vjepa2."},
}
CLASSIFIER = r"(module\.|model\.)?(classifier|head|cls_head\.fc_cls)\.(weight|bias)"
POOLER = "cls_head.pooling"
# Heads of the published models of a width, where it determines them.
HEADS = {384: 6, 768: 12, 1024: 16, 1280: 16}
LAST = {"videomae": 16, "vjepa2": 22}  # of width 1408


def _rules(state: Mapping[str, Tensor], family: str, dialect: str, prefix: str) -> list[Rule]:
    """Return the rows for the parts that a state has; its names may be theirs or ours."""
    sections = ["head"]
    if has(state, "embed", dim=5):
        sections += ["encoder", "fc_norm" if has(state, r"fc_norm\.weight$") else "norm"]
    if has(state, r"(pooler\.query_tokens|pooling\.query)$"):
        sections.append("pooler")
    if has(state, r"(pooler\.blocks|pooler\.self_attention_layers|pooling\.blocks)\.0\."):
        sections.append("pooler_blocks")
    return key_map(family, *sections, dialect=dialect, prefix=prefix)


def is_videomae(state: Mapping[str, Tensor]) -> bool:
    """Whether the names are those of VideoMAE, whose queries have a bias, and keys none."""
    queries = has(state, r"\.(q_bias|attention\.query\.bias)$")
    return has(state, "patch_embed", dim=5) and queries and not has(state, r"attention\.key\.bias$")


def is_vjepa2(state: Mapping[str, Tensor]) -> bool:
    """Whether the names are those of V-JEPA 2's encoder, its classifier, or both."""
    video = has(state, r"(\.patch_embeddings|patch_embed)\.proj\.weight$", dim=5)
    plain = has(state, r"(blocks\.0\.attn\.qkv|layer\.0\.attention\.query)\.bias$")
    alone = has(state, r"pooler\.cross_attention_block\.xattn\.kv\.weight$")
    return (video and plain and not has(state, "cls_token")) or alone


def from_videomae(state: Mapping[str, Tensor], meta: Mapping | None = None) -> Conversion:
    """Convert VideoMAE or VideoMAE v2, fine-tuned or pretrained; decoders are ignored.

    So are classifiers of the first token instead of the mean, of models without ``fc_norm``.

    Raises:
        ValueError: If names or settings do not fit, or positions are not the fixed ones.
    """
    meta = meta or {}
    dialect = "official"
    if has(state, r"patch_embed\.projection\."):
        dialect = "mmaction"
    elif has(state, r"patch_embeddings\.projection\."):
        dialect = "modules" if has(state, r"attention\.query\.bias$") else "huggingface"
    for name, table in state.items():
        if name.endswith("pos_embed") and not name.startswith("decoder"):
            fixed = flat_sine_positions((1, 1, table.shape[1]), table.float())[:, 0, 0]
            if not torch.allclose(fixed, table.float(), atol=1e-2):
                raise ValueError(f"{name} must be VideoMAE's fixed table; learned ones do not fit")
    heads = (
        [] if has(state, r"fc_norm\.weight$") else [k for k in state if re.fullmatch(CLASSIFIER, k)]
    )
    state = {name: x for name, x in state.items() if name not in heads}
    result = _convert(state, "videomae", dialect, meta)
    if heads:
        result.ignored += heads
        result.notes.append("the classifier is left out: it reads the first token, not the mean")
    biases = [x for name, x in result.state.items() if name.endswith("attn.qkv.bias")]
    if biases and not any(bias.any() for bias in biases):
        result.notes.append(
            "all biases of queries and values are 0: transformers 5 before September 2026 loses "
            "them; use the original weights"
        )
    if dialect in ("modules", "huggingface"):
        result.settings["fc_norm"] = dict(type="layer", eps=1e-5)  # whatever the config says
    if "backbone.fc_norm.weight" not in result.state:
        result.settings["fc_norm"] = None
    return result


def from_vjepa2(state: Mapping[str, Tensor], meta: Mapping | None = None) -> Conversion:
    """Convert V-JEPA 2's encoder, its attentive classifier, or both; the predictor is ignored."""
    hugging = has(state, r"\.patch_embeddings\.proj\.")
    result = _convert(state, "vjepa2", "huggingface" if hugging else "official", meta or {})
    if f"{POOLER}.query" in result.state:
        heads = result.num_heads if hugging else 16  # of the classifiers of all sizes
        norm = result.settings.get("norm", "layer") if hugging else dict(type="layer", eps=1e-5)
        depth = count_blocks(result.state, POOLER)
        result.head = dict(num_heads=heads, depth=depth, norm=norm)
    return result


def _convert(state: Mapping[str, Tensor], family: str, dialect: str, meta: Mapping) -> Conversion:
    prefix = PREFIXES[family].get(dialect, "")
    if dialect == "official":
        state = strip_prefixes(state, WRAPPERS)
    elif not any(name.startswith(prefix) for name in state):
        prefix = ""
    result = apply_rules(state, _rules(state, family, dialect, prefix), IGNORED)
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

    Raises:
        ValueError: If names do not fit, or theirs would read another token than the mean.
    """
    if family == "videomae" and has(state, "^cls_head") and not has(state, r"fc_norm\.weight$"):
        raise ValueError("VideoMAE's classifier reads the first token if there is no fc_norm")
    prefix = PREFIXES[family].get(dialect, "")
    return revert(state, _rules(state, family, dialect, prefix))
