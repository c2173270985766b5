from collections.abc import Mapping

from torch import Tensor, nn

from mmvidformer.catalog import MODELS
from mmvidformer.errors import UserError


class FeatureMaps(nn.Module):
    """Feature maps of clips or images, with the channels first.

    A backbone for MMPretrain's classifiers, MMDetection's detectors, and MMAction2's detectors and
    heads in the place of a convolutional network (docs/migration.md).

    Args:
        backbone: Config of a ``VideoTransformer`` or preset. An image is a clip of one frame:
            ``clip_len=1``, and for ViViT ``stem=dict(tubelet=(1, h, w))``.

    Raises:
        UserError: If the backbone has no feature map, such as ViViT's factorized encoder, or
            trains on some of its tokens.
    """

    def __init__(self, backbone: Mapping) -> None:
        super().__init__()
        # Unscoped names would be looked up in the scope of the image project.
        self.backbone = MODELS.build({"_scope_": "mmvidformer", "pool": "none", **backbone})
        if self.backbone.pool != "none":
            raise UserError(f"pool of the backbone must be 'none', got {self.backbone.pool!r}")
        if self.backbone.token_keep < 1:
            raise UserError("a feature map has the places of all tokens: token_keep must be 1")
        for number, encoder in enumerate(self.backbone.encoders):
            if encoder.out_grid((1, 2, 2)) != (1, 2, 2):
                raise UserError(
                    f"the backbone must keep a feature map, but its encoder {number} pools each "
                    "frame, as in ViViT's factorized_encoder; use scheme='spacetime', for example"
                )

    def init_weights(self) -> None:
        """Load the image model ``init_from`` of the backbone, if any."""
        self.backbone.init_weights()

    def forward(self, x: Tensor) -> tuple[Tensor]:
        """Map normalized clips (B, 3, T', H', W') or images (B, 3, H', W') to one feature map.

        Returns:
            (B, D, T, H, W) or, of images, (B, D, H, W).
        """
        if x.dim() == 4:
            return (self.backbone(x[:, :, None])[:, 0].movedim(-1, 1),)
        return (self.backbone(x).movedim(-1, 1),)
