"""Receptive field: the input tokens that a token depends on, block by block.

A token has seen an input token if its gradient with respect to that token is not zero. So patterns,
masks, class tokens, shifts, convolutions and encoders in a row need no cases of their own.
"""

import copy
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import torch
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor, nn

from mmvidformer.errors import UserError
from mmvidformer.layers.tokens import Size, Tokens
from mmvidformer.models.fast.recompute import recompute
from mmvidformer.models.fast.run_lengths import without_runs
from mmvidformer.sinks.figures import without_formulas

COLORS = ["#e4e4e4", "#2f6fab"]  # not seen, seen; old matplotlib reads a pair as color and alpha
MARK = "#f28c28"  # the token itself


class Field(NamedTuple):
    """What a token has seen after a block.

    Attributes:
        block: Name of the block.
        tokens: Whether it has seen each input token (T, H, W).
        cls: Whether it has seen the class token of its encoder; None if there is none.
    """

    block: str
    tokens: Tensor
    cls: bool | None


def receptive_field(
    backbone: nn.Module, grid: Size, token: Size | None = None, cls: bool = False
) -> list[Field]:
    """Compute what a token has seen after each block.

    Weights that start at zero would hide what can be learned, so noise is added to those of a copy.

    Args:
        backbone: A ``VideoTransformer``, such as a preset.
        grid: Grid (T, H, W) of the input tokens.
        token: Frame, row and column of the token; default: the middle. After encoders that pool or
            average, it is the token that is left.
        cls: Whether to follow the class token instead, that of the frame if each has its own.

    Raises:
        UserError: If the backbone has no encoders, the token is outside the grid, or there is no
            class token.
    """
    if not hasattr(backbone, "encoders"):
        raise UserError(f"{type(backbone).__name__} has no encoders, as a VideoTransformer has")
    place = token or tuple(n // 2 for n in grid)
    if not all(0 <= x < n for x, n in zip(place, grid, strict=True)):
        raise UserError(f"the token must be inside the grid {tuple(grid)}, got {place}")
    if cls and backbone.encoders[0].cls_token is None:
        raise UserError(f"{type(backbone).__name__} has no class token to follow")
    random = torch.Generator().manual_seed(0)
    model = noisy_copy(without_runs(backbone), random)
    embed = model.embed
    width = model.configs[0].sizes["embed_dims"]
    inputs = torch.randn(1, *grid, width, generator=random, dtype=torch.float64)
    inputs.requires_grad_()
    embed.register_forward_hook(lambda *_: inputs)
    sizes = zip(grid, embed.stride, embed.tubelet, embed.padding, strict=True)
    pixels = [(n - 1) * stride + size - 2 * padding for n, stride, size, padding in sizes]
    outputs: list[Tokens] = []
    model.forward_features(inputs.new_zeros(1, 3, *pixels), outputs)
    fields = []
    for (name, cls_start), tokens in zip(list_blocks(model), outputs, strict=True):
        prefix = tokens.prefix  # (B, P, D), of B frames or one clip
        if cls and prefix.shape[1]:
            followed = prefix[min(place[0], len(prefix) - 1)]
        else:
            frames = tokens.places.flatten(0, 1)  # frames as clips of their own, or of one clip
            t, h, w = (min(x, n - 1) for x, n in zip(place, frames.shape[:3], strict=True))
            followed = frames[t, h, w]
        sources = [inputs] if cls_start is None else [inputs, cls_start]
        grads = torch.autograd.grad(
            followed.square().sum(), sources, retain_graph=True, materialize_grads=True
        )
        seen_tokens = grads[0][0].any(-1)  # (T, H, W)
        seen_cls = None if cls_start is None else bool(grads[1].any())
        fields.append(Field(name, seen_tokens, seen_cls))
    return fields


def noisy_copy(backbone: nn.Module, random: torch.Generator) -> nn.Module:
    """Copy a backbone in double precision, and add noise to its weights."""
    model = copy.deepcopy(backbone).double().eval().requires_grad_()
    recompute(model, False)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.02 * torch.randn(weight.shape, generator=random, dtype=weight.dtype)
    return model


def list_blocks(model: nn.Module) -> list[tuple[str, Tensor | None]]:
    """Return the name of each block, and the initial class token of its encoder."""
    blocks = []
    for i, encoder in enumerate(model.encoders, start=1):
        for j in range(1, len(encoder.blocks) + 1):
            name = f"block {j}" if len(model.encoders) == 1 else f"encoder {i}, block {j}"
            blocks.append((name, encoder.cls_token))
    return blocks


def draw_receptive_field(fields: Sequence[Field], token: Size | None, title: str = "") -> Figure:
    """Draw what a token has seen: a row for each block, a column for each frame.

    Args:
        fields: What it has seen after each block. Blocks without a change share a row.
        token: Frame, row and column of the token, which is marked; None for a class token.
        title: Title.
    """
    groups = [list(same) for _, same in groupby(fields, lambda f: (f.cls, f.tokens.tolist()))]
    frames, height, width = fields[0].tokens.shape
    with_cls = any(field.cls is not None for field in fields)
    figure = Figure(
        figsize=(1.6 + 1.1 * (frames + with_cls), 0.8 + 1.2 * len(groups) * height / width),
        dpi=110,
        layout="constrained",
    )
    figure.suptitle(title, fontsize="medium")
    axes = figure.subplots(len(groups), frames + with_cls, squeeze=False)
    for row, group in zip(axes, groups, strict=True):
        field = group[0]
        cls = torch.full((1, 1), bool(field.cls))
        for t, (ax, seen) in enumerate(zip(row, [*field.tokens, cls], strict=False)):
            ax.set(xticks=[], yticks=[], aspect="equal", frame_on=False)
            if t == frames and field.cls is None:
                continue
            ax.pcolormesh(seen, cmap=ListedColormap(COLORS), vmin=0, vmax=1, ec="w", lw=1)
            ax.invert_yaxis()
            if t == (frames if token is None else token[0]):
                corner = (0, 0) if token is None else (token[2], token[1])
                ax.add_patch(Rectangle(corner, 1, 1, fill=False, ec=MARK, lw=3))
        blocks = field.block if len(group) == 1 else f"{field.block}\nto {group[-1].block}"
        share = f"{field.tokens.double().mean():.0%} seen"
        row[0].set_ylabel(f"{blocks}\n{share}", rotation=0, ha="right", va="center")
        if with_cls:
            row[-1].set(xlim=(-0.5, 1.5), ylim=(1.5, -0.5))
    for t, ax in enumerate(axes[0]):
        ax.set_title(f"frame {t}" if t < frames else "class token", fontsize="medium")
    return without_formulas(figure)
