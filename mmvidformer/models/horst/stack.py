"""HORST layers one after the other."""

from collections.abc import Sequence

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mmvidformer.models.horst.layer import HorstLayer, HorstOutput, State
from mmvidformer.registry import MODELS


@MODELS.register_module()
class Horst(nn.Module):
    """Layers whose input is the output y of the layer before.

    The paper's nets: ``channels=[128, 256, 512, 512], strides=[1, 1, 2, 2]`` for early
    recognition, two layers of 1024 (EPIC-Kitchens-55) or 512 channels (100) for anticipation. The
    published class can only be built with layers of one width.

    Args:
        in_channels: Channels of the input maps.
        channels: Channels C of each layer.
        strides: Stride of each layer; default: 1.
        order: S, how many states each layer remembers.
        variant: As of ``HorstLayer``.
        attention: As of ``HorstLayer``.
        key_value: As of ``HorstLayer``.
        with_cp: Activation checkpointing of each layer in training.

    Raises:
        KeyError: If a name is unknown.
        ValueError: If there are no layers, or other than one stride a layer.
    """

    def __init__(
        self,
        in_channels: int,
        channels: Sequence[int],
        strides: Sequence[int] | None = None,
        order: int = 8,
        variant: str = "official",
        attention: str = "space_time",
        key_value: str | None = None,
        with_cp: bool = False,
    ) -> None:
        super().__init__()
        strides = [1] * len(channels) if strides is None else strides
        if not channels or len(strides) != len(channels):
            raise ValueError(
                f"HORST needs channels and a stride for each layer, got channels {list(channels)} "
                f"and strides {list(strides)}"
            )
        self.with_cp = with_cp
        self.out_channels = channels[-1]
        self.layers = nn.ModuleList(
            HorstLayer(before, width, stride, order, variant, attention, key_value)
            for before, width, stride in zip(
                [in_channels, *channels[:-1]], channels, strides, strict=True
            )
        )

    def forward(
        self, clip: Tensor, lengths: Tensor | None = None, states: Sequence[State] | None = None
    ) -> tuple[HorstOutput, tuple[State, ...]]:
        """Run over a clip.

        Args:
            clip: Maps (B, T, C_in, H, W).
            lengths: Steps of each clip (B,); default: all T.
            states: State of each layer to go on from.

        Returns:
            Outputs of the last layer (B, T, C, h, w), zero beyond the lengths, and the states.
        """
        after = []
        for layer, state in zip(self.layers, states or [()] * len(self.layers), strict=True):
            if self.with_cp and self.training:
                output, state = checkpoint(layer, clip, lengths, state, use_reentrant=False)
            else:
                output, state = layer(clip, lengths, state)
            clip = output.y
            after.append(state)
        return output, tuple(after)

    def step(
        self,
        x: Tensor,
        states: Sequence[State] | None = None,
        active: Tensor | None = None,
        count: Tensor | None = None,
    ) -> tuple[HorstOutput, tuple[State, ...]]:
        """Take one frame.

        Args:
            x: Maps (B, C_in, H, W).
            states: States after the frame before; default: none yet.
            active: Clips that still run, booleans (B,); default: all.
            count: Steps that each clip has behind it (B,), for states of constant shape; see
                ``HorstLayer.forward``.

        Returns:
            Outputs of the last layer (B, C, h, w), and the states.
        """
        after = []
        for layer, state in zip(self.layers, states or [()] * len(self.layers), strict=True):
            output, state = layer.step(x, state, active, count)
            x = output.y
            after.append(state)
        return output, tuple(after)
