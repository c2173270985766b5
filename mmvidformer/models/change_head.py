"""A linear head that sees how tokens change, and when and where."""

from typing import Any

from torch import Tensor, nn

from mmvidformer.catalog import MODELS
from mmvidformer.layers import INITS
from mmvidformer.layers.changes import count_changes, measure_changes
from mmvidformer.models.head import Head


@MODELS.add
class ChangeHead(Head):
    """Classify absolute differences of successive tokens (``layers.changes``).

    It takes the tokens of a backbone with ``pool="none"``. The mean of the tokens, which other
    heads read, loses what happens between frames.

    Args:
        num_classes: Number of classes.
        in_channels: Width L D of the tokens.
        layers: Number L of blocks, the ``out_layers`` of the backbone.
        **kwargs: Further arguments of ``Head``, such as ``loss_cls`` and ``topk``.
    """

    def __init__(self, num_classes: int, in_channels: int, layers: int = 1, **kwargs: Any) -> None:
        super().__init__(num_classes, in_channels, **kwargs)
        self.layers, self.width = layers, in_channels // layers
        self.fc_cls = nn.Linear(count_changes(self.width, layers), num_classes)

    def init_weights(self) -> None:
        """Draw linear weights from a truncated normal (deviation 0.02), and set biases to zero."""
        self.apply(INITS["timm"])

    def forward(self, x: Tensor, **kwargs) -> Tensor:
        """Map tokens (N, T, H, W, L D), or their changes (N, C), to logits (N, num_classes)."""
        return self.fc_cls(x if x.dim() == 2 else measure_changes(x, self.layers))
