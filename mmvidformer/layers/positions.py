"""Position tables: learned, resized to other grids, or of sines and cosines."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvidformer.errors import UserError
from mmvidformer.layers.resize import RESIZE_RULES, resize_positions
from mmvidformer.layers.sines import flat_sine_positions, sine_positions
from mmvidformer.layers.stream import StreamState
from mmvidformer.layers.tokens import Size, grid_size
from mmvidformer.lookup import Registry, look_up

logger = logging.getLogger("mmvidformer")


class Positions(nn.Module, ABC):
    """What others read of positions that are added to the tokens.

    Built with ``dim``, the token width D, ``size``, the grid (T, H, W), ``cls``, whether there is a
    class token, and its own options. A subclass implements ``forward``, which does not see the
    tokens: some may be left out, or stand for several.

    Attributes:
        tables: Axes of the grid that the positions tell apart, one entry for each sum of them.
        causal: Whether the model can run frame by frame; models set it.
    """

    tables: tuple[str, ...] = ("thw",)
    causal: bool = False

    @property
    def max_steps(self) -> int | None:
        """Number of tokens along time after which a stream ends; None: it does not."""
        return None

    @abstractmethod
    def forward(
        self, size: Size, like: Tensor, cls: Tensor | None = None, state: StreamState | None = None
    ) -> tuple[Sequence[Tensor], Tensor | None]:
        """Return what is added to the tokens of a grid, and the class token with its position.

        Args:
            size: Size (T, H, W) of the grid.
            like: A tensor (0, D) of the type and device of the tokens.
            cls: Class token, and registers after it, (1, P, D), or None.
            state: State of a stream that the grid is a part of, from frame ``state.steps`` on.

        Returns:
            Tensors that are added one after the other, (1, T, H, W, D) or 1 for some axes, of
            streams that were joined (B, T, H, W, D); and the class token and registers.
        """


class PositionEmbedding(Positions):
    """Position tables that are added to the tokens.

    Each table covers the grid axes in its name and is repeated along the others: ``('thw',)`` has a
    vector for every tubelet (ViViT), ``('hw', 't')`` is a sum of space and time (TimeSformer).
    Learned tables are resized for clips of another size, in the forward pass and when weights are
    loaded. Fixed ones are sines and cosines of the places (Vaswani et al. 2017, section 3.5), with
    an equal part of the width for each axis of a table. With ``fixed='flat'`` they are those of one
    number, ``n = (t H + h) W + w``, with sine and cosine in turn (VideoMAE), where H and W are
    those of ``size``; grids of another height or width get a resized table.

    In a causal model no position depends on the number of later frames: a clip takes the first rows
    of a learned time table, never stretched ones. A longer one is an error, or has ``hold_last``.

    Args:
        dim: Token width D.
        size: Grid (T, H, W) of the tables.
        tables: Names of the tables: ``'t'``, ``'hw'`` or ``'thw'``.
        cls: Whether to add a vector for the class token, if there are tables.
        rule: Rule by which learned tables are resized (``layers.resize``).
        fixed: Whether the tables are fixed instead of learned, or ``'flat'``; the vector of the
            class token is learned in any case.
        hold_last: Whether all frames of a causal model after the last row of a learned time table
            have that row (StreamFormer), so that streams do not end.

    Attributes:
        causal: Whether the model is causal. Models that can run frame by frame set it; it is a
            UserError to unset it with ``hold_last``, which has no effect in others.

    Raises:
        KeyError: If the name of a table, or the rule, is unknown.
        UserError: If ``fixed`` is none of these, or ``'flat'`` for other tables than ``'thw'``, or
            ``rule`` or ``hold_last`` is set without a table that it is for.
    """

    def __init__(
        self,
        dim: int,
        size: Size,
        tables: Sequence[str] = ("thw",),
        cls: bool = False,
        rule: str = "linear",
        fixed: bool | str = False,
        hold_last: bool = False,
    ) -> None:
        super().__init__()
        self.tables, self.size, self.rule, self.fixed = tuple(tables), size, rule, fixed
        self._causal, self.hold_last = False, hold_last
        look_up(RESIZE_RULES, rule, "resize rule")
        if fixed not in (False, True, "flat") or (fixed == "flat" and self.tables != ("thw",)):
            raise UserError(
                f"fixed must be False, True or, for positions 'joint', 'flat'; got {fixed!r}"
            )
        if rule != "linear" and (fixed is True or not self.tables):
            raise UserError(
                f"rule={rule!r} has no effect without tables that are resized; leave it out"
            )
        if hold_last and (fixed or not any("t" in name for name in self.tables)):
            raise UserError(
                "hold_last=True needs a learned time table, of positions 'time', 'space_time' or "
                "'joint'"
            )
        for name in self.tables:
            look_up({"t", "hw", "thw"}, name, "position table")
            if not fixed:
                table = nn.Parameter(torch.zeros(1, *_table_size(name, size), dim))
                self.register_parameter(name, table)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim)) if cls and self.tables else None

    @property
    def causal(self) -> bool:
        """Whether the model is causal."""
        return self._causal

    @causal.setter
    def causal(self, causal: bool) -> None:
        if self.hold_last and not causal:
            raise UserError(
                "hold_last=True has no effect in a model that cannot run frame by frame; leave it "
                "out"
            )
        self._causal = causal

    def forward(
        self, size: Size, like: Tensor, cls: Tensor | None = None, state: StreamState | None = None
    ) -> tuple[list[Tensor], Tensor | None]:
        """Return the tables for a grid, and the class token with its position; see ``Positions``.

        Raises:
            UserError: If a clip or stream of a causal model is longer than a learned time table.
        """
        tables = []
        start: Tensor | int = 0 if state is None else state.steps
        for name in self.tables:
            tables.append(self._table(name, size, like, start if "t" in name else 0))
        if cls is not None and self.cls is not None:
            registers = cls.shape[1] - 1  # which have no position
            cls = cls + (F.pad(self.cls, (0, 0, 0, registers)) if registers else self.cls)
        return tables, cls

    def _table(self, name: str, size: Size, like: Tensor, start: Tensor | int) -> Tensor:
        """Return a table for a grid (T, H, W), of which frame ``start`` is the first."""
        size = _table_size(name, size)
        if self.fixed == "flat":
            table = flat_sine_positions((size[0], *self.size[1:]), like, start)
            return self._resized(table, size)
        if self.fixed:
            return sine_positions(name, size, like, start)
        if self.causal:
            return self._first_rows(name, size, start)
        return self._resized(getattr(self, name), size)

    def _resized(self, table: Tensor, size: Size) -> Tensor:
        return table if grid_size(table) == size else resize_positions(table, size, self.rule)

    def _first_rows(self, name: str, size: Size, start: Tensor | int) -> Tensor:
        """Return the rows of a learned table, never stretched, for frames from ``start`` on."""
        table, frames = getattr(self, name), size[0]
        end = table.shape[1]
        # What is compiled fails where the rows are taken.
        if not self.hold_last and not torch.compiler.is_compiling():
            stop = frames + int(start.max() if isinstance(start, Tensor) else start)
            if stop > end:
                raise UserError(
                    f"the learned position table {name!r} of a causal model ends after {end} "
                    f"steps, got {stop}; increase clip_len, or use hold_last=True, fixed=True, or "
                    "positions 'none' or 'space'"
                )
        table = self._resized(table, (end, *size[1:]))
        if not isinstance(start, Tensor) and frames <= end:
            return table[:, :frames]
        rows = (start + torch.arange(frames, device=table.device)).flatten()
        taken = table[0].index_select(0, rows.clamp_max(end - 1) if self.hold_last else rows)
        return taken.unflatten(0, (-1, frames))

    @property
    def max_steps(self) -> int | None:
        """Number of tokens along time after which a learned table ends; None: there is no end."""
        if self.fixed or self.hold_last or not any("t" in name for name in self.tables):
            return None
        return self.size[0]

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args) -> None:
        for name in self.tables:
            loaded = state_dict.get(prefix + name)
            table = getattr(self, name, None)
            if table is None or loaded is None or loaded.dim() != 5 or loaded.shape == table.shape:
                continue
            size, loaded_size, rule = grid_size(table), grid_size(loaded), self.rule
            if self.causal:
                if loaded_size[0] < size[0]:
                    raise UserError(
                        f"position table {prefix}{name} ends after {loaded_size[0]} steps, but "
                        f"clip_len of the causal model is {size[0]} steps; use the clip_len of the "
                        "checkpoint, or start from it by init_from"
                    )
                loaded, rule = loaded[:, : size[0]], f"first rows, {rule}"
            state_dict[prefix + name] = resize_positions(loaded, size, self.rule)
            text = f"size {loaded_size} was resized to {size} ({rule})"
            logger.warning("position table %s of %s", prefix + name, text)
        super()._load_from_state_dict(state_dict, prefix, *args)


TABLES = dict(none=(), space=("hw",), time=("t",), space_time=("hw", "t"), joint=("thw",))
POSITIONS: Registry[Positions] = Registry(
    "positions",
    {name: partial(PositionEmbedding, tables=row) for name, row in TABLES.items()},
    Positions,
)


def _table_size(name: str, size: Size) -> Size:
    t, h, w = (n if axis in name else 1 for axis, n in zip("thw", size, strict=True))
    return t, h, w
