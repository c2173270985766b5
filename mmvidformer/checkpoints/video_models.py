"""Video models of PyTorch projects to this package's names, and back.

HuggingFace's ViViT, TimeSformer, VideoMAE, V-JEPA 2, and feature fixation (not back).
"""

import re
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from mmvidformer.checkpoints.backbones import (
    ENCODER,
    HEADS,
    HUGGINGFACE_MODELS,
    VIDEO_VITS,
    read_act,
)
from mmvidformer.checkpoints.internvideo_next import internvideo_next_rules
from mmvidformer.checkpoints.keymap import (
    Conversion,
    Rule,
    State,
    apply_rules,
    count_blocks,
    has,
    key_map,
    revert,
    strip_prefixes,
)
from mmvidformer.checkpoints.onevision import onevision_rules
from mmvidformer.checkpoints.operations import ADD_TIME, TIME_TABLE, Grid, Op, divide, positions
from mmvidformer.checkpoints.streamformer import streamformer_rules
from mmvidformer.checkpoints.trecvit import to_trecvit
from mmvidformer.checkpoints.videoprism import videoprism_rules
from mmvidformer.checkpoints.vjepa2_1 import vjepa2_1_rules
from mmvidformer.errors import UserError
from mmvidformer.layers.sines import flat_sine_positions

# By table of names: the pooler of ViViT, which the classifier does not read, fixed positions of
# VideoMAE, which ``from_videomae`` compares, a table that V-JEPA 2 does not read, other networks.
UNUSED_WEIGHTS: dict[str, tuple[str, ...]] = {
    "vivit": (r"(.*\.)?pooler\.dense\..*",),
    "timesformer": (),
    "videomae": (r"(.*\.)?(decoder|encoder_to_decoder)\..*", r"(.*\.)?(mask_token|pos_embed)"),
    "vjepa2": (r"(.*\.)?predictor\..*", r"(.*\.)?pos_embed"),
}
# Prefixes of the backbone by dialect, where the table has none.
PREFIXES = {
    "spacetime": {"huggingface": "vivit.", "modules": "vivit."},
    "videomae": {"mmaction": "backbone.", "huggingface": "videomae.", "modules": "videomae."},
    "vjepa2": {"huggingface": "vjepa2."},
}
# Dialects of TimeSformer by the name of the kernel.
DIALECTS = {
    "model.patch_embed.proj.weight": "official",
    "timesformer.embeddings.patch_embeddings.projection.weight": "huggingface",
    "backbone.patch_embed.projection.weight": "mmaction",
}
IMAGE = "patch_embed.projection.weight"  # of MMAction2's image model, without "backbone."
# Of feature fixation: prefixes of the official names of attention and norm, names of the gates.
SUBLAYERS = {"time_space": {"time": "temporal_", "space": ""}, "joint": {"joint": ""}}
GATES = {"qkv_shared": "pgate", "qkv": "q_gate"}
TIME_FRAMES = Op(lambda x: (x[..., None, :],), lambda x: (x[..., 0, :],))
POOLER = "cls_head.pooling"
# Of encoders with tables of their own.
RULES: dict[str, Callable[[Mapping[str, Tensor]], list[Rule]]] = {
    "vjepa2_1": vjepa2_1_rules,
    "levjepa": lambda state: key_map("levjepa", "model"),
    "streamformer": streamformer_rules,
    "internvideo_next": internvideo_next_rules,
    "onevision": onevision_rules,
}
LAST = {"videomae": 16, "vjepa2": 22}  # of width 1408


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


def from_vivit(
    state: Mapping[str, Tensor], grid: Grid | None = None, meta: Mapping = {}
) -> Conversion:
    """Convert HuggingFace's ``VivitForVideoClassification`` or ``VivitModel`` in either layout."""
    if grid is None and {"num_frames", "image_size", "tubelet_size"} <= set(meta):
        side = meta["image_size"]
        sides = (side, side) if isinstance(side, int) else side
        grid = divide((meta["num_frames"], *sides), meta["tubelet_size"])
    dialect = "huggingface" if has(state, r"encoder\.layer\.") else "modules"
    return _convert(state, "spacetime", dialect, meta, grid)


def from_timesformer(
    state: Mapping[str, Tensor], grid: Grid | None = None, meta: Mapping = {}
) -> Conversion:
    """Convert the weights of a TimeSformer in any of ``DIALECTS``."""
    if IMAGE in state:
        state = {f"backbone.{name}": value for name, value in state.items()}
    dialect = next((DIALECTS[name] for name in state if name in DIALECTS), "official")
    scheme = "joint_space_time" if has(state, r"\.time_embed") else "space_only"
    if has(state, "temporal_fc|temporal_dense"):
        scheme = "divided_space_time"
    return _convert(state, scheme, dialect, meta, grid)


