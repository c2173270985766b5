"""HORST (Tai et al., AAAI 2022), a higher order recurrent space-time transformer: the layer.

============================  ==============================  ================================
part (eq. 8 to 11)            official code (default)         paper
============================  ==============================  ================================
activation                    SiLU                            ReLU
state h                       STATT                           ``act(FF_h(e + STATT))``
output y                      ``act(FF_y[x; e + STATT])``,    ``act(FF_y(x + h))``
                              then ``u + u SE(u)``
key, value of a state         FF of ``[e; h]``                FF of ``[Q; h]`` (eq. 10, 11)
scale of products             ``(C h w)^-1/2``                ``C^-1/2``
============================  ==============================  ================================

FF is a 3 x 3 convolution without bias and a norm over channels and places. Table 4 of the paper has
the code's ``[e; h]``, and compares it with a key of e and a value of h.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from mmvidformer.lookup import look_up
from mmvidformer.models.horst.parts import (
    FeedForward,
    OfficialReadout,
    PaperReadout,
    StateProjection,
)
from mmvidformer.models.horst.statt import ATTENTIONS, Entry

# Up to S remembered states, oldest first; empty before the first step.
State = tuple[Entry, ...]


class HorstOutput(NamedTuple):
    """What a layer gives, for each step or for one: with or without the axis T.

    Attributes:
        y: Output (B, T, C, h, w).
        e: Encoded input (B, T, C, h, w).
        statt: Result of the attention (B, T, C, h, w).
    """

    y: Tensor
    e: Tensor
    statt: Tensor


@dataclass(frozen=True)
class Variant:
    """A column of the table above."""

    act: Callable[[], nn.Module]
    readout: Callable[[int, int, Callable], nn.Module]
    key_value: str
    scale_by_area: bool


VARIANTS = {
    "official": Variant(nn.SiLU, OfficialReadout, "e+h", True),
    "paper": Variant(nn.ReLU, PaperReadout, "q+h", False),
}

# Name: parts of the key, and of the value.
KEY_VALUE = {"e+h": ("eh", "eh"), "q+h": ("qh", "qh"), "e|h": ("e", "h")}


class HorstLayer(nn.Module):
    """A recurrent layer that attends to its last S states.

    The state is an argument and a result, so that the layer can be streamed, checkpointed and
    copied to several devices; its size does not grow. Gradients flow back through all steps. At
    the first step the layer attends to one state whose e, Q and h are zero; it is forgotten as
    soon as there is another. After t steps ``min(t, S)`` states are attended, none of them
    padding.

    Args:
        in_channels: Channels of the input.
        channels: Channels C of states and output.
        stride: Factor by which a max pooling shrinks the input; what is left over at the right
            and bottom is dropped. The official code pools by 2 whatever the stride above 1, and
            fails for others.
        order: S, how many states are remembered. Table 3 of the paper compares 1 to 16.
        variant: ``'official'`` or ``'paper'``, the columns of the table above.
        attention: Row of ``ATTENTIONS``: ``'space_time'``, ``'temporal'``, ``'spatial'`` or
            ``'joint'``.
        key_value: Row of ``KEY_VALUE``: ``'e+h'``, ``'q+h'`` or ``'e|h'``; default: the
            variant's.

    Raises:
        KeyError: If a name is unknown.
        ValueError: If ``order`` or ``stride`` is below 1.
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
    ) -> None:
        super().__init__()
        for name, value in (("order", order), ("stride", stride)):
            if value < 1:
                raise ValueError(f"{name} of a HORST layer must be at least 1, got {value}")
        form = look_up(VARIANTS, variant, "HORST variant")
        key, value = look_up(KEY_VALUE, key_value or form.key_value, "HORST key_value")
        self.order = order
        self.channels = channels
        self.pool = nn.MaxPool2d(stride) if stride > 1 else nn.Identity()
        self.encode = FeedForward(in_channels, channels, form.act)
        self.query = FeedForward(channels, channels)
        self.key = StateProjection(key, channels)
        self.value = StateProjection(value, channels)
        self.attend = look_up(ATTENTIONS, attention, "HORST attention")(
            channels, form.scale_by_area
        )
        self.readout = form.readout(in_channels, channels, form.act)

    def forward(
        self,
        clip: Tensor,
        lengths: Tensor | None = None,
        state: State = (),
        count: Tensor | None = None,
    ) -> tuple[HorstOutput, State]:
        """Run over a clip; the same numbers as ``step`` on one frame after the other, but faster.

        What does not depend on the past (encoder, query, the parts of keys and values that come
        from the input, output) runs over all steps at once, and a state's key and value are
        projected once.

        Args:
            clip: (B, T, C_in, H, W), T at least 1.
            lengths: Steps of each clip (B,), where some are padded at their end; default: all T.
                Outputs beyond are zero. Padded steps are computed with the others, so that
                batches of similar lengths waste the least.
            state: State to go on from.
            count: Steps that each clip has behind it (B,), for a state that has S entries from
                the start, as an exported graph needs it: what stands in those not yet filled is
                of no account. Default: the state has as many entries as there are.

        Returns:
            Outputs of all steps, and the state after the last. Of a clip that ended before, the
            state is meaningless.

        Raises:
            ValueError: If there is a count, and the state has other than S entries.
        """
        if count is not None and len(state) != self.order:
            raise ValueError(
                f"with a count of steps a state has {self.order} entries, got {len(state)}"
            )
        steps = clip.shape[1]
        x = self.pool(clip.flatten(0, 1))
        e = self.encode(x)
        q = self.query(e)
        maps = {"e": e, "q": q}
        keys, values = (
            [None] * steps if part is None else _steps(part, steps)
            for part in (self.key.ahead(maps), self.value.ahead(maps))
        )
        statts, states = [], []
        each = zip(_steps(e, steps), _steps(q, steps), keys, values, strict=True)
        for t, (e_t, q_t, key, value) in enumerate(each):
            seen = None
            if count is not None:
                state, seen = self._fill_in(state, count + t, e_t)
            statt = self.attend(q_t, state or (self._blank(e_t),), seen)
            h = self.readout.state(e_t, statt)
            entry = self.attend.remember(self.key(key, h), self.value(value, h))
            state = (*state, entry)[-self.order :]
            statts.append(statt)
            states.append(h)
        # Both (B*T, C, h, w), the steps of a clip one after the other as in x and e.
        y = self.readout(x, e, torch.stack(states, dim=1).flatten(0, 1))
        output = HorstOutput(
            y.unflatten(0, (-1, steps)), e.unflatten(0, (-1, steps)), torch.stack(statts, dim=1)
        )
        return silence(output, lengths), state

    def step(
        self,
        x: Tensor,
        state: State = (),
        active: Tensor | None = None,
        count: Tensor | None = None,
    ) -> tuple[HorstOutput, State]:
        """Take one frame.

        Args:
            x: (B, C_in, H, W).
            state: State after the frame before; empty for the first.
            active: Clips that still run, booleans (B,); outputs of the others are zero. Default:
                all.
            count: As of ``forward``.

        Returns:
            Outputs (B, C, h, w), and the new state.
        """
        lengths = None if active is None else active.long()
        output, state = self(x[:, None], lengths, state, count)
        return HorstOutput(*(part[:, 0] for part in output)), state

    def attention_maps(self, x: Tensor, state: State) -> tuple[Tensor, Tensor]:
        """What a step on ``x`` attends to; joint attention has no such maps.

        Args:
            x: Frame (B, C_in, H, W).
            state: State before it, not empty.

        Returns:
            Weights of the states (B, S), oldest first, and of their places (B, S, h, w).
        """
        return self.attend.maps(self.query(self.encode(self.pool(x))), state)

    def _blank(self, like: Tensor) -> Entry:
        """Entry of a state of zeros, for maps as ``like`` (B, C, h, w)."""
        zeros = torch.zeros_like(like[:1])
        maps = {"e": zeros, "q": zeros}
        key, value = (part(part.ahead(maps), zeros) for part in (self.key, self.value))
        entry = self.attend.remember(key, value)
        return Entry(*(x if x is None else x.expand(like.shape[0], -1, -1, -1) for x in entry))

    def _fill_in(self, state: State, count: Tensor, like: Tensor) -> tuple[State, Tensor]:
        """Put the blank entry where no step is behind a clip, and tell which entries there are."""
        first = (count == 0)[:, None, None, None]
        newest = Entry(
            *(
                old if old is None else torch.where(first, blank, old)
                for blank, old in zip(self._blank(like), state[-1], strict=True)
            )
        )
        places = torch.arange(self.order, device=count.device)
        return (*state[:-1], newest), places >= self.order - count.clamp(min=1)[:, None]


def _steps(x: Tensor, steps: int) -> tuple[Tensor, ...]:
    """Split (B*T, C, h, w) into its T steps."""
    return x.unflatten(0, (-1, steps)).unbind(1)


def silence(output: HorstOutput, lengths: Tensor | None) -> HorstOutput:
    """Set outputs (B, T, C, h, w) beyond the lengths (B,), if there are any, to zero."""
    if lengths is None:
        return output
    steps = torch.arange(output.y.shape[1], device=output.y.device)
    over = (steps >= lengths.to(steps.device)[:, None])[..., None, None, None]
    return HorstOutput(*(part.masked_fill(over, 0) for part in output))
