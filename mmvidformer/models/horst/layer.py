"""The layer of HORST (Tai et al., AAAI 2022), a higher order recurrent space-time transformer.

``VARIANTS`` has what differs between official code and paper (reports/paper_and_code.md).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mmvidformer.errors import UserError
from mmvidformer.lookup import look_up
from mmvidformer.models.horst.convolutions import (
    FeedForward,
    OfficialReadout,
    PaperReadout,
    StateProjection,
)
from mmvidformer.models.horst.statt import ATTENTIONS, Entry, States


class HorstOutput(NamedTuple):
    """Outputs of a layer for all time steps; without the axis T for a single one.

    Attributes:
        y: Output (B, T, C, h, w).
        e: Encoded input (B, T, C, h, w).
        statt: Result of the attention (B, T, C, h, w).
    """

    y: Tensor
    e: Tensor
    statt: Tensor


Features = Tensor | HorstOutput  # tokens, or outputs of a recurrent model


class Recurrent(nn.Module):
    """Base class of modules that are called with a clip, its lengths and a state.

    - ``clip``: maps (B, T, C_in, H, W) with T at least 1.
    - ``lengths``: number of time steps of each clip (B,), if clips are padded at their end.
      Default: all T. Padded steps are computed too, so batches of similar lengths waste least.
    - ``state``: state to resume from. Default: none yet.

    They return a ``HorstOutput``, zero after the lengths, and the state after the last step, which
    is meaningless for clips that ended before.
    """

    def step(self, x: Tensor, state: Any = None, **options: Any) -> tuple[HorstOutput, Any]:
        """Process one frame, as a clip of one time step.

        Args:
            x: Maps (B, C_in, H, W).
            state: State after the previous frame. Default: none yet.
            **options: Further arguments of ``forward``.

        Returns:
            Outputs (B, C, h, w), and the new state.
        """
        output, state = self(x[:, None], None, state, **options)
        return HorstOutput(*(part[:, 0] for part in output)), state


# Activation, readout, name in ``KEY_VALUE``, and whether the scores are scaled by ``(C h w)^-1/2``
# instead of ``C^-1/2``. Eq. 3 and 6 divide by ``sqrt(C)``, but "C is a scaling factor"; that it is
# the number of channels is a reading of ours.
VARIANTS: dict[str, tuple[Callable[[], nn.Module], Callable[..., nn.Module], str, bool]] = {
    "official": (nn.SiLU, OfficialReadout, "e+h", True),
    "paper": (nn.ReLU, PaperReadout, "q+h", False),
}

# Name: inputs of the key, and of the value (eq. 10 and 11; Table 4 has the first and the last).
KEY_VALUE = {"e+h": ("eh", "eh"), "q+h": ("qh", "qh"), "e|h": ("e", "h")}


class HorstLayer(Recurrent):
    """A recurrent layer that attends to its last S states.

    The state is an argument and a result, so the layer can be streamed, checkpointed and
    replicated; its size is constant. Gradients flow back through all time steps. At the first step
    the layer attends to one state whose e, Q and h are zero, which is dropped as soon as there is
    another. After t steps it attends to ``min(t, S)`` states, none of them padding.

    Args:
        in_channels: Number of input channels.
        channels: Number of channels C of states and output.
        stride: Stride of a max pooling of the input; rows and columns left over at the bottom and
            right are ignored. The official code pools by 2 for every stride above 1, and fails for
            strides above 2.
        order: Number of remembered states S. Table 3 of the paper compares 1 to 16.
        variant: ``'official'`` or ``'paper'`` (eq. 8 to 11), a name in ``VARIANTS``.
        attention: A name in ``ATTENTIONS``: ``'space_time'``, ``'temporal'``, ``'spatial'`` or
            ``'joint'``.
        key_value: A name in ``KEY_VALUE``: ``'e+h'``, ``'q+h'`` or ``'e|h'``. Default: that of the
            variant.
        num_heads: Number of attention heads, which divides C. The paper has one, and found several
            to be worse (section "Higher Order Recurrent Space Time Transformer").

    Raises:
        KeyError: If a name is unknown.
        UserError: If ``order`` or ``stride`` is below 1, or ``num_heads`` does not divide C.
    """

    def __init__(
        self,
        in_channels: int,
        channels: int,
        stride: int = 1,
        order: int = 8,
        variant: str = "official",
        attention: str = "space_time",
        key_value: str | None = None,
        num_heads: int = 1,
    ) -> None:
        super().__init__()
        for name, number in (("order", order), ("stride", stride)):
            if number < 1:
                raise UserError(f"{name} of a HORST layer must be at least 1, got {number}")
        if num_heads < 1 or channels % num_heads:
            raise UserError(f"num_heads ({num_heads}) must divide the channels ({channels})")
        act, readout, default_key_value, by_area = look_up(VARIANTS, variant, "HORST variant")
        key, value = look_up(KEY_VALUE, key_value or default_key_value, "HORST key_value")
        self.order = order
        self.channels = channels
        self.pool = nn.MaxPool2d(stride) if stride > 1 else nn.Identity()
        self.encode = FeedForward(in_channels, channels, act)
        self.query = FeedForward(channels, channels)
        self.key = StateProjection(key, channels)
        self.value = StateProjection(value, channels)
        build = look_up(ATTENTIONS, attention, "HORST attention")
        self.attend = build(channels, num_heads, by_area)
        self.readout = readout(in_channels, channels, act)

    def forward(
        self, clip: Tensor, lengths: Tensor | None = None, state: States | None = None
    ) -> tuple[HorstOutput, States]:
        """Process a clip; gives the same numbers as ``step`` frame by frame, but faster.

        Everything that does not depend on the past (encoder, query, output, and the inputs of keys
        and values other than h) is computed for all time steps at once, and the key and value of a
        state are projected once. See ``Recurrent`` for arguments and result.
        """
        steps = clip.shape[1]
        x = self.pool(clip.flatten(0, 1))
        e = self.encode(x)
        q = self.query(e)
        maps = {"e": e, "q": q}
        e_steps = e.unflatten(0, (-1, steps)).unbind(1)
        q_steps = q.unflatten(0, (-1, steps)).unbind(1)
        key_steps = _split_steps(self.key.ahead(maps), steps)
        value_steps = _split_steps(self.value.ahead(maps), steps)
        start = self.start(e_steps[0]) if state is None else state
        statts, hidden = [], []
        entries: list[Entry] = []  # the last ones, at most S
        for t in range(steps):
            statt = self.attend_to(q_steps[t], start, t, entries)
            h = self.readout.state(e_steps[t], statt)
            key, value = self.key(key_steps[t], h), self.value(value_steps[t], h)
            entries = [*entries, self.attend.remember(key, value)][-self.order :]
            statts.append(statt)
            hidden.append(h)
        # (B*T, C, h, w), as x and e: the time steps of a clip one after another.
        y = self.readout(x, e, torch.stack(hidden, dim=1).flatten(0, 1))
        output = HorstOutput(
            y.unflatten(0, (-1, steps)), e.unflatten(0, (-1, steps)), torch.stack(statts, dim=1)
        )
        return zero_padding(output, lengths), _put(start, steps, entries)

    def attend_to(self, q: Tensor, start: States, steps: int, entries: list[Entry]) -> Tensor:
        """Attend to the states some steps after a start.

        Args:
            q: Query (B, C, h, w).
            start: States before the clip.
            steps: Number of steps since then.
            entries: Those of the last steps, at most S.

        Returns:
            Result (B, C, h, w).
        """
        return self.attend(q, _put(start, steps, entries))

    def start(self, like: Tensor) -> States:
        """Return the state before the first step, for maps like (B, C, h, w).

        All slots have the state of zeros, to which the first step attends.
        """
        zeros = torch.zeros_like(like[:1])
        maps = {"e": zeros, "q": zeros}
        key = self.key(self.key.ahead(maps), zeros)
        value = self.value(self.value.ahead(maps), zeros)
        entry = self.attend.remember(key, value)
        size = (like.shape[0], self.order, -1, -1, -1)
        steps = torch.zeros(like.shape[0], dtype=torch.long, device=like.device)
        gate = None if entry.gate is None else entry.gate[:, None].expand(size)
        key, value = entry.key[:, None].expand(size), entry.value[:, None].expand(size)
        return States(steps, key, value, gate)


def _put(start: States, steps: int, entries: list[Entry]) -> States:
    """Return the states some steps after a start, of which the last entries are seen."""
    if not entries:
        return start
    return start._replace(steps=start.steps + steps - len(entries)).put(entries)


def _split_steps(x: Tensor | None, steps: int) -> Sequence[Tensor | None]:
    """Split (B*T, C, h, w) into its T time steps, or None into T times None."""
    return [None] * steps if x is None else x.unflatten(0, (-1, steps)).unbind(1)


def zero_padding(output: HorstOutput, lengths: Tensor | None) -> HorstOutput:
    """Set outputs (B, T, C, h, w) after the lengths (B,) to zero, if lengths are given."""
    if lengths is None:
        return output
    steps = torch.arange(output.y.shape[1], device=output.y.device)
    padded = (steps >= lengths.to(steps.device)[:, None])[..., None, None, None]
    return HorstOutput(*(part.masked_fill(padded, 0) for part in output))