def from_videomae(state: Mapping[str, Tensor], meta: Mapping = {}) -> Conversion:
    """Convert VideoMAE or VideoMAE v2, fine-tuned or pretrained; decoders are ignored.

    So are classifiers of the first token instead of the mean, of models without ``fc_norm``.

    Raises:
        UserError: If names or settings do not fit, positions are not the fixed ones, or a
            pretrained model has no norm of the output.
    """
    dialect = "official"
    if has(state, r"patch_embed\.projection\."):
        dialect = "mmaction"
    elif has(state, r"patch_embeddings\.projection\."):
        dialect = "modules" if has(state, r"attention\.query\.bias$") else "huggingface"
    for name, table in state.items():
        if name.endswith("pos_embed") and not name.startswith("decoder"):
            fixed = flat_sine_positions((1, 1, table.shape[1]), table.float())[:, 0, 0]
            if not torch.allclose(fixed, table.float(), atol=1e-2):
                raise UserError(f"{name} must be VideoMAE's fixed table; learned ones do not fit")
    if has(state, "mask_token$") and dialect in ("modules", "huggingface"):
        if not has(state, r"^(videomae\.)?layernorm\.weight$"):
            raise UserError(
                "a pretraining checkpoint with use_mean_pooling=True has no norm of the output, "
                "which fine-tuning adds; use a fine-tuned one, or one with use_mean_pooling=False"
            )
    result = _convert(state, "videomae", dialect, meta)
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
        heads = [name for name in result.state if name.startswith("cls_head.")]
        result.state = {name: x for name, x in result.state.items() if name not in heads}
        result.ignored += heads
        result.missing += heads
        if heads:
            text = "the classifier is left out: it reads the first token, not the mean"
            result.notes.append(text)
    return result


def from_vjepa2(
    state: Mapping[str, Tensor], meta: Mapping = {}, scheme: str | None = None
) -> Conversion:
    """Convert V-JEPA 2's encoder, its attentive classifier, or both; the predictor is ignored.

    Official files of both V-JEPA 1 and 2 have a table ``pos_embed``, and no other names. V-JEPA 1
    adds it to the tokens, which ``VideoTransformer`` cannot do; V-JEPA 2 does not read it.

    Raises:
        UserError: If names do not fit, or there is such a table and the scheme is not given.
    """
    if scheme not in (None, "vjepa2"):
        raise UserError(f"the scheme is 'vjepa2', not {scheme!r}")
    tables = [name for name in state if re.fullmatch(r"(.*\.)?pos_embed", name)]
    if tables and scheme is None:
        raise UserError(
            f"it may be V-JEPA 1, which adds {tables[0]} to its tokens and is not supported; if it "
            "is V-JEPA 2, give the scheme 'vjepa2' (mmvidformer convert --scheme vjepa2)"
        )
    hugging = has(state, r"\.patch_embeddings\.proj\.")
    result = _convert(state, "vjepa2", "huggingface" if hugging else "official", meta)
    if f"{POOLER}.query" in result.state:
        heads = result.num_heads if hugging else 16  # of the classifiers of all sizes
        norm = result.settings.get("norm", "layer") if hugging else dict(type="layer", eps=1e-5)
        depth = count_blocks(result.state, f"{POOLER}.blocks.")
        result.head = dict(num_heads=heads, depth=depth, norm=norm)
    return result


def fixation_rules(attention: str, fixation: str | None) -> list[Rule]:
    """Return the rows of a model, given keys of ``SUBLAYERS`` and ``GATES``, or None."""
    ops = {"backbone.embed.proj.weight": ADD_TIME, f"{ENCODER}.pos_embed.t": TIME_FRAMES}
    sections = ("sublayer", fixation) if fixation else ("sublayer",)
    rules = key_map("feature_fixation", "model", ops=ops)
    for sublayer, prefix in SUBLAYERS[attention].items():
        rules += key_map("feature_fixation", *sections, sublayer=sublayer, prefix=prefix)
    return rules


def from_feature_fixation(state: Mapping[str, Tensor]) -> Conversion:
    """Convert the official linear video transformer with feature fixation, with or without head."""
    state = strip_prefixes(state, ("module.", "base_model."))
    attention = "time_space" if has(state, "temporal_attn") else "joint"
    fixation = next((name for name, gate in GATES.items() if has(state, rf"\.{gate}\.")), None)
    unused = (r"(new_fc|head)\..*",)  # by the official forward pass
    result = apply_rules(state, fixation_rules(attention, fixation), unused)
    result.model, result.scheme = "FeatureFixationTransformer", attention
    result.settings = {"fixation": fixation}
    head_dims = [len(x) for name, x in result.state.items() if ".gates." in name]
    if head_dims:
        result.num_heads = len(result.state[f"{ENCODER}.norm.weight"]) // head_dims[0]
    result.notes.append(
        "shifts and kernel have no weights; those of the released settings for Something-Something "
        "are assumed. The settings for Kinetics have the temporal shift "
        "dict(type='temporal', divisor=8, segment=8)"
    )
    return result


