"""Losses of classification heads."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvidformer.catalog import MODELS


class WeightedLoss(nn.Module):
    """A loss with a weight, and one of each class.

    Args:
        loss_weight: Factor of the loss.
        class_weight: Weight of each class. Default: all are equal.
    """

    def __init__(
        self, loss_weight: float = 1.0, class_weight: Sequence[float] | None = None
    ) -> None:
        super().__init__()
        self.loss_weight = loss_weight
        # No buffer, which would be in checkpoints.
        self.class_weight = None if class_weight is None else torch.tensor(class_weight).float()

    def weights(self, scores: Tensor) -> Tensor | None:
        """Return the weights of the classes on the device of the scores."""
        return None if self.class_weight is None else self.class_weight.to(scores.device)


@MODELS.add_stand_in
class CrossEntropyLoss(WeightedLoss):
    """Cross-entropy of logits (N, classes) and labels (N,), or distributions (N, classes)."""

    def forward(self, cls_score: Tensor, label: Tensor) -> Tensor:
        """Return the mean over the labels, weighted as PyTorch's ``cross_entropy`` does."""
        weights = self.weights(cls_score)
        if cls_score.shape != label.shape:
            return self.loss_weight * F.cross_entropy(cls_score, label, weights)
        log_shares = F.log_softmax(cls_score, 1)
        if weights is None:
            return self.loss_weight * -(label * log_shares).sum(1).mean()
        losses = -(label * log_shares * weights).sum(1)
        return self.loss_weight * losses.sum() / (weights * label).sum()


@MODELS.add_stand_in
class BCELossWithLogits(WeightedLoss):
    """Binary cross-entropy of logits and labels (N, classes), averaged over both."""

    def forward(self, cls_score: Tensor, label: Tensor) -> Tensor:
        """Return the mean."""
        weights = self.weights(cls_score)
        return self.loss_weight * F.binary_cross_entropy_with_logits(cls_score, label, weights)
