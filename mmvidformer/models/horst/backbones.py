"""Frame backbones: what turns each frame into a map, before the recurrent layers."""

from typing import Any

from torch import Tensor, nn

from mmvidformer.models.horst.convolutions import FeedForward


class FrameBackbone(nn.Module):
    """A pretrained network on single frames that can be frozen.

    A frozen network has no gradients and is always in evaluation mode. Subclasses map frames
    (N, 3, H, W) to maps (N, C, h, w), and call ``freeze`` when their parameters exist.

    Args:
        frozen: Whether to freeze the network.
    """

    def __init__(self, frozen: bool = True) -> None:
        super().__init__()
        self.frozen = frozen

    def freeze(self) -> None:
        """Disable gradients if frozen."""
        self.requires_grad_(not self.frozen)
        self.train(self.training)

    def train(self, mode: bool = True) -> "FrameBackbone":
        """Set the mode; a frozen network stays in evaluation mode."""
        return super().train(mode and not self.frozen)


class TimmFrames(FrameBackbone):
    """The last feature map of a timm model.

    Args:
        model: Name of a timm model that supports ``features_only``.
        pretrained: Whether to load timm's weights.
        frozen: Whether to freeze the model.
    """

    def __init__(self, model: str, pretrained: bool = False, frozen: bool = True) -> None:
        super().__init__(frozen)
        import timm  # slow to import, and needed here only

        self.net = timm.create_model(
            model, pretrained=pretrained, features_only=True, out_indices=(-1,)
        )
        info: Any = self.net.feature_info
        self.out_channels = info.channels()[-1]
        self.freeze()

    def forward(self, frames: Tensor) -> Tensor:
        """Map frames (N, 3, H, W) to maps (N, C, h, w)."""
        maps = self.net(frames)[0]
        if maps.shape[1] != self.out_channels:  # some models return channels last
            maps = maps.permute(0, 3, 1, 2)
        return maps


class ConvStem(nn.Sequential):
    """Two 3 x 3 convolutions of stride 2: the paper's stem for early recognition.

    Norm and activation are those of the layer. 224 x 224 pixels become 56 x 56 places.

    Args:
        channels: Number of channels C of both convolutions.
    """

    def __init__(self, channels: int = 128) -> None:
        super().__init__(
            FeedForward(3, channels, nn.SiLU, stride=2),
            FeedForward(channels, channels, nn.SiLU, stride=2),
        )
        self.out_channels = channels
