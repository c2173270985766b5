"""The backbones of converted weights: their classes by scheme, and the arguments that build them.

A checkpoint of another project names no arguments of this package's classes. What ``config.json``
or ``meta`` says is taken first; the shapes of the weights say the rest.
"""

import math
from collections.abc import Mapping

from torch import Tensor

from mmvidformer.checkpoints.keymap import Conversion, count_blocks
from mmvidformer.errors import UserError

ENCODER = "backbone.encoders.0"
# Models that HuggingFace has too, by their schemes: the class, and its table of names with the
# sections that any weights have (``names.yml``).
HUGGINGFACE_MODELS: dict[str, tuple[str, ...]] = {
    "spacetime": ("ViViT", "vivit", "model"),
    "space_only": ("TimeSformer", "timesformer", "model", "joint"),
    "joint_space_time": ("TimeSformer", "timesformer", "model", "time", "joint"),
    "divided_space_time": ("TimeSformer", "timesformer", "model", "time", "divided"),
    "videomae": ("VideoTransformer", "videomae", "head"),
    "vjepa2": ("VideoTransformer", "vjepa2", "head"),
    "videoprism": ("VideoTransformer", "videoprism"),
    "streamformer": ("VideoTransformer", "streamformer"),
}
# HuggingFace's names of activations, and ours.
ACTS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "quick_gelu": "quick_gelu",
}
# Heads of the published models of a width, where it determines them.
HEADS = {384: 6, 768: 12, 1024: 16, 1280: 16}
# Arguments of the last ones.
VIDEO_VITS: dict[str, dict] = {
    "videomae": dict(
        clip_len=16,
        img_size=(224, 224),
        positions=dict(type="joint", fixed="flat"),
        qkv_bias="qv",
        fc_norm="layer",
    ),
    "vjepa2": dict(clip_len=64, img_size=(256, 256), positions="none", rope="vjepa2", pool="none"),
    "vjepa2_1": dict(
        clip_len=64, img_size=(384, 384), positions="none", rope="vjepa2_1", pool="none"
    ),
    "levjepa": dict(
        clip_len=16,
        img_size=(224, 224),
        block=[dict(pattern=dict(type="causal_joint", past=16))],
        positions="none",
        rope="vjepa2",
        cls="sink",
    ),
    "internvideo_next": dict(
        cls="mean",
        norm="rms",
        qkv_bias=False,
        qk_norm=dict(type="rms", whole=True),
        layer_scale=1e-5,
        mlp=dict(type="mlp", act="gelu_tanh"),
        pool="all",
        fc_norm="none",
    ),
    "onevision": dict(
        clip_len=16, img_size=(224, 224), positions="none", norm_pre=True, pool="none"
    ),
    "videoprism": dict(clip_len=16, img_size=(288, 288), pool="none"),
    "streamformer": dict(clip_len=16, img_size=(224, 224), pool="none"),
    "trecvit": dict(clip_len=32, img_size=(224, 224), pool="none"),
}


def backbone_arguments(conversion: Conversion) -> dict:
    """Return the arguments that build the backbone of converted weights.

    They are those that ``convert_file`` wrote, or else what scheme, names and shapes tell: without
    a known scheme (image models, compositions) nothing, and not the image size, shifts and kernel
    of feature fixation, or the clip length of a model that averages its frames.

    Raises:
        UserError: If the weights are not those of a model with this scheme.
    """
    heads = {} if conversion.num_heads is None else {"num_heads": conversion.num_heads}
    if "arch" in conversion.settings:
        return conversion.settings | {"arch": conversion.settings["arch"] | heads}
    if not conversion.model:
        return {}
    try:
        measured = _arguments_of_shapes(conversion.state, conversion.model, conversion.scheme or "")
    except KeyError as error:
        raise UserError(
            f"the weights are not those of a {conversion.model}: {error} is missing"
        ) from error
    measured["arch"] |= heads
    return measured | conversion.settings


def read_act(meta: Mapping, default: str, *fitting: str) -> str:
    """Return the activation of ``config.json``, by our name.

    Raises:
        UserError: If it is none of ``fitting`` (default: all), by our names.
    """
    names = [name for name, act in ACTS.items() if act in fitting or not fitting]
    act = meta.get("hidden_act", default)
    if act not in names:
        raise UserError(f"hidden_act must be {' or '.join(names)}, got {act!r}")
    return ACTS[act]


def count_registers(state: Mapping[str, Tensor]) -> int:
    """Return the number of register tokens of converted weights."""
    return state[name].shape[1] if (name := f"{ENCODER}.registers") in state else 0


def mlp_ratio(dim: int, hidden: int) -> float:
    """Return the ratio of two widths that gives the second as ``int(dim * ratio)``."""
    ratio = hidden / dim
    return ratio if int(dim * ratio) == hidden else math.nextafter(ratio, math.inf)


def _arguments_of_shapes(state: Mapping[str, Tensor], model: str, scheme: str) -> dict:
    dim, _, *tubelet = state["backbone.embed.proj.weight"].shape
    arch = dict(
        embed_dims=dim,
        depth=count_blocks(state, f"{ENCODER}.blocks."),
        mlp_ratio=mlp_ratio(dim, len(state[f"{ENCODER}.blocks.0.mlp.fc1.weight"])),
    )
    stem: dict = {"tubelet": tuple(tubelet)}
    if model == "VideoTransformer":
        if "backbone.embed.image_proj.weight" in state:
            stem["images"] = True
        if "backbone.embed.norm_pre.weight" in state:
            stem |= dict(norm="rms", norm_pre="rms")
        return dict(arch=arch, stem=stem, **VIDEO_VITS[scheme])
    arguments: dict = dict(arch=arch, scheme=scheme or None, stem=stem)
    over_time, over_space = state.get(f"{ENCODER}.pos_embed.t"), None  # tables of positions
    if model == "ViViT":
        arguments["pool"] = "cls" if f"{ENCODER}.cls_token" in state else "mean"
        over_time = over_space = state[f"{ENCODER}.pos_embed.thw"]
        if scheme == "factorized_encoder":
            arguments["temporal_depth"] = count_blocks(state, "backbone.encoders.1.blocks.")
            over_time = state.get("backbone.encoders.1.pos_embed.thw")
    elif model == "TimeSformer":
        over_space = state[f"{ENCODER}.pos_embed.hw"]
    else:  # tubelets of feature fixation overlap as in the official code
        side = tubelet[-1]
        stride, padding = (1, side * 7 // 8, side * 7 // 8), (0, side // 2, side // 2)
        stem |= dict(stride=stride, padding=padding, norm=True)
    if over_time is not None:
        arguments["clip_len"] = tubelet[0] * over_time.shape[1]
    if over_space is not None:
        _, _, rows, columns, _ = over_space.shape
        arguments["img_size"] = rows * tubelet[1], columns * tubelet[2]
    return arguments
