"""Video backbones for still images, for the image projects of OpenMMLab."""

from collections.abc import Mapping

from torch import Tensor, nn


class ImageMaps(nn.Module):
    """Feature maps of images, each processed as a clip of one frame.

    A backbone for MMPretrain's classifiers and MMDetection's detectors (docs/other_projects.md).

    Args:
        backbone: Config of a backbone of this package for clips of one frame: ``clip_len=1``, and
            for ViViT ``tubelet=(1, h, w)``.

    Raises:
        ValueError: If the backbone has no feature map, such as ViViT's factorized encoder.
    """

    def __init__(self, backbone: Mapping) -> None:
        super().__init__()
        from mmvidformer.registry import MODELS  # needs MMAction2

        # Unscoped names would be looked up in the scope of the image project.
        self.backbone = MODELS.build({"_scope_": "mmvidformer", **backbone})
        self.backbone.encoders[-1].passes_grid = True
        if self.backbone.encoders[0].out_grid((1, 2, 2)) != (1, 2, 2):
            raise ValueError(
                "the backbone must keep a feature map, but its first encoder pools each frame, as "
                "ViViT's factorized_encoder does; use scheme='spacetime', for example"
            )

    def init_weights(self) -> None:
        """Load the image model ``init_from`` of the backbone, if any."""
        self.backbone.init_weights()

    def forward(self, images: Tensor) -> tuple[Tensor]:
        """Map normalized images (B, 3, H', W') to one feature map (B, D, H, W)."""
        grid, _ = self.backbone.forward_features(images[:, :, None])
        return (grid[:, 0].permute(0, 3, 1, 2),)
