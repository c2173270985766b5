"""From pixels to a grid of tokens, and where each token is."""

import logging
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from mmvidformer.layers.resize import resize_positions

logger = logging.getLogger("mmvidformer")


class TubeletEmbedding(nn.Module):
    """Cut a clip into tubelets and project each to a token.

    ViViT section 3.2; with ``tubelet[0] == 1`` it is the patch embedding of single frames that
    ViT, TimeSformer and ViViT's uniform frame sampling use. With a stride smaller than the tubelet
    the tubelets overlap (the stem of the official code of feature fixation). What does not fill a
    tubelet at the end of an axis is left out, as by a convolution.

    Args:
        dim: Token width D.
        tubelet: Frames, rows and columns of a tubelet.
        in_channels: Channels C of the clip.
        stride: Frames, rows and columns between tubelets. Default: the tubelet, which makes them
            lie side by side.
        padding: Frames, rows and columns of zeros around the clip.
        norm: A layer norm on the tokens, of epsilon 1e-5.
    """

    def __init__(
        self,
        dim: int,
        tubelet: tuple[int, int, int] = (2, 16, 16),
        in_channels: int = 3,
        stride: tuple[int, int, int] | None = None,
        padding: tuple[int, int, int] = (0, 0, 0),
        norm: bool = False,
    ) -> None:
        super().__init__()
        self.tubelet = tuple(tubelet)
        self.stride = self.tubelet if stride is None else tuple(stride)
        self.padding = tuple(padding)
        self.proj = nn.Conv3d(in_channels, dim, self.tubelet, self.stride, self.padding)
        self.norm = nn.LayerNorm(dim) if norm else nn.Identity()
        self.apart = self.stride == self.tubelet and not any(self.padding)

    def grid(self, size: Sequence[int]) -> tuple[int, int, int]:
        """Grid (T, H, W) of the tokens of a clip of (T', H', W')."""
        axes = zip(size, self.padding, self.tubelet, self.stride, strict=True)
        return tuple((n + 2 * p - k) // s + 1 for n, p, k, s in axes)

    def forward(self, clip: Tensor) -> Tensor:
        """Embed a clip.

        Args:
            clip: Pixels (B, C, T', H', W').

        Returns:
            Tokens (B, T, H, W, D).

        Raises:
            ValueError: If the clip has not five axes, other channels, or is smaller than a
                tubelet.
        """
        if clip.dim() != 5 or clip.shape[1] != self.proj.in_channels:
            raise ValueError(
                f"a clip has shape (B, {self.proj.in_channels}, T, H, W), got {tuple(clip.shape)}"
            )
        if min(self.grid(clip.shape[2:])) < 1:
            raise ValueError(
                f"a clip of (T, H, W) {tuple(clip.shape[2:])} is smaller than one tubelet "
                f"{self.tubelet}"
            )
        return self.norm(self._product(clip) if self.apart else self._convolution(clip))

    def _product(self, clip: Tensor) -> Tensor:
        # The convolution of tubelets side by side; tokens have the width last without a copy.
        t, h, w = self.tubelet
        size = self.grid(clip.shape[2:])
        clip = clip[:, :, : size[0] * t, : size[1] * h, : size[2] * w]
        pixels = rearrange(clip, "b c (t i) (h j) (w k) -> b t h w (c i j k)", i=t, j=h, k=w)
        return F.linear(pixels, self.proj.weight.flatten(1), self.proj.bias)

    def _convolution(self, clip: Tensor) -> Tensor:
        return self.proj(clip).permute(0, 2, 3, 4, 1)


class PositionEmbedding(nn.Module):
    """Learned positions that are added to the tokens.

    Each table covers the grid axes of its name and is repeated along the others: ``('thw',)``
    has a vector for every tubelet (ViViT), ``('hw', 't')`` is a sum of space and time
    (TimeSformer). A clip of another size gets resized tables, in the forward pass as well as
    when weights are loaded.

    Args:
        dim: Token width D.
        size: Grid (T, H, W) that the tables are made for.
        tables: Names of the tables.
        cls: Also keep a vector for the class token.
        rule: How tables are resized (``layers.resize``).

    Raises:
        ValueError: If a table's name is not made of the letters t, h, w in this order.
    """

    def __init__(
        self,
        dim: int,
        size: tuple[int, int, int],
        tables: Sequence[str] = ("thw",),
        cls: bool = False,
        rule: str = "linear",
    ) -> None:
        super().__init__()
        self.tables = tuple(tables)
        self.rule = rule
        for name in self.tables:
            if not name or name != "".join(axis for axis in "thw" if axis in name):
                raise ValueError(f"a position table is named by t, h, w in order, got {name!r}")
            shape = [n if axis in name else 1 for axis, n in zip("thw", size, strict=True)]
            self.register_parameter(name, nn.Parameter(torch.zeros(1, *shape, dim)))
        self.cls = nn.Parameter(torch.zeros(1, 1, dim)) if cls else None

    def forward(self, grid: Tensor, cls: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Add positions to grid (B, T, H, W, D) and class token (B, 1, D)."""
        for name in self.tables:
            size = [
                n if axis in name else 1 for axis, n in zip("thw", grid.shape[1:4], strict=True)
            ]
            grid = grid + resize_positions(getattr(self, name), size, self.rule)
        if cls is not None and self.cls is not None:
            cls = cls + self.cls
        return grid, cls

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args) -> None:
        for name in self.tables:
            loaded = state_dict.get(prefix + name)
            own = getattr(self, name)
            if loaded is None or loaded.dim() != 5 or loaded.shape == own.shape:
                continue
            size = tuple(own.shape[1:4])
            state_dict[prefix + name] = resize_positions(loaded, size, self.rule)
            logger.warning(
                "position table %s%s of %s was resized to %s (%s)",
                prefix,
                name,
                tuple(loaded.shape[1:4]),
                size,
                self.rule,
            )
        super()._load_from_state_dict(state_dict, prefix, *args)
