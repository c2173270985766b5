"""Classification heads that pool tokens themselves."""

from collections.abc import Mapping

from mmaction.models.heads import BaseHead
from torch import Tensor, nn

from mmvidformer.registry import MODELS


@MODELS.register_module()
class TokenMlpHead(BaseHead):
    """Pool tokens and classify them by a hidden layer.

    Dropout on every token, mean over the grid, layer norm (epsilon 1e-5), linear layer, GELU,
    dropout, linear layer: the head of the official code of feature fixation, for tokens that the
    backbone has normalised. Its checkpoints hold another linear layer, ``new_fc``, that is never
    used; here there is none. Linear weights start as truncated N(0, 0.02), biases at zero.

    Args:
        num_classes: Classes.
        in_channels: Token width D.
        hidden_dim: Width of the hidden layer.
        loss_cls: Loss.
        dropout_ratio: Rate of both dropouts.
        **kwargs: Further arguments of MMAction2's ``BaseHead`` (``label_smooth_eps``, ``topk``,
            ``average_clips``, ...).
    """

    def __init__(
        self,
        num_classes: int,
        in_channels: int,
        hidden_dim: int = 768,
        loss_cls: Mapping | None = None,
        dropout_ratio: float = 0.5,
        **kwargs: object,
    ) -> None:
        loss_cls = loss_cls or {"type": "CrossEntropyLoss"}
        super().__init__(num_classes, in_channels, loss_cls=loss_cls, **kwargs)
        self.dropout = nn.Dropout(dropout_ratio)
        self.norm = nn.LayerNorm(in_channels)
        self.fc_hidden = nn.Linear(in_channels, hidden_dim)
        self.act = nn.GELU()
        self.fc_cls = nn.Linear(hidden_dim, num_classes)

    def init_weights(self) -> None:
        """Draw the linear weights and set the biases to zero."""
        for layer in (self.fc_hidden, self.fc_cls):
            nn.init.trunc_normal_(layer.weight, std=0.02)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, **kwargs) -> Tensor:
        """Map tokens (N, T, H, W, D), or any (N, ..., D), to logits (N, num_classes)."""
        x = self.norm(self.dropout(x).flatten(1, -2).mean(dim=1))
        return self.fc_cls(self.dropout(self.act(self.fc_hidden(x))))
