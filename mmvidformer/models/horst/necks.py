from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from mmvidformer.errors import UserError
from mmvidformer.models.fast.recompute import recompute
from mmvidformer.models.horst.layer import HorstLayer, HorstOutput, Recurrent
from mmvidformer.models.horst.statt import States


class Horst(Recurrent):
    """HORST layers on the maps of frames, each of which reads the output y of the layer before.

    The paper's networks: ``channels=[128, 256, 512, 512], strides=[1, 1, 2, 2]`` for early
    recognition, and two layers of 1024 (EPIC-Kitchens-55) or 512 channels (EPIC-Kitchens-100) for
    anticipation.

    Args:
        in_channels: Number of channels of the input maps.
        channels: Number of channels C of each layer.
        strides: Stride of each layer. Default: 1.
        with_cp: Whether to use activation checkpointing for each layer in training.
        **layer: Further arguments of each ``HorstLayer``: ``order``, ``variant``, ``attention``,
            ``key_value`` and ``num_heads``.

    Raises:
        KeyError: If a name is unknown.
        UserError: If there are no layers, or not one stride per layer.
    """

    layer_type: type[Any] = HorstLayer

    def __init__(
        self,
        in_channels: int,
        channels: Sequence[int],
        strides: Sequence[int] | None = None,
        with_cp: bool = False,
        **layer: Any,
    ) -> None:
        super().__init__()
        strides = [1] * len(channels) if strides is None else strides
        if not channels or len(strides) != len(channels):
            raise UserError(
                "channels must not be empty and strides must have one per layer, got channels "
                f"{list(channels)} and strides {list(strides)}"
            )
        sizes = zip([in_channels, *channels[:-1]], channels, strides, strict=True)
        self.layers = nn.ModuleList(self.layer_type(*size, **layer) for size in sizes)
        recompute(self.layers, with_cp)
        self.out_channels = channels[-1]

    def forward(
        self,
        clip: Tensor,
        lengths: Tensor | None = None,
        states: Sequence[States] | None = None,
        outputs: list[Tensor] | None = None,
    ) -> tuple[HorstOutput, tuple[States, ...]]:
        """Process a clip; returns the outputs of the last layer and the states of all.

        See ``Recurrent``. The output y of each layer is appended to ``outputs``.
        """
        after = []
        before: Sequence[States | None] = states or [None] * len(self.layers)
        for layer, state in zip(self.layers, before, strict=True):
            output, state = layer(clip, lengths, state)
            clip = output.y
            after.append(state)
            if outputs is not None:
                outputs.append(output.y)
        return output, tuple(after)
