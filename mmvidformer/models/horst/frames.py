"""What turns each frame into a map, before the recurrent layers."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from mmvidformer.models.horst.parts import FeedForward
from mmvidformer.registry import MODELS


class FrozenFrames(nn.Module, ABC):
    """A pretrained network on single frames that is not trained.

    Frozen, it has no gradients, and its norms keep their statistics in training too.

    Args:
        frozen: Whether it is.
    """

    def __init__(self, frozen: bool = True) -> None:
        super().__init__()
        self.frozen = frozen

    def freeze(self) -> None:
        """Stop gradients, if frozen; to be called when the parameters exist."""
        self.requires_grad_(not self.frozen)
        self.train(self.training)

    def train(self, mode: bool = True) -> "FrozenFrames":
        """Switch between training and evaluation; frozen, stay in evaluation."""
        return super().train(mode and not self.frozen)

    @abstractmethod
    def features(self, frames: Tensor) -> Tensor:
        """Map frames (N, 3, H, W) to maps (N, C, h, w)."""

    def forward(self, frames: Tensor) -> Tensor:
        """Map frames (N, 3, H, W) to maps (N, C, h, w)."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
            return self.features(frames)


@MODELS.register_module()
class TimmFrames(FrozenFrames):
    """The last map of a timm model, convolutional or not.

    Args:
        model: Name in timm, of a model that gives feature maps (``features_only``).
        pretrained: Load timm's weights.
        frozen: Do not train it.
    """

    def __init__(self, model: str, pretrained: bool = False, frozen: bool = True) -> None:
        super().__init__(frozen)
        import timm  # slow to import, and only needed here

        self.net = timm.create_model(
            model, pretrained=pretrained, features_only=True, out_indices=(-1,)
        )
        self.out_channels = self.net.feature_info.channels()[-1]
        self.freeze()

    def features(self, frames: Tensor) -> Tensor:
        """Map frames (N, 3, H, W) to maps (N, C, h, w)."""
        maps = self.net(frames)[0]
        if maps.shape[1] != self.out_channels:  # some give channels last
            maps = maps.permute(0, 3, 1, 2)
        return maps


@MODELS.register_module()
class ConvStem(nn.Sequential):
    """Two 3 x 3 convolutions of stride 2: the paper's stem for early recognition.

    Norm and activation are not in the paper; as in the layer's code, a norm over channels and
    places, and SiLU. 224 x 224 pixels become 56 x 56 places.

    Args:
        channels: Channels C of both.
    """

    def __init__(self, channels: int = 128) -> None:
        super().__init__(
            *(FeedForward(before, channels, nn.SiLU, stride=2) for before in (3, channels))
        )
        self.out_channels = channels


@MODELS.register_module()
class StoredMaps(nn.Identity):
    """Stands where the network on frames would, for maps that were computed before.

    Args:
        out_channels: Channels C of the maps.
    """

    def __init__(self, out_channels: int) -> None:
        super().__init__()
        self.out_channels = out_channels
