"""A video backbone on still images, for the image projects of OpenMMLab."""

from collections.abc import Mapping

from torch import Tensor, nn

from mmvidformer.registry import MODELS


@MODELS.register_module()
class ImageMaps(nn.Module):
    """Feature maps of images, each taken as a clip of one frame.

    MMPretrain's classifiers and MMDetection's detectors take it as their backbone
    (docs/other_projects.md).

    Args:
        backbone: Config of a backbone of this package, for clips of one frame: ``clip_len=1``,
            and for ViViT ``tubelet=(1, h, w)``.

    Raises:
        ValueError: If the backbone keeps no places, as ViViT's factorised encoder.
    """

    def __init__(self, backbone: Mapping) -> None:
        super().__init__()
        if backbone.get("scheme", "") == "factorized_encoder":
            raise ValueError(
                "the factorised encoder pools each frame and has no map; take scheme='spacetime'"
            )
        # From a sibling project's scope the names of ours are not found.
        self.backbone = MODELS.build({"_scope_": "mmvidformer", **backbone})

    def init_weights(self) -> None:
        """Load what the backbone's ``init_from`` names, if anything."""
        self.backbone.init_weights()

    def forward(self, images: Tensor) -> tuple[Tensor]:
        """Map normalised images (B, 3, H', W') to one feature map (B, D, H, W)."""
        grid, _ = self.backbone.forward_features(images[:, :, None])
        return (grid[:, 0].permute(0, 3, 1, 2),)
