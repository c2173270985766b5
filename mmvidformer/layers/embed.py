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
    """Cut a clip into tubelets that do not overlap and project each to a token.

    ViViT section 3.2; with ``tubelet[0] == 1`` it is the patch embedding of single frames that
    ViT, TimeSformer and ViViT's uniform frame sampling use. What does not fill a tubelet at the
    end of an axis is left out, as by a convolution without padding.

    Args:
        dim: Token width D.
        tubelet: Frames, rows and columns of a tubelet.
        in_channels: Channels C of the clip.
    """

    def __init__(
        self, dim: int, tubelet: tuple[int, int, int] = (2, 16, 16), in_channels: int = 3
    ) -> None:
        super().__init__()
        self.tubelet = tuple(tubelet)
        # Holds the parameters in the layout of checkpoints; the product below is the same as
        # its convolution, and gives tokens with the width last without a copy.
        self.proj = nn.Conv3d(in_channels, dim, kernel_size=self.tubelet, stride=self.tubelet)

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
        t, h, w = self.tubelet
        if clip.dim() != 5 or clip.shape[1] != self.proj.in_channels:
            raise ValueError(
                f"a clip has shape (B, {self.proj.in_channels}, T, H, W), got {tuple(clip.shape)}"
            )
        size = [n // p for n, p in zip(clip.shape[2:], self.tubelet, strict=True)]
        if 0 in size:
            raise ValueError(
                f"a clip of (T, H, W) {tuple(clip.shape[2:])} is smaller than one tubelet "
                f"{self.tubelet}"
            )
        clip = clip[:, :, : size[0] * t, : size[1] * h, : size[2] * w]
        pixels = rearrange(clip, "b c (t i) (h j) (w k) -> b t h w (c i j k)", i=t, j=h, k=w)
        return F.linear(pixels, self.proj.weight.flatten(1), self.proj.bias)


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
