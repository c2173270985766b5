from mmvidformer.registry import MODELS  # isort: skip  (repairs MMAction2 first)

from mmaction.models.heads import BaseHead
from torch import Tensor, nn

from mmvidformer.layers import INITS, AttentivePooling
from mmvidformer.layers.config import Choice


@MODELS.register_module()
class AttentiveHead(BaseHead):
    """Pool tokens by the attention of a learned query and classify them (V-JEPA's classifier).

    It takes the tokens of a backbone with ``pool="none"``.

    Args:
        num_classes: Number of classes.
        in_channels: Token width D.
        num_heads: Number of attention heads.
        depth: Number of blocks of self-attention before; see ``layers.AttentivePooling``.
        mlp_ratio: Hidden width of the MLPs over D.
        norm: Norm, as in ``EncoderConfig``.
        dropout_ratio: Dropout rate of the pooled features.
        **kwargs: Further arguments of MMAction2's ``BaseHead`` (``loss_cls``, ``label_smooth_eps``,
            ``topk``, ``average_clips``, ...).
    """

    def __init__(
        self,
        num_classes: int,
        in_channels: int,
        num_heads: int,
        depth: int = 0,
        mlp_ratio: float = 4.0,
        norm: Choice = "layer",
        dropout_ratio: float = 0.0,
        **kwargs: object,
    ) -> None:
        super().__init__(num_classes, in_channels, **kwargs)
        self.pooling = AttentivePooling(in_channels, num_heads, depth, mlp_ratio, norm)
        self.dropout = nn.Dropout(dropout_ratio)
        self.fc_cls = nn.Linear(in_channels, num_classes)

    def init_weights(self) -> None:
        """Draw linear weights from a truncated normal (deviation 0.02), and set biases to zero."""
        self.apply(INITS["timm"])

    def forward(self, x: Tensor, **kwargs) -> Tensor:
        """Map tokens (N, T, H, W, D), or any (N, ..., D), to logits (N, num_classes)."""
        return self.fc_cls(self.dropout(self.pooling(x)))
