"""Parts of a composed video transformer: sizes, and an encoder from its options."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from inspect import signature
from typing import Any

import torch

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

ARCHS: dict[str, dict[str, Any]] = {
    "s": dict(embed_dims=384, depth=12, num_heads=6),
    "b": dict(embed_dims=768, depth=12, num_heads=12),
    "l": dict(embed_dims=1024, depth=24, num_heads=16),
    "h": dict(embed_dims=1280, depth=32, num_heads=16),
}

POSITIONS: dict[str, tuple[str, ...]] = {
    "none": (),
    "space": ("hw",),
    "time": ("t",),
    "space_time": ("hw", "t"),
    "joint": ("thw",),
}

Block = Sequence[SubLayer | Mapping]
# A grid that stands for any: axes of this size, or 1 where there are none.
ANY: Grid = (4, 4, 4)
_SHOWN = ("scheme", "reverse", "parallel", "shifts", "block", "encoders")
_SUBLAYER = [field.name for field in fields(SubLayer)]


def arch_sizes(
    arch: str | Mapping[str, Any], table: Mapping[str, dict] = ARCHS
) -> Mapping[str, Any]:
    """Return ``embed_dims``, ``depth``, ``num_heads`` and ``mlp_ratio`` of an architecture.

    Args:
        arch: A name in the table, or a dictionary of the sizes; ``mlp_ratio`` is 4 by default.
        table: Sizes by name.

    Raises:
        KeyError: If the name is unknown.
        ValueError: If the dictionary lacks a size or has an unknown key.
    """
    given = look_up(table, arch, "arch") if isinstance(arch, str) else arch
    sizes = {"mlp_ratio": 4.0, **given}
    if sizes.keys() != {"mlp_ratio", *ARCHS["b"]}:
        raise ValueError(
            f"arch must have embed_dims, depth, num_heads and optionally mlp_ratio, got {given}"
        )
    return sizes


def fill(kind: Any, given: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Complete the options of a preset with those that it does not set itself.

    Args:
        kind: Class of the preset; ``kind.preset(given, **own)`` are the options that it sets.
        given: Options of ``VideoTransformer`` that the user gave; they replace the preset's.
        own: Arguments of the preset alone.

    Raises:
        ValueError: If one of the own arguments has no effect on the result.
    """
    found = {**kind.preset(given, **own), **given}
    for name, value in own.items():
        default = signature(kind).parameters[name].default
        if value != default and found == {**kind.preset(given, **own | {name: default}), **given}:
            others = {**own, **given}
            rest = [f"{key}={others[key]!r}" for key in others if key != name and key in _SHOWN]
            raise ValueError(
                f"{name}={value!r} of {kind.__name__} has no effect with {', '.join(rest)}; "
                f"leave it out or set {name}={default!r}"
            )
    return found


def build_encoder(row: Mapping, in_dim: int, grid: Grid, axes: Grid) -> Encoder:
    """Build an encoder.

    Args:
        row: Its options.
        in_dim: Width of its input.
        grid: Grid (T, H, W) of its input, for position tables.
        axes: Size of each axis, ``ANY`` or 1 if the input has no such axis.
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
        with_cp=row["with_cp"],
        norm=row["norm"],
        block={
            "attn_drop": row["attn_drop_rate"],
            "drop_path_rule": row["drop_path_rule"],
            **{key: row[key] for key in ("mlp_ratio", "act", "depthwise", "parallel")},
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
    roles = [
        [part.cls for part in block.modules() if isinstance(part, Attention)]
        for block in encoder.blocks
    ]
    if all(role == "skip" for block in roles for role in block):
        raise ValueError("cls of one sub-layer at least must be 'mean' or 'global', got 'skip'")
    last = roles[-1] if encoder.blocks[-1].parallel else roles[-1][-1:]
    if not encoder.passes_grid and "skip" in last:
        raise ValueError(
            "cls of the last sub-layer (of all, if they are parallel) must be 'mean' or 'global', "
            "or the output, which is the class token, would not depend on it; got 'skip'"
        )