def to_other(state: Mapping[str, Tensor], scheme: str, dialect: str = "huggingface") -> State:
    """Convert back.

    Args:
        state: Weights of a recognizer.
        scheme: Scheme of the model, a key of ``backbones.HUGGINGFACE_MODELS``.
        dialect: ``'huggingface'``, the names of files, which every version of transformers reads;
            ``'modules'``, those of ViViT's and VideoMAE's modules in transformers 5; ``'official'``
            (not of ViViT) or ``'mmaction'`` (of TimeSformer and VideoMAE).

    Raises:
        KeyError: If there is no such dialect.
        UserError: If names are missing or unknown, such as those of another scheme, or theirs
            would read another token than the mean.
    """
    if scheme == "videomae" and has(state, "^cls_head") and not has(state, r"fc_norm\.weight$"):
        raise UserError("VideoMAE's classifier reads the first token if there is no fc_norm")
    if scheme == "videoprism":
        return revert(state, videoprism_rules(state, dialect))
    if scheme == "trecvit":
        return to_trecvit(state)
    if scheme in RULES:
        return revert(state, RULES[scheme](state))
    return revert(state, _rules(state, scheme, dialect))


def _rules(
    state: Mapping[str, Tensor], scheme: str, dialect: str, grid: Grid | None = None
) -> list[Rule]:
    """Return the rows for the parts that a state has; its names may be theirs or ours."""
    _, table, *sections = HUGGINGFACE_MODELS[scheme]
    prefix = PREFIXES.get(scheme, {}).get(dialect, "")
    if not any(name.startswith((prefix, "backbone.")) for name in state):  # a backbone of theirs
        prefix = ""
    # Kernels of TimeSformer, whose tables are those of single frames, have no axis of time.
    tubelet = next((x.shape[2:] for x in state.values() if x.dim() == 5), ())
    ops = {f"{ENCODER}.pos_embed.{axes}": positions(grid, tubelet) for axes in ("thw", "hw")}
    if table == "timesformer":
        ops |= {f"{ENCODER}.pos_embed.t": TIME_TABLE, "backbone.embed.proj.weight": ADD_TIME}
    if table in VIDEO_VITS and has(state, "embed", dim=5):
        sections += ["encoder", "fc_norm" if has(state, r"fc_norm\.weight$") else "norm"]
    if has(state, r"(pooler\.query_tokens|pooling\.query)$"):
        sections.append("pooler")
    if has(state, r"(pooler\.blocks|pooler\.self_attention_layers|pooling\.blocks)\.0\."):
        sections.append("pooler_blocks")
    return key_map(table, *sections, dialect=dialect, ops=ops, prefix=prefix)


def _convert(
    state: Mapping[str, Tensor], scheme: str, dialect: str, meta: Mapping, grid: Grid | None = None
) -> Conversion:
    if scheme in VIDEO_VITS and dialect == "official":
        state = strip_prefixes(state)
    result = apply_rules(
        state, _rules(state, scheme, dialect, grid), UNUSED_WEIGHTS[HUGGINGFACE_MODELS[scheme][1]]
    )
    result.model, result.scheme = HUGGINGFACE_MODELS[scheme][0], scheme
    # ViViT's GELU is flax's, the tanh one.
    read_act(meta, *(("gelu_fast", "gelu_tanh") if scheme == "spacetime" else ("gelu", "gelu")))
    result.num_heads, eps = meta.get("num_attention_heads"), meta.get("layer_norm_eps", 1e-6)
    if frames := meta.get("num_frames", meta.get("frames_per_clip")):
        result.settings["clip_len"] = frames
    if scheme not in VIDEO_VITS:
        if eps != 1e-6:
            raise UserError(f"layer_norm_eps must be 1e-6, got {eps}")
        return result
    width = len(result.state.get("backbone.embed.proj.bias", ()))
    known = HEADS.get(width, LAST[scheme] if width == 1408 else None)
    result.num_heads = result.num_heads or known
    if (scheme, width, result.num_heads) == ("videomae", 384, 16):
        result.num_heads = 6
        result.notes.append("num_heads is 6, of the published model; config.json says 16")
    if eps != 1e-6:
        result.settings["norm"] = dict(type="layer", eps=eps)
    side = meta.get("image_size", meta.get("crop_size"))
    if isinstance(side, int | list | tuple):
        result.settings["img_size"] = (side, side) if isinstance(side, int) else tuple(side)
    return result
