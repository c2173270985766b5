"""Parts of a composed video transformer: sizes, and an encoder from its options."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import nn

from mmvidformer.layers import (
    KERNELS,
    Attention,
    Encoder,
    PositionEmbedding,
    SubLayer,
    get_pattern,
)
from mmvidformer.layers.patterns import Grid
from mmvidformer.lookup import look_up

POSITIONS: dict[str, tuple[str, ...]] = {
    "none": (),
    "space": ("hw",),
    "time": ("t",),
    "space_time": ("hw", "t"),
    "joint": ("thw",),
}

# Stochastic depth: whether kept updates are rescaled, and whether each attention group has a draw.
DROP_PATHS = {
    "clip": dict(drop_path_rescale=True, drop_path_per_group=False),
    "group": dict(drop_path_rescale=True, drop_path_per_group=True),
    "unscaled": dict(drop_path_rescale=False, drop_path_per_group=False),
}


@dataclass(frozen=True)
class Arch:
    """Size of a transformer.

    Args:
        embed_dims: Token width D.
        depth: Number of blocks.
        num_heads: Number of attention heads.
        mlp_ratio: Hidden width of the MLPs over D.
    """

    embed_dims: int
    depth: int
    num_heads: int
    mlp_ratio: float = 4.0

    @classmethod
    def of(cls, arch: "str | Mapping | Arch", table: Mapping[str, "Arch"]) -> "Arch":
        """Look up an architecture by its name, or make one from a dictionary.

        Raises:
            KeyError: If the name is unknown.
            ValueError: If the dictionary lacks a size or has an unknown key.
        """
        if isinstance(arch, Arch):
            return arch
        if isinstance(arch, str):
            return look_up(table, arch, "arch")
        try:
            return cls(**arch)
        except TypeError:
            raise ValueError(
                "arch must have embed_dims, depth, num_heads and optionally mlp_ratio, "
                f"got {dict(arch)}"
            ) from None


ARCHS = {
    "s": Arch(384, 12, 6),
    "b": Arch(768, 12, 12),
    "l": Arch(1024, 24, 16),
    "h": Arch(1280, 32, 16),
}

Block = Sequence[SubLayer | Mapping]
# A grid that stands for any: axes of this size, or 1 where there are none.
ANY: Grid = (4, 4, 4)
_SUBLAYER = [field.name for field in fields(SubLayer)]


def build_encoder(
    row: Mapping, in_dim: int, grid: Grid, axes: Grid, drop_path: Mapping, with_cp: bool
) -> Encoder:
    """Build an encoder.

    Args:
        row: Its options.
        in_dim: Width of its input.
        grid: Grid (T, H, W) of its input, for position tables.
        axes: Size of each axis, ``ANY`` or 1 if the input has no such axis.
        drop_path: Rules of stochastic depth.
        with_cp: Whether to use activation checkpointing.
    """
    together = row["frames"] == "together"
    if not together:
        grid, axes = (1, *grid[1:]), (1, *axes[1:])
    options = row["positions"]
    options = {"type": options} if isinstance(options, str) else dict(options)
    tables = look_up(POSITIONS, options.pop("type", "joint"), "positions")
    tables = [name for name in tables if together or name != "t"]
    has_cls = row["cls"] is not None
    if has_cls and row["depthwise"]:
        raise ValueError("depthwise needs a grid of tokens alone: cls must be None, got a token")
    blocks = row["block"]
    if all(isinstance(one, SubLayer | Mapping) for one in blocks):
        blocks = [blocks]
    return Encoder(
        row["embed_dims"],
        row["depth"],
        row["num_heads"],
        [[_sublayer(one, row["cls"], grid, axes) for one in block] for block in blocks],
        PositionEmbedding(row["embed_dims"], grid, tables, cls=has_cls and bool(tables), **options),
        cls=has_cls,
        frames=row["frames"],
        in_dim=in_dim,
        drop=row["drop_rate"],
        drop_path=row["drop_path_rate"],
        with_cp=with_cp,
        block={
            "mlp_ratio": row["mlp_ratio"],
            "act": row["act"],
            "depthwise": row["depthwise"],
            "attn_drop": row["attn_drop_rate"],
            "parallel": row["parallel"],
            **drop_path,
        },
    )


def _sublayer(row: SubLayer | Mapping, cls: str | None, grid: Grid, axes: Grid) -> SubLayer:
    """Complete a sub-layer, and check that its tokens see others."""
    if not isinstance(row, SubLayer):
        for key in row:
            look_up(_SUBLAYER, key, "option of a sub-layer")
        row = SubLayer(**{"cls": cls or "skip", **row})
    for pattern in row.patterns:
        token = torch.zeros(1, *axes, 1, 1, device="meta")
        if get_pattern(pattern).keys(token).shape[-2] == 1:
            seen = "".join(axis for axis, size in zip("thw", axes, strict=True) if size > 1)
            raise ValueError(
                f"with pattern {pattern!r} each token sees itself alone, because the encoder's "
                f"tokens differ in {', '.join(seen)} only"
            )
    options = {"type": row.kernel} if isinstance(row.kernel, str) else dict(row.kernel)
    kernel = look_up(KERNELS, str(options.get("type")), "attention kernel")
    if getattr(kernel, "needs_length", False):
        options.setdefault("length", get_pattern(row.patterns[0]).num_tokens(grid))
    return replace(row, kernel=options)


def check_cls(encoder: Encoder) -> None:
    """Check that the class token is read, by later tokens or as the output.

    Raises:
        ValueError: If it is not.
    """
    blocks = [(block.parallel, _roles(block)) for block in encoder.blocks]
    if all(role == "skip" for _, roles in blocks for role in roles):
        raise ValueError("cls of one sub-layer at least must be 'mean' or 'global', got 'skip'")
    parallel, roles = blocks[-1]
    if not encoder.passes_grid and (roles[-1] == "skip" or (parallel and "skip" in roles)):
        raise ValueError(
            "cls of the last sub-layer (of all, if they are parallel) must be 'mean' or 'global', "
            "or the output, which is the class token, would not depend on it; got 'skip'"
        )


def _roles(block: nn.Module) -> list[str]:
    return [part.cls for part in block.modules() if isinstance(part, Attention)]
