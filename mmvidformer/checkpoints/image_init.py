"""Initialize a video model from an image model, or from another video model of this package.

This works on names only, for any ``VideoTransformer``.
"""

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from mmvidformer.checkpoints.backbones import VIDEO_VITS
from mmvidformer.checkpoints.convert import read_model
from mmvidformer.checkpoints.fitting import BACKBONE, fit_parts, neutral_values
from mmvidformer.checkpoints.keymap import Conversion, State, count_blocks
from mmvidformer.checkpoints.published import row_of
from mmvidformer.checkpoints.timm_models import PREFIX as TIMM
from mmvidformer.checkpoints.timm_models import create, from_timm, set_settings
from mmvidformer.errors import UserError
from mmvidformer.layers.block import AttentionSubLayer
from mmvidformer.layers.mlp import MLPS
from mmvidformer.layers.norm import NORMS
from mmvidformer.layers.positions import POSITIONS as POSITION_TABLES
from mmvidformer.layers.resize import RESIZE_RULES, resize_positions
from mmvidformer.layers.rotary import ROPES
from mmvidformer.lookup import Registry, look_up

logger = logging.getLogger("mmvidformer")

# ViViT section 3.4, eqs. 8 and 9: from a kernel (D, C, 1, h, w) to one for n frames.
EMBEDS: dict[str, Callable[[Tensor, int], Tensor] | None] = {
    "random": None,
    "inflate": lambda kernel, n: kernel.repeat(1, 1, n, 1, 1) / n,
    "central_frame": lambda kernel, n: pad(kernel, (0, 0, 0, 0, n // 2, n - 1 - n // 2)),
}
# Parts of a sub-layer over time that get the weights of the image attention.
TEMPORAL: dict[str, tuple[str, ...]] = {
    "zero": (),
    "copy": ("attn.",),
    "copy_with_norm": ("attn.", "norm."),
}
CLS_TOKENS = {"copy": False, "zero": True}
# Options without which features differ, and what their names stand for.
COMPARED: dict[str, Registry | None] = {
    "norm": NORMS,
    "norm_pre": None,
    "mlp": MLPS,
    "positions": POSITION_TABLES,
    "rope": ROPES,
    "qk_norm": NORMS,
    "registers": None,
}
# What the names of a video model's weights tell of its formulas.
FORMULAS = {
    "ViViT": dict(norm=dict(type="layer", eps=1e-6), mlp=dict(type="mlp", act="gelu_tanh")),
    "TimeSformer": dict(norm=dict(type="layer", eps=1e-6), mlp=dict(type="mlp", act="gelu")),
}
# Sub-layers of the source that are its image attention; the first one that exists is used.
IMAGE_SUBLAYERS = ("joint", "space", "time_space")
CLS = "encoders.0.cls_token"


def init_from_image(
    model: Any,
    source: str | Path,
    embed: str = "central_frame",
    positions: str | None = None,
    temporal: str | None = None,
    cls_token: str = "copy",
) -> tuple[list[str], list[str], list[str]]:
    """Initialize a model from an image model, in place, and log what was copied, zero and kept.

    A warning names the arguments of the model, such as the epsilon of its norms, with which it
    computes other features than the source, as far as the source tells.

    Args:
        model: A backbone with the names of this package.
        source: ``'timm:NAME'``, or a file or address (``download``) in any of ``FORMATS``: a timm
            or Google image ViT, or a checkpoint of this package with another scheme, clip length,
            resolution or number of classes.
        embed: Kernel for tubelets of several frames (ViViT section 3.4). ``'central_frame'``: the
            image kernel at frame ``t // 2``, zeros elsewhere; ``'inflate'``: the image kernel
            divided by ``t`` at each frame; ``'random'``: kernel and bias are kept. A kernel of
            the same ``t`` is copied; one of another ``t`` is summed over its frames first.
        positions: Rule by which position tables are resized (``layers.resize``); a table of one
            frame is repeated over time. ``'bicubic'`` is timm's, ``'linear'`` that of scenic's
            ViViT, ``'nearest_1d'`` that of the official TimeSformer. A causal model takes the first
            rows of a longer table. Default: ``position_init`` of the model.
        temporal: Attention over time (``time``, ``causal_time``, ...) that the
            source does not have. ``'zero'``: its output projection is zero (ViViT, section 3.4), or
            its ``fc`` already is, and its other weights are kept; ``'copy'``: it gets the weights
            of the image attention, but its layer norm is kept (scenic's ViViT);
            ``'copy_with_norm'``: its layer norm is copied too (official TimeSformer). Default:
            ``temporal_init`` of the model.
        cls_token: Class token of an encoder of single frames, from an image model: ``'copy'``, or
            ``'zero'``, as in scenic's ViViT, where only model 1 gets the image model's. Its
            position is copied in any case.

    Returns:
        Names of the model that got weights or zeros, names of the source that were not used, and
        names of the model that kept their weights.

    Raises:
        KeyError: If an option is unknown.
        FileNotFoundError: If there is no such file.
        UserError: If depth, heads, norms or the shape of a tensor differ, the source has rotary
            positions, but the model has none, or the file is not understood.
    """
    make = look_up(EMBEDS, embed, "embed")
    rule = model.position_init if positions is None else positions
    look_up(RESIZE_RULES, rule, "positions")
    copied = look_up(TEMPORAL, model.temporal_init if temporal is None else temporal, "temporal")
    zero_cls = look_up(CLS_TOKENS, cls_token, "cls_token")
    initial = _read(source)
    wanted = model.state_dict()
    weights = fit_parts(initial.state, wanted)
    is_timm = str(source).startswith(TIMM)
    hint = f"; arch={source!r} sets all that it needs" if is_timm else ""
    heads = next(vars(part)["num_heads"] for part in model.modules() if "num_heads" in vars(part))
    ours, theirs = _describe(wanted, heads), _describe(weights, initial.num_heads)
    for what, size in ours.items():
        if size != theirs[what] and None not in (size, theirs[what]):
            raise UserError(f"{what} of the model is {size}, of {source} {theirs[what]}{hint}")
    _check_untold(model, source, initial)
    stated = FORMULAS.get(initial.model, {}) | VIDEO_VITS.get(initial.scheme or "", {})
    _compare(model, source, stated | initial.settings)
    sublayers = {n: x for n, x in model.named_modules() if isinstance(x, AttentionSubLayer)}
    over_time = {name for name, sublayer in sublayers.items() if _is_over_time(sublayer)}
    copies: dict[str, str] = {}  # names in the source
    updates: State = {}
    for name, current in wanted.items():
        key = _source_name(name, weights, over_time, copied)
        if key is None or (make is None and name.startswith("embed.")):
            continue
        copies[name], value = key, weights[key]
        of_tubelets = name == "embed.proj.weight" and current.dim() == value.dim()
        if make and of_tubelets and value.shape[2] != current.shape[2]:
            # The sum over frames maps a static clip to the same embedding as its image.
            value = make(value.sum(dim=2, keepdim=True), current.shape[2])
        elif ".pos_embed." in name and not name.endswith(".cls"):
            if getattr(model.get_submodule(name.rpartition(".")[0]), "causal", False):
                value = value[:, : current.shape[1]]
            value = resize_positions(value, current.shape[1:4], rule)
        if value.shape != current.shape:
            shapes = tuple(current.shape), tuple(value.shape)
            raise UserError(f"{name} has shape {shapes[0]}, {key} of {source} {shapes[1]}{hint}")
        updates[name] = value
    is_of_frames = vars(model)["configs"][0].single_frames and _is_image(weights)
    if zero_cls and is_of_frames and CLS in copies:
        del copies[CLS]
        updates[CLS] = torch.zeros_like(wanted[CLS])
    updates |= neutral_values(copies, wanted)
    silent = [name for name in updates if ".pos_embed." in name and name not in copies]
    for name, part in sublayers.items():
        block, proj, fc = name.partition(".sublayers.")[0], f"{name}.attn.proj.", f"{name}.fc."
        last = fc if isinstance(part.fc, nn.Linear) else proj
        is_closed = part.gate is not None and f"{name}.gate" not in updates
        if f"{block}.norm.weight" not in copies or (f"{last}weight" in updates and not is_closed):
            continue
        silent.append(name)
        if last == proj:  # ``fc`` or the gate is zero already
            updates |= {n: torch.zeros_like(x) for n, x in wanted.items() if n.startswith(proj)}
    model.load_state_dict(updates, strict=False)
    others = [name for name in initial.state if not name.startswith(BACKBONE)]
    ignored = [*(n for n in weights if n not in copies.values()), *initial.ignored, *others]
    kept = [n for n in wanted if n not in updates]
    text = "%s from %s: %d of %d tensors\ncopied: %s\nadd zero at first: %s\nkept: %s\nnot used: %s"
    lists = (_groups(names) for names in (copies, silent, kept, ignored))
    logger.info(text, type(model).__name__, source, len(copies), len(wanted), *lists)
    if "mean" in initial.info:
        pixels = initial.info["mean"], initial.info["std"]
        logger.info("%s was trained on pixels with mean %s and std %s", source, *pixels)
    return list(updates), ignored, kept


def _read(source: str | Path) -> Conversion:
    row = row_of(source)
    project, _, name = str(row.address if row else source).partition(":")
    if project != "timm":
        return read_model(source)[1]
    model = create(name)
    result = from_timm(model.state_dict(), (1, *model.patch_embed.grid_size))
    result.rotary = result.untold = ""  # the model tells all
    set_settings(result, model)
    return result


def _check_untold(model: nn.Module, source: str | Path, initial: Conversion) -> None:
    """Refuse a source that has rotary positions if a model has none, and say what is in doubt."""
    config = vars(model)["configs"][0]
    act = MLPS.complete(config.mlp).get("act")
    if config.rope is not None or act == "quick_gelu":
        return
    way = f"arch='timm:NAME' with init_from={str(source)!r} sets them"
    if initial.rotary:
        raise UserError(
            f"{source}: {initial.rotary}, but the model has rope=None; {way}, or give rope"
        )
    if initial.untold:
        logger.warning(
            "%s: the weights do not tell %s, which %s is without; if they have these, %s",
            *(source, initial.untold, type(model).__name__, way),
        )


def _is_over_time(sublayer: AttentionSubLayer) -> bool:
    """Whether a token sees itself alone in a single frame."""
    return all(pattern.num_keys((1, 4, 4)) == 1 for pattern in sublayer.attn.patterns)


def _is_image(weights: Mapping[str, Tensor]) -> bool:
    """Whether weights are those of an image model: one encoder of patches of one frame."""
    kernel = weights.get("embed.proj.weight")
    is_of_frame = kernel is not None and kernel.shape[2] == 1
    return is_of_frame and not count_blocks(weights, "encoders.1.blocks.")


def _describe(state: Mapping[str, Tensor], num_heads: int | None) -> dict[str, object]:
    """What a model and its source must agree in; None if unknown, or without such a part."""
    return {
        "depth": count_blocks(state, "encoders.0.blocks."),
        "depth of the second encoder": count_blocks(state, "encoders.1.blocks.") or None,
        "number of heads": num_heads,
        # Weights of layer norms and RMS norms would pass for each other.
        "bias of norms": any("encoders" in n and n.endswith(".norm.bias") for n in state),
        "bias of fc_norm": "fc_norm.bias" in state if "fc_norm.weight" in state else None,
    }


def _compare(model: nn.Module, source: str | Path, settings: Mapping) -> None:
    """Warn of arguments without which a model computes other features than its source."""
    config = vars(model)["configs"][0]
    wrong: dict[int, list[str]] = {logging.WARNING: [], logging.INFO: []}
    for name, parts in COMPARED.items():
        actual = getattr(config, name)
        needed = settings.get(name, actual)
        complete = [parts.complete(x) if parts and x else x for x in (actual, needed)]
        # Learned positions are copied or made up for.
        if complete[0] == complete[1] or (name == "positions" and isinstance(needed, str)):
            continue
        # Equal to 5e-4, and timm has the exact one for weights that were trained with either.
        near = name == "mlp" and {mlp.get("act") for mlp in complete} == {"gelu", "gelu_tanh"}
        options = needed.items() if isinstance(needed, Mapping) else ()
        text = f"dict({', '.join(f'{key}={x!r}' for key, x in options)})" if options else None
        wrong[logging.INFO if near else logging.WARNING].append(f"{name}={text or repr(needed)}")
    for level, names in wrong.items():
        if names:
            what = type(model).__name__, source, ", ".join(names)
            logger.log(level, "%s computes other features than %s, which needs %s", *what)


def _source_name(
    name: str, weights: Mapping[str, Tensor], over_time: set[str], copied: tuple[str, ...]
) -> str | None:
    """Return the name in the source whose weights a name of the model gets, or None."""
    stem, _, axes = name.rpartition(".")
    block, _, inside = name.partition(".sublayers.")
    sublayer, _, part = inside.partition(".")
    options = [name]
    if ".pos_embed." in name:  # tables over space have different names
        options += [f"{stem}.{table}" for table in ("thw", "hw") if "hw" in axes]
    elif f"{block}.sublayers.{sublayer}" not in over_time or part.startswith(copied):
        options += [f"{block}.sublayers.{image}.{part}" for image in IMAGE_SUBLAYERS]
    return next((option for option in options if option in weights), None)


def _groups(names: Iterable[str]) -> str:
    """Names by module, of all blocks together, with the number of each."""
    modules = (re.sub(r"\.(weight|bias)$", "", name) for name in names)
    parts = (
        re.sub(r"(blocks\.)\d+(\.\w+)((?<=sublayers)\.\w+)?.*", r"\1*\2\3", m) for m in modules
    )
    return ", ".join(f"{part} ({n})" for part, n in Counter(parts).items()) or "nothing"
