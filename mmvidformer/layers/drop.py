from typing import NamedTuple

import torch
from torch import Tensor, nn

from mmvidformer.errors import UserError
from mmvidformer.layers.patterns import Pattern
from mmvidformer.layers.tokens import Grid
from mmvidformer.lookup import look_up


class DropPath(nn.Module):
    """Draw which residual updates of a batch are kept (stochastic depth, Huang et al. 2016).

    It returns factors; attention applies them before it averages the copies of the class token.

    Args:
        rate: Probability that an update is dropped, in [0, 1).
        rule: ``'clip'``: a draw for each clip, and kept updates are divided by ``1 - rate`` (timm).
            ``'group'``: likewise for each attention group (TimeSformer), and for a class token that
            attends alone (``cls='global'``, ``'sink'``). ``'unscaled'``: a draw for each clip, and
            kept updates are not divided (scenic's ViViT).

    Raises:
        KeyError: If the rule is unknown.
        UserError: If ``rate`` is outside [0, 1).
    """

    def __init__(self, rate: float = 0.0, rule: str = "clip") -> None:
        super().__init__()
        if not 0.0 <= rate < 1.0:
            raise UserError(f"the rate of DropPath must be in [0, 1), got {rate}")
        self.rate = rate
        self.rule = look_up({"clip", "group", "unscaled"}, rule, "drop_path")

    def forward(
        self, tokens: Tensor, groups: int = 1, clip_rows: Tensor | None = None
    ) -> Tensor | None:
        """Draw the factors.

        Args:
            tokens: Any tensor with the batch as its first axis; sets batch size, dtype and device.
            groups: Number of attention groups per row; used with ``'group'`` only.
            clip_rows: Number of consecutive batch rows of each clip (clips,), the frames of which
                share a draw. Default: each row is a clip.

        Returns:
            Factors (B, groups) or (B, 1), or None if nothing is dropped.
        """
        if not self.training or self.rate == 0.0:
            return None
        columns = groups if self.rule == "group" else 1
        rows = tokens.shape[0]
        factors = tokens.new_empty(rows if clip_rows is None else clip_rows.shape[0], columns)
        factors.bernoulli_(1.0 - self.rate)
        if self.rule != "unscaled":
            factors.div_(1.0 - self.rate)
        if clip_rows is None:
            return factors
        return factors.repeat_interleave(clip_rows, dim=0, output_size=rows)

    def extra_repr(self) -> str:
        """Show the settings in the printed model."""
        return f"rate={self.rate:.3f}, rule={self.rule}"


class Draw(NamedTuple):
    """The factors by which stochastic depth multiplies an update.

    Attributes:
        factors: What ``DropPath`` returned, (B, G) or (B, 1).
        prefix_factors: The same of a prefix that attends alone (``cls='global'``, ``'sink'``),
            (B, 1). Default: that of the tokens, of whose groups the prefix has copies.
    """

    factors: Tensor
    prefix_factors: Tensor | None = None

    def scale_groups(self, update: Tensor, pattern: Pattern, grid: Grid) -> Tensor:
        """Multiply an update (B, P + T H W, D), or its first tokens, by factors of their groups.

        That of a prefix is its own, if it has one, or the mean of the groups'.
        """
        factors, prefix = self
        if factors.shape[1] == 1 and prefix is None:
            return update * factors[..., None]
        if factors.shape[1] == 1:
            places = factors[..., None].expand(-1, grid.num_places, -1)
        else:
            places = pattern.to_places(factors, grid.size)
        if not grid.prefix:
            return update * places
        prefix = factors.mean(dim=1, keepdim=True) if prefix is None else prefix
        factors = torch.cat([prefix[..., None].expand(-1, grid.prefix, -1), places], dim=1)
        return update * factors[:, : update.shape[1]]

    def scale(self, update: Tensor) -> Tensor:
        """Multiply an update (B, ..., D) by factors (B, 1) of its rows."""
        return update * self.factors.reshape(-1, *[1] * (update.dim() - 1))
