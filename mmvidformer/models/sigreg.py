"""Pretraining without a decoder: views of a clip agree, and their features are spread (LeJEPA)."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, distributed, nn

from mmvidformer.catalog import MODELS
from mmvidformer.errors import UserError
from mmvidformer.layers import INITS
from mmvidformer.layers.abilities import refuse
from mmvidformer.layers.outputs import average_places
from mmvidformer.models.fast.token_dropping import draw_tokens
from mmvidformer.models.steps import StepModel
from mmvidformer.models.video_transformer import VideoTransformer

POINTS, END = 17, 3.0  # of the integral
DIRECTIONS = 256


def measure_gaussian(samples: Tensor) -> Tensor:
    """Return how far one-dimensional samples are from a standard normal distribution.

    It is the statistic of Epps and Pulley (1983): N times the integral over t, from -3 to 3 by
    trapezoids, of the squared distance of the characteristic functions, times ``exp(-t^2 / 2)``.

    Processes of a group measure the samples of all; each has N.

    Args:
        samples: Samples (..., N, K) of K distributions.

    Returns:
        Statistics (..., K).
    """
    t = torch.linspace(0, END, POINTS, device=samples.device, dtype=samples.dtype)
    normal = torch.exp(-t.square() / 2)
    angles = samples[..., None] * t
    means = torch.stack([angles.cos().mean(dim=-3), angles.sin().mean(dim=-3)])
    ranks = _count_ranks()
    if ranks > 1:
        everywhere = means.detach().clone()
        distributed.all_reduce(everywhere)
        # The value is that of all; gradients are those of the own samples, which DDP averages.
        means = means + (everywhere / ranks - means.detach())
    real, imaginary = means
    distances = ((real - normal).square() + imaginary.square()) * normal
    # Both halves of the integral are equal.
    return 2 * ranks * samples.shape[-2] * torch.trapezoid(distances, t, dim=-1)


def draw_directions(width: int, device: torch.device) -> Tensor:
    """Return random unit vectors (D, K), the same in all processes of a group."""
    directions = torch.randn(width, DIRECTIONS, device=device)
    if _count_ranks() > 1:
        distributed.broadcast(directions, src=0)
    return directions / directions.norm(dim=0)


def _count_ranks() -> int:
    is_group = distributed.is_available() and distributed.is_initialized()
    return distributed.get_world_size() if is_group else 1


@MODELS.add
class SigRegPretraining(StepModel):
    """Pretraining on views of a clip that differ in their tokens (Balestriero and LeCun 2025).

    A view is a clip of which tokens were dropped at random, as LeVJEPA has it. Features of the
    views are close to their mean, and those of a batch normal in random directions (SIGReg), so
    that they do not collapse. There is neither a decoder nor a teacher. The batches of all
    processes are tested as one.

    A batch is (B, views, 3, T, H, W); these views are clips of their own. ``forward`` returns
    ``loss_views`` and ``loss_normal`` in mode ``'loss'``, and features (B views, D) in others.

    Args:
        backbone: Config of a ``VideoTransformer`` or a preset, or the module.
        mask_ratio: Share of the tokens that a view is without.
        views: Number of views of a clip.
        weight: Weight of the second loss; the first one has the rest.
        width: Width of the projected features, which are compared.
        data_preprocessor: Config of the preprocessor.

    Raises:
        UserError: If ``mask_ratio`` is not between 0 and 1, there is one view, or the backbone
            needs the tokens of all places.
    """

    whole: tuple[str, ...] = ()  # tokens are never replaced

    def __init__(
        self,
        backbone: Mapping[str, Any] | VideoTransformer,
        mask_ratio: float = 0.75,
        views: int = 4,
        weight: float = 0.05,
        width: int = 64,
        data_preprocessor: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(data_preprocessor)
        built: Any = MODELS.build(backbone) if isinstance(backbone, Mapping) else backbone
        if not 0 < mask_ratio < 1 or views < 2:
            raise UserError(
                f"mask_ratio must be between 0 and 1, and views at least 2, got {mask_ratio} and "
                f"{views}"
            )
        refuse(built.conflicts, "places", "pretraining on views: ")
        self.backbone, self.mask_ratio, self.views, self.weight = built, mask_ratio, views, weight
        hidden = 4 * built.embed_dims
        self.projector = nn.Sequential(
            nn.Linear(built.embed_dims, hidden),
            nn.LayerNorm(hidden),
            nn.GELU(),
            nn.Linear(hidden, width),
        )
        self.projector.apply(INITS["timm"])

    def forward(self, inputs: Tensor, data_samples: Any = None, mode: str = "tensor") -> Any:
        """Return the losses, or features; see the class."""
        clips = inputs.flatten(0, 1)
        if mode != "loss":
            return average_places(self.backbone(clips))
        features = []
        for _ in range(self.views):
            kept = draw_tokens(self.backbone, clips, 1 - self.mask_ratio)
            features.append(average_places(self.backbone(clips, kept=kept)))
        projected = self.projector(torch.stack(features)).float()  # (views, B, width)
        directions = draw_directions(projected.shape[-1], projected.device)
        normal = measure_gaussian((projected @ directions).float()).mean()
        apart = (projected - projected.mean(dim=0)).square().mean()
        return {"loss_views": (1 - self.weight) * apart, "loss_normal": self.weight * normal}
