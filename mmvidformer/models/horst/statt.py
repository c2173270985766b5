"""STATT, the spatial-temporal attention of HORST: from one query map to remembered maps.

==============  ==================================  =========================================
name (Table 2)  weight of a place of a state        weight of a state
==============  ==================================  =========================================
space_time      sigmoid of filtered scores          softmax of filtered scores
temporal        1                                   softmax of filtered scores
spatial         sigmoid of filtered scores          1 / number of states
joint           one softmax over all places of all states, for each place of the query
==============  ==================================  =========================================

With several heads, each attends like a single one, with its share of the channels.

Letters: B batch, S remembered states, C channels, n heads, h w size of the maps.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from einops import rearrange
from torch import Tensor, nn

from mmvidformer.layers import KERNELS


class Entry(NamedTuple):
    """A state to remember, projected once.

    Attributes:
        key: Key (B, C, h, w).
        value: Value (B, C, h, w).
        gate: Spatial filter of the key for each head (B, n, h, w), or None for joint attention.
    """

    key: Tensor
    value: Tensor
    gate: Tensor | None


class States(NamedTuple):
    """The last S states of a layer in a ring: state t, counted from 0, is in slot ``t % S``.

    The shapes stay from the first step on. Before it, slot 0 has the state of zeros to which the
    first step attends. Steps make new ``States`` and leave the previous ones as they are.

    Attributes:
        steps: Number of states so far of each clip (B,), integers.
        key: Keys (B, S, C, h, w).
        value: Values (B, S, C, h, w).
        gate: Spatial filters of the keys for each head (B, S, n, h, w); None for joint attention.
    """

    steps: Tensor
    key: Tensor
    value: Tensor
    gate: Tensor | None

    def filled(self) -> Tensor:
        """Return which slots have a state, that of zeros included, booleans (B, S)."""
        slots = torch.arange(self.key.shape[1], device=self.key.device)
        return slots < self.steps.clamp(min=1)[:, None]

    def put(self, entries: Sequence[Entry]) -> "States":
        """Return the states with more, in place of the oldest if all slots are filled.

        Args:
            entries: At most S, in their order.
        """
        device = self.key.device
        rows = torch.arange(self.key.shape[0], device=device)[:, None]
        places = self.steps[:, None] + torch.arange(len(entries), device=device)
        slots = rows, places % self.key.shape[1]
        keys, values, gates = zip(*entries, strict=True)
        gate = self.gate
        if gate is not None:
            gate = gate.index_put(slots, torch.stack(gates, dim=1))
        key = self.key.index_put(slots, torch.stack(keys, dim=1))
        value = self.value.index_put(slots, torch.stack(values, dim=1))
        return States(self.steps + len(entries), key, value, gate)


class SpatialFilter(nn.Module):
    """Weights of the places of a map from its mean and maximum over the channels.

    ``sigmoid(conv([mean, max]) + b)`` with a 3 x 3 convolution; paper, eq. 4.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 1, kernel_size=3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, h, w) to weights (B, 1, h, w) between 0 and 1."""
        return self.conv(torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], 1)).sigmoid()


def place_weights(q: Tensor, keys: Tensor, gates: Tensor) -> Tensor:
    """Compute the weights of the places of each state, ``sigmoid(Q^ K)``; paper, eq. 5.

    ``Q^`` is the mean of the query over places, weighted by the filter of the state's key. As in
    the official code, the scores are not scaled and the key is not filtered.

    Args:
        q: Query (B, C, h, w).
        keys: Keys (B, S, C, h, w).
        gates: Filters of the keys (B, S, 1, h, w).

    Returns:
        Weights (B, S, h, w).
    """
    area = q.shape[-2] * q.shape[-1]
    pooled = torch.einsum("bshw,bchw->bsc", gates[:, :, 0], q) / area
    return torch.einsum("bsc,bschw->bshw", pooled, keys).sigmoid()


class StateSoftmax(nn.Module):
    """Weights of the states: a softmax of scores between whole maps; paper, eq. 6.

    Args:
        scale_by_area: Whether to divide the scores by ``sqrt(C h w)``, as the official code does,
            instead of by ``sqrt(C)``, as the paper can be read.
    """

    def __init__(self, scale_by_area: bool) -> None:
        super().__init__()
        self.filter = SpatialFilter()
        self.scale_by_area = scale_by_area

    def forward(self, q: Tensor, keys: Tensor, filled: Tensor) -> Tensor:
        """Return weights (B, S).

        Args:
            q: Query (B, C, h, w).
            keys: Filtered keys (B, S, C, h, w).
            filled: Which states exist, booleans (B, S).
        """
        size = q.shape[1:].numel() if self.scale_by_area else q.shape[1]
        query = (q * self.filter(q)).flatten(1) * size**-0.5
        scores = torch.einsum("bd,bsd->bs", query, keys.flatten(2))
        return scores.masked_fill(~filled, -torch.inf).softmax(dim=1)


class Statt(nn.Module):
    """Spatial-temporal attention: places are weighted within each state, then states; eq. 7.

    Args:
        places: Whether to weight the places; otherwise their weights are 1.
        states: Weights of the states, or None for equal ones.
        num_heads: Number of heads n, which share the filters. The paper found one to be better.
    """

    def __init__(self, places: bool, states: StateSoftmax | None, num_heads: int = 1) -> None:
        super().__init__()
        self.filter = SpatialFilter()
        self.places = places
        self.states = states
        self.num_heads = num_heads

    def remember(self, key: Tensor, value: Tensor) -> Entry:
        """Make the entry of a state from its key and value, (B, C, h, w) each."""
        gates = self.filter(self._split(key)).unflatten(0, (-1, self.num_heads))
        return Entry(key, value, gates[:, :, 0])

    def _split(self, x: Tensor) -> Tensor:
        """Split the channels of (B, ..., C, h, w) into heads: (B * n, ..., C / n, h, w)."""
        return x.unflatten(-3, (self.num_heads, -1)).movedim(-4, 1).flatten(0, 1)

    def forward(self, q: Tensor, states: States) -> Tensor:
        """Attend to the states with a query (B, C, h, w); returns (B, C, h, w)."""
        weights, places = self.maps(q, states)
        values = self._split(states.value)
        out = torch.einsum("bs,bschw->bchw", weights, values * places[:, :, None])
        return out.unflatten(0, (-1, self.num_heads)).flatten(1, 2)

    def maps(self, q: Tensor, states: States) -> tuple[Tensor, Tensor]:
        """Return the weights (B * n, S) and (B * n, S, h, w) of each head."""
        assert states.gate is not None, "made by ``remember``"
        q, keys, gates = self._split(q), self._split(states.key), self._split(states.gate)
        filled = states.filled().repeat_interleave(self.num_heads, dim=0)
        places = place_weights(q, keys, gates) if self.places else torch.ones_like(gates[:, :, 0])
        if self.states is not None:
            return self.states(q, keys * gates, filled), places
        counts = filled.to(keys.dtype)
        return counts / counts.sum(dim=1, keepdim=True), places


class JointStatt(nn.Module):
    """Joint space-time attention: each place attends to all places of all states.

    A variant in the paper's Table 2 without public code, here single-head by default, scaled by
    ``sqrt(C / n)``, without filters.

    Args:
        channels: Number of channels C.
        num_heads: Number of heads n.
    """

    def __init__(self, channels: int, num_heads: int = 1) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.kernel = KERNELS.build("softmax", head_dim=channels // num_heads)

    def remember(self, key: Tensor, value: Tensor) -> Entry:
        """Make the entry of a state from its key and value, (B, C, h, w) each."""
        return Entry(key, value, None)

    def forward(self, q: Tensor, states: States) -> Tensor:
        """Attend to the states; arguments and result as in ``Statt``."""
        maps = q[:, None], states.key, states.value
        heads = "b s (n d) h w -> b n (s h w) d"
        tokens = (rearrange(x, heads, n=self.num_heads) for x in maps)
        area = q.shape[-2] * q.shape[-1]
        mask = states.filled().repeat_interleave(area, dim=1)[:, None, None]
        return self.kernel(*tokens, mask).transpose(2, 3).reshape(q.shape)


# Name: builds the attention from the numbers of channels and heads and ``scale_by_area``.
ATTENTIONS: dict[str, Callable[[int, int, bool], nn.Module]] = {
    "space_time": lambda channels, heads, area: Statt(True, StateSoftmax(area), heads),
    "temporal": lambda channels, heads, area: Statt(False, StateSoftmax(area), heads),
    "spatial": lambda channels, heads, area: Statt(True, None, heads),
    "joint": lambda channels, heads, area: JointStatt(channels, heads),
}
