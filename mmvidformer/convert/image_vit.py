"""Start a video model from an image model, or from another video model of ours.

Works on names only, so that any model with our layout of names can be started (``embed``,
``encoder``, and ``temporal_encoder`` where there is one).
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from mmvidformer.convert.describe import count_blocks
from mmvidformer.convert.detect import read_model
from mmvidformer.convert.keymap import Conversion, State
from mmvidformer.convert.timm_vit import from_timm
from mmvidformer.layers.resize import resize_positions

logger = logging.getLogger("mmvidformer")


def _inflate(kernel: Tensor, frames: int) -> Tensor:
    return kernel.repeat(1, 1, frames, 1, 1) / frames


def _central_frame(kernel: Tensor, frames: int) -> Tensor:
    out = kernel.new_zeros(*kernel.shape[:2], frames, *kernel.shape[3:])
    out[:, :, frames // 2] = kernel[:, :, 0]
    return out


# Paper section 3.4, eqs. 8 and 9: a kernel (D, C, 1, h, w) for tubelets of several frames.
EMBEDS: dict[str, Callable[[Tensor, int], Tensor] | None] = {
    "random": None,
    "inflate": _inflate,
    "central_frame": _central_frame,
}
# Rule of ``layers.resize`` for each way to take positions over; all repeat a table of one frame.
POSITIONS: dict[str, str | None] = {"random": None, "tile": "linear", "bicubic": "bicubic"}
# Parts of a sublayer over time that get the weights of the image attention.
TEMPORAL: dict[str, tuple[str, ...]] = {
    "zero": (),
    "copy": ("attn.",),
    "copy_with_norm": ("attn.", "norm."),
}
# Which sublayer of the source stands for its image attention, the first one it has.
IMAGE_SUBLAYERS = ("joint", "space", "time_space")


@dataclass(frozen=True)
class ImageInit:
    """What became of the names.

    Args:
        mapped: Names of the model that got weights.
        ignored: Names of the source that were not used.
        random: Names of the model that were left as they were.
    """

    mapped: tuple[str, ...]
    ignored: tuple[str, ...]
    random: tuple[str, ...]

    def __str__(self) -> str:
        """Say it in three lines."""
        return (
            f"{len(self.mapped)} tensors mapped\n"
            f"{len(self.ignored)} of the source ignored: {', '.join(self.ignored) or 'none'}\n"
            f"{len(self.random)} of the model left as they were: {', '.join(self.random) or 'none'}"
        )


def init_from_image(
    model: nn.Module,
    source: str | Path,
    embed: str = "central_frame",
    positions: str = "tile",
    temporal: str = "zero",
) -> ImageInit:
    """Start a model from an image model, in place, and log what was mapped.

    Args:
        model: A backbone with our names.
        source: ``'timm:NAME'``, or a file of any format that ``convert.detect`` knows: a timm or
            Google image ViT, or a checkpoint of ours of another scheme, clip length, resolution
            or number of classes.
        embed: Kernel of tubelets of several frames (paper section 3.4). ``'central_frame'``: the
            image kernel at frame ``t // 2``, zeros elsewhere; ``'inflate'``: the image kernel
            over ``t`` at each frame; ``'random'``: kernel and bias stay. A source with the same
            ``t`` is copied, one with another is first summed over its frames.
        positions: ``'tile'``: a table of one frame is repeated over time, one of another size
            resized linearly; ``'bicubic'``: likewise with timm's antialiased bicubic in space;
            ``'random'``: the tables stay.
        temporal: Attention over time that the source has not. ``'zero'``: it stays, which for
            ViViT's model 3 means a zero output projection; ``'copy'``: it gets the weights of
            the image attention, and its layer norm stays (scenic's ViViT);
            ``'copy_with_norm'``: its layer norm is copied too (the official TimeSformer).

    Returns:
        The names that were mapped, ignored and left as they were.

    Raises:
        KeyError: If an option is unknown.
        FileNotFoundError: If there is no such file.
        ValueError: If width, depth, heads or patch size differ, or the file is not understood.
    """
    _check(embed, EMBEDS, "embed")
    _check(positions, POSITIONS, "positions")
    _check(temporal, TEMPORAL, "temporal")
    found = _read(source)
    weights = {
        name.removeprefix("backbone."): value
        for name, value in found.state.items()
        if name.startswith("backbone.")
    }
    wanted = model.state_dict()
    _check_sizes(model, wanted, weights, found.num_heads, source)

    used: set[str] = set()
    updates: State = {}
    for name, own in wanted.items():
        key = _source_name(name, weights, temporal)
        if key is None:
            continue
        value = weights[key]
        if name.startswith("embed."):
            value = _embedding(name, value, own, weights, embed)
        elif ".pos_embed." in name and not name.endswith(".cls"):
            rule = POSITIONS[positions]
            value = None if rule is None else resize_positions(value, own.shape[1:4], rule)
        elif name.endswith(".pos_embed.cls") and POSITIONS[positions] is None:
            value = None
        if value is None:
            continue
        if value.shape != own.shape:
            raise ValueError(
                f"{name} has shape {tuple(own.shape)}, {key} of {source} {tuple(value.shape)}"
            )
        updates[name] = value
        used.add(key)
    model.load_state_dict(updates, strict=False)
    summary = ImageInit(
        tuple(updates),
        (*(n for n in weights if n not in used), *_others(found)),
        tuple(n for n in wanted if n not in updates),
    )
    logger.info("initialised %s from %s: %s", type(model).__name__, source, summary)
    return summary


def _check(value: str, known: Mapping | tuple, what: str) -> None:
    if value not in known:
        raise KeyError(f"no way {value!r} for {what}; known are {sorted(known)}")


def _read(source: str | Path) -> Conversion:
    kind, _, name = str(source).partition(":")
    if kind != "timm":
        return read_model(source)[1]
    import timm  # only this source needs it, and it is slow to import

    model = timm.create_model(name, pretrained=True, num_classes=0)
    result = from_timm(model.state_dict())
    result.num_heads = model.blocks[0].attn.num_heads
    return result


def _others(found: Conversion) -> list[str]:
    return [*found.ignored, *(n for n in found.state if not n.startswith("backbone."))]


def _source_name(name: str, weights: Mapping[str, Tensor], temporal: str) -> str | None:
    """Name in the source that a name of the model takes its weights from, or None."""
    if name in weights:
        return name
    if ".pos_embed." in name:  # a table over space, whatever it is called
        stem, _, axes = name.rpartition(".")
        options = [f"{stem}.{table}" for table in ("thw", "hw")] if "hw" in axes else []
        return next((option for option in options if option in weights), None)
    head, _, rest = name.partition(".sublayers.")
    sublayer, _, part = rest.partition(".")
    if sublayer == "time" and not part.startswith(TEMPORAL[temporal]):
        return None
    options = [f"{head}.sublayers.{image}.{part}" for image in IMAGE_SUBLAYERS]
    return next((option for option in options if option in weights), None)


def _embedding(
    name: str, value: Tensor, own: Tensor, weights: Mapping[str, Tensor], embed: str
) -> Tensor | None:
    make = EMBEDS[embed]
    if make is None:
        return None
    if name != "embed.proj.weight" or value.shape[2] == own.shape[2]:
        return value
    # Summed over its frames a kernel sees a static clip as the image that it shows.
    return make(value.sum(dim=2, keepdim=True), own.shape[2])


def _check_sizes(
    model: nn.Module,
    wanted: Mapping[str, Tensor],
    weights: Mapping[str, Tensor],
    num_heads: int | None,
    source: str | Path,
) -> None:
    pairs = {"depth": (count_blocks(wanted, "encoder"), count_blocks(weights, "encoder"))}
    temporal = count_blocks(weights, "temporal_encoder")
    if temporal and count_blocks(wanted, "temporal_encoder"):
        pairs["temporal depth"] = (count_blocks(wanted, "temporal_encoder"), temporal)
    for what, key, axes in (
        ("width", "encoder.norm.weight", slice(0, 1)),
        ("patch size", "embed.proj.weight", slice(3, 5)),
        ("hidden width of the MLP", "encoder.blocks.0.mlp.fc1.weight", slice(0, 1)),
    ):
        pairs[what] = tuple(tuple(side[key].shape[axes]) for side in (wanted, weights))
    if num_heads is not None:
        own = next(m.num_heads for m in model.modules() if hasattr(m, "num_heads"))
        pairs["number of heads"] = (own, num_heads)
    for what, (own, other) in pairs.items():
        if own != other:
            raise ValueError(f"{what} of the model is {own}, of {source} {other}")
