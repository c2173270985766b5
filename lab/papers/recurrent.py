"""Recurrent models that HORST is compared with, as necks and a classifier.

Conv-TT-LSTM is of Su et al. (2020, arXiv:2002.09131), RULSTM of Furnari and Farinella (2019). A
config names this module in ``custom_imports``, as the rows of ``configs/papers/horst.yml`` do.

Letters: B batch, T time steps, C channels, h w size of the maps.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from mmvidformer.errors import UserError
from mmvidformer.models.horst.classifiers import (
    CLASSIFIERS,
    Classifier,
    Features,
    unroll,
)
from mmvidformer.models.horst.layer import HorstOutput, Recurrent, zero_padding
from mmvidformer.models.horst.necks import Horst

LstmState = tuple[Tensor, Tensor]  # last hidden states (B, steps, C, h, w), cell (B, C, h, w)


class ConvTTLstmLayer(Recurrent):
    """An LSTM of convolutions whose gates read several hidden states, through a tensor train.

    Core ``l`` of the train convolves a window of hidden states, from the l-th oldest on, and adds
    the convolved result of the core before. The gates read the last result and the input. Without
    cores they read the last state: a ConvLSTM.

    The state is the last hidden states and the cell, so a stream costs the same for each frame.

    Args:
        in_channels: Number of input channels.
        channels: Number of channels C of states and output.
        stride: Stride of a max pooling of the input.
        order: Number of cores; 0 for a ConvLSTM. Default: that of the official code, as of
            ``steps``, ``rank`` and ``kernel``.
        steps: Number of hidden states that are read, at least ``order``.
        rank: Number of channels between the cores.
        kernel: Size of all convolutions, odd.

    Raises:
        UserError: If there are fewer steps than cores, or the kernel is even.
    """

    def __init__(
        self,
        in_channels: int,
        channels: int,
        stride: int = 1,
        order: int = 3,
        steps: int = 3,
        rank: int = 8,
        kernel: int = 5,
    ) -> None:
        super().__init__()
        if not 0 <= order <= steps or steps < 1 or kernel % 2 == 0:
            raise UserError(
                "a tensor train needs 0 <= order <= steps, a step and an odd kernel, "
                f"got order {order}, steps {steps}, kernel {kernel}"
            )
        self.steps, self.channels = steps, channels
        self.window = steps - order + 1
        same: dict[str, Any] = dict(kernel_size=kernel, padding=kernel // 2)
        read = self.window * channels
        self.pool = nn.MaxPool2d(stride) if stride > 1 else nn.Identity()
        self.cores = nn.ModuleList(nn.Conv2d(read, rank, **same) for _ in range(order))
        self.links = nn.ModuleList(nn.Conv2d(rank, rank, **same) for _ in range(order - 1))
        self.gates = nn.Conv2d((rank if order else channels) + in_channels, 4 * channels, **same)

    def forward(
        self, clip: Tensor, lengths: Tensor | None = None, state: LstmState | None = None
    ) -> tuple[HorstOutput, LstmState]:
        """Process a clip; y and e are the hidden state, statt the cell. See ``Recurrent``."""
        x = self.pool(clip.flatten(0, 1)).unflatten(0, (-1, clip.shape[1]))
        past, cell = self.start(x[:, 0]) if state is None else state
        hidden, cells = [], []
        for frame in x.unbind(1):
            past, cell = self.advance(frame, past, cell)
            hidden.append(past[:, -1])
            cells.append(cell)
        y = torch.stack(hidden, dim=1)
        return zero_padding(HorstOutput(y, y, torch.stack(cells, dim=1)), lengths), (past, cell)

    def start(self, like: Tensor) -> LstmState:
        """Return the state of zeros before the first step, for maps like (B, C_in, h, w)."""
        cell = like.new_zeros(like.shape[0], self.channels, *like.shape[2:])
        return torch.stack([cell] * self.steps, dim=1), cell

    def advance(self, x: Tensor, past: Tensor, cell: Tensor) -> LstmState:
        """Return the state after a frame (B, C_in, h, w)."""
        train = past[:, -1]
        for first, core in enumerate(self.cores):
            read = core(past[:, first : first + self.window].flatten(1, 2))
            train = self.links[first - 1](train) + read if first else read
        i, f, o, g = self.gates(torch.cat([x, train], dim=1)).chunk(4, dim=1)
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        hidden = o.sigmoid() * cell.tanh()
        return torch.cat([past[:, 1:], hidden[:, None]], dim=1), cell


class ConvTTLstm(Horst):
    """Layers of ``ConvTTLstmLayer`` in place of HORST's; other arguments are those of ``Horst``."""

    layer_type = ConvTTLstmLayer


class RollingLstm(Recurrent):
    """The first LSTM of RULSTM (Furnari and Farinella 2019), on the mean of each map over places.

    y is the mean itself, e the hidden and statt the cell state; the ``rolling`` classifier
    continues from them.

    Args:
        in_channels: Number of channels C of the maps, and of the LSTM.
        dropout_ratio: Dropout rate of the means. Default: RULSTM's.
    """

    def __init__(self, in_channels: int, dropout_ratio: float = 0.8) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout_ratio)
        self.roll = nn.LSTMCell(in_channels, in_channels)
        self.out_channels = in_channels

    def forward(
        self, clip: Tensor, lengths: Tensor | None = None, state: Any = None
    ) -> tuple[HorstOutput, LstmState]:
        """Process a clip; results have one place. See ``Recurrent``."""
        means = clip.mean((-2, -1))
        hidden, cells = [], []
        for x in self.dropout(means).unbind(1):
            state = self.roll(x, state)
            hidden.append(state[0])
            cells.append(state[1])
        parts = (means, torch.stack(hidden, dim=1), torch.stack(cells, dim=1))
        return zero_padding(HorstOutput(*(x[..., None, None] for x in parts)), lengths), state


class RollingClassifier(Classifier):
    """The second LSTM of RULSTM, on what the neck ``RollingLstm`` returns.

    It starts from the first one's states. RULSTM predicts actions alone, and sums their
    probabilities for verbs and nouns; here these have HORST's layers, ``FC(h + FC(action))``. It
    unrolls once more than there are steps to the action, as RULSTM's code does.
    """

    def __init__(self, channels: int, num_classes: Mapping[str, int], form: str = "official"):
        super().__init__(channels, channels, num_classes, form, outside=False)
        self.dropout = nn.Dropout(0.8)
        self.unroll = nn.LSTM(channels, channels, batch_first=True)

    def features(self, y: Tensor, e: Tensor, statt: Tensor, ahead: Sequence[int]) -> Features:
        """See ``Classifier``; e and statt are the hidden and the cell state."""
        last = unroll(self.unroll, self.dropout(y), (e, statt), [steps + 1 for steps in ahead])
        h = self.dropout(last)
        return h, h, h


CLASSIFIERS["rolling"] = RollingClassifier
