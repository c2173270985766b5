"""How HORST looks back: spatial-temporal attention of one query map to remembered maps.

==============  ==================================  =========================================
name (Table 2)  weight of a place of a state        weight of a state
==============  ==================================  =========================================
space_time      sigmoid of filtered comparisons     softmax of filtered comparisons
temporal        1                                   softmax of filtered comparisons
spatial         sigmoid of filtered comparisons     1 / number of states
joint           one softmax over all places of all states, for each place of the query
==============  ==================================  =========================================

Letters: B batch, S remembered states, C channels, h w size of the maps.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from mmvidformer.layers import build_kernel


class Entry(NamedTuple):
    """A remembered state, projected once when it entered the queue.

    Attributes:
        key: (B, C, h, w).
        value: (B, C, h, w).
        gate: Spatial filter of the key (B, 1, h, w); None where no branch filters keys.
    """

    key: Tensor
    value: Tensor
    gate: Tensor | None


class SpatialFilter(nn.Module):
    """Which places of a map matter, from its mean and maximum over the channels.

    ``sigmoid(conv([mean, max]) + b)`` with a 3 x 3 convolution; paper eq. 4.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 1, kernel_size=3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, h, w) to weights (B, 1, h, w) between 0 and 1."""
        return self.conv(torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], 1)).sigmoid()


class PlaceWeights(nn.Module):
    """Weights of the places of each state, ``sigmoid(Q^ K)``; paper eq. 5.

    ``Q^`` is the query, averaged over places as the filter of the state's key weighs them. Neither
    scaled nor, as to its key, filtered, as in the official code.
    """

    def forward(self, q: Tensor, keys: Tensor, gates: Tensor) -> Tensor:
        """Weigh query (B, C, h, w) and keys (B, S, C, h, w), gates (B, S, 1, h, w).

        Returns:
            Weights (B, S, h, w).
        """
        area = q.shape[-2] * q.shape[-1]
        pooled = torch.einsum("bshw,bchw->bsc", gates[:, :, 0], q) / area
        return torch.einsum("bsc,bschw->bshw", pooled, keys).sigmoid()


class AllPlaces(nn.Module):
    """Weight 1 for each place: the paper's temporal-only attention (Table 2)."""

    def forward(self, q: Tensor, keys: Tensor, gates: Tensor) -> Tensor:
        """Give ones (B, S, h, w)."""
        return torch.ones_like(gates[:, :, 0])


class StateSoftmax(nn.Module):
    """Softmax over states, whole maps being the vectors that are compared; paper eq. 6.

    Args:
        scale_by_area: Divide the products by ``sqrt(C h w)`` as the official code does, instead of
            the paper's ``sqrt(C)``.
    """

    def __init__(self, scale_by_area: bool) -> None:
        super().__init__()
        self.filter = SpatialFilter()
        # Maps have up to 400 000 numbers, more than fused operators take on GPUs. The kernel gets
        # the products instead, as keys of one number, and the unit vectors to average.
        self.kernel = build_kernel("softmax", head_dim=1)
        self.scale_by_area = scale_by_area

    def forward(self, q: Tensor, keys: Tensor, seen: Tensor | None = None) -> Tensor:
        """Compare the query (B, C, h, w) with filtered keys (B, S, C, h, w).

        Args:
            q: Query.
            keys: Filtered keys.
            seen: Which states there are, booleans (B, S); default: all.

        Returns:
            Weights (B, S).
        """
        size = q[0].numel() if self.scale_by_area else q.shape[1]
        query = (q * self.filter(q)).flatten(1) * size**-0.5
        products = torch.einsum("bd,bsd->bs", query, keys.flatten(2))[:, None, :, None]
        units = torch.eye(keys.shape[1], dtype=products.dtype, device=products.device)
        return self.kernel(
            torch.ones_like(products[:, :, :1]),
            products,
            units.expand(q.shape[0], 1, -1, -1),
            None if seen is None else seen[:, None, None],
        )[:, 0, 0]


class StateMean(nn.Module):
    """Equal weights of the states: the paper's spatial-only attention (Table 2)."""

    def forward(self, q: Tensor, keys: Tensor, seen: Tensor | None = None) -> Tensor:
        """Give weights 1 / S (B, S), or 1 / states that there are."""
        if seen is None:
            return keys.new_full(keys.shape[:2], 1 / keys.shape[1])
        return seen.to(keys.dtype) / seen.sum(dim=1, keepdim=True)


class Statt(nn.Module):
    """Spatial-temporal attention: places weighted within each state, then states; paper eq. 7.

    Args:
        places: Weighs places, from query, keys and gates.
        states: Weighs states, from query and filtered keys.
    """

    def __init__(self, places: nn.Module, states: nn.Module) -> None:
        super().__init__()
        self.filter = SpatialFilter()
        self.places = places
        self.states = states

    def remember(self, key: Tensor, value: Tensor) -> Entry:
        """Make the entry of a state from its key and value (B, C, h, w)."""
        return Entry(key, value, self.filter(key))

    def forward(self, q: Tensor, entries: Sequence[Entry], seen: Tensor | None = None) -> Tensor:
        """Attend with query (B, C, h, w) to at least one entry; the result has its shape.

        Args:
            q: Query.
            entries: Remembered states.
            seen: Which of them there are, booleans (B, S); default: all.
        """
        weights, places = self.maps(q, entries, seen)
        values = torch.stack([entry.value for entry in entries], dim=1)
        return torch.einsum("bs,bschw->bchw", weights, values * places[:, :, None])

    def maps(
        self, q: Tensor, entries: Sequence[Entry], seen: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Weigh states and places; for pictures too, as the paper's figures 4 and 5.

        Returns:
            Weights of the states (B, S), which sum to 1, and of their places (B, S, h, w), each
            between 0 and 1.
        """
        keys, gates = (torch.stack([entry[i] for entry in entries], dim=1) for i in (0, 2))
        return self.states(q, keys * gates, seen), self.places(q, keys, gates)


class JointStatt(nn.Module):
    """Joint space-time attention: each place sees all places of all states.

    The comparison of the paper's Table 2, for which there is no public code: single-head, scaled
    by ``sqrt(C)``, without filters.

    Args:
        channels: C.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.kernel = build_kernel("softmax", head_dim=channels)

    def remember(self, key: Tensor, value: Tensor) -> Entry:
        """Make the entry of a state from its key and value (B, C, h, w)."""
        return Entry(key, value, None)

    def forward(self, q: Tensor, entries: Sequence[Entry], seen: Tensor | None = None) -> Tensor:
        """Attend; arguments and result as of ``Statt``."""
        keys, values = (torch.cat([entry[i].flatten(2) for entry in entries], 2) for i in (0, 1))
        tokens = (x.transpose(1, 2)[:, None] for x in (q.flatten(2), keys, values))
        area = q.shape[-2] * q.shape[-1]
        mask = None if seen is None else seen.repeat_interleave(area, dim=1)[:, None, None]
        return self.kernel(*tokens, mask)[:, 0].transpose(1, 2).reshape(q.shape)


# Name: builds the attention from channels and the scale of the products.
ATTENTIONS: dict[str, Callable[[int, bool], nn.Module]] = {
    "space_time": lambda channels, area: Statt(PlaceWeights(), StateSoftmax(area)),
    "temporal": lambda channels, area: Statt(AllPlaces(), StateSoftmax(area)),
    "spatial": lambda channels, area: Statt(PlaceWeights(), StateMean()),
    "joint": lambda channels, area: JointStatt(channels),
}
