"""What all heads share: loss and predictions of logits, as MMAction2's ``BaseHead`` has them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvidformer.catalog import MODELS
from mmvidformer.errors import UserError
from mmvidformer.layers.samples import Samples
from mmvidformer.layers.scores import score


class Head(nn.Module):
    """Loss and predictions of clips' logits; a subclass maps features to logits in ``forward``.

    Args:
        num_classes: Number of classes.
        in_channels: Feature width.
        loss_cls: Config of the loss of logits (N, classes) and labels.
        multi_class: Whether a clip has any number of classes.
        label_smooth_eps: Share of a label that is spread over all classes.
        topk: Accuracies that are logged in training: a number, or several.
        average_clips: ``'score'`` averages the logits of the views, ``'prob'`` their probabilities;
            None keeps the views.

    Raises:
        UserError: If ``topk`` or ``average_clips`` has another value.
    """

    def __init__(
        self,
        num_classes: int,
        in_channels: int,
        loss_cls: Mapping[str, Any] = {"type": "CrossEntropyLoss"},
        multi_class: bool = False,
        label_smooth_eps: float = 0.0,
        topk: int | Sequence[int] = (1, 5),
        average_clips: str | None = None,
    ) -> None:
        super().__init__()
        self.num_classes, self.in_channels = num_classes, in_channels
        self.loss_cls = MODELS.build(loss_cls)
        self.multi_class, self.label_smooth_eps = multi_class, label_smooth_eps
        self.topk = (topk,) if isinstance(topk, int) else tuple(topk)
        if min(self.topk, default=1) < 1:
            raise UserError(f"topk must be positive, got {topk}")
        if average_clips not in ("score", "prob", None):
            raise UserError(f"average_clips must be 'score', 'prob' or None, got {average_clips!r}")
        self.average_clips = average_clips

    def loss(self, feats: Any, data_samples: Samples, **kwargs: object) -> dict[str, Any]:
        """Compute the losses of features; ``kwargs`` are arguments of ``forward``."""
        return self.loss_by_feat(score(self, feats, kwargs), data_samples)

    def predict(self, feats: Any, data_samples: Samples, **kwargs: object) -> Samples:
        """Store the predictions of features; ``kwargs`` are arguments of ``forward``."""
        return self.predict_by_feat(score(self, feats, kwargs), data_samples)

    def loss_by_feat(self, cls_scores: Any, data_samples: Samples) -> dict[str, Any]:
        """Compute the loss of logits (N, classes), and accuracies if labels are hard."""
        labels = torch.stack([sample.gt_label for sample in data_samples])
        labels = labels.to(cls_scores.device).squeeze()
        is_soft_row = labels.dim() == 1 and len(labels) == self.num_classes
        if labels.dim() == 0 or (is_soft_row and len(cls_scores) == 1):
            labels = labels.unsqueeze(0)
        losses: dict[str, Any] = {}
        if cls_scores.shape != labels.shape:
            losses |= topk_accuracies(cls_scores, labels, self.topk)
        if eps := self.label_smooth_eps:
            if cls_scores.shape != labels.shape:
                labels = F.one_hot(labels, self.num_classes)
            labels = (1 - eps) * labels + eps / self.num_classes
        loss = self.loss_cls(cls_scores, labels)
        return losses | (loss if isinstance(loss, dict) else {"loss_cls": loss})

    def predict_by_feat(self, cls_scores: Any, data_samples: Samples) -> Samples:
        """Store scores, averaged over the views of logits (N * views, classes), and classes."""
        scores = self.average_clip(cls_scores, len(cls_scores) // len(data_samples))
        labels = scores.argmax(dim=-1, keepdim=True).detach()
        for sample, of_video, label in zip(data_samples, scores, labels, strict=True):
            sample.set_pred_score(of_video)
            sample.set_pred_label(label)
        return data_samples

    def average_clip(self, cls_scores: Tensor, num_segs: int = 1) -> Tensor:
        """Average the views of logits (N * views, classes), as ``average_clips`` says."""
        views = cls_scores.unflatten(0, (-1, num_segs))
        if self.average_clips is None:
            return views
        return (views.softmax(dim=2) if self.average_clips == "prob" else views).mean(dim=1)


@MODELS.add_stand_in
class TimeSformerHead(Head):
    """A linear layer, with dropout before it.

    Args:
        num_classes: Number of classes.
        in_channels: Feature width.
        init_std: Standard deviation of the normal that draws the initial weights.
        dropout_ratio: Dropout rate of the features.
        **kwargs: Further arguments of ``Head``.
    """

    def __init__(
        self,
        num_classes: int,
        in_channels: int,
        init_std: float = 0.02,
        dropout_ratio: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, in_channels, **kwargs)
        self.init_std, self.dropout_ratio = init_std, dropout_ratio
        self.dropout = nn.Dropout(dropout_ratio) if dropout_ratio else None
        self.fc_cls = nn.Linear(in_channels, num_classes)

    def init_weights(self) -> None:
        """Draw the weights from a truncated normal, and set the biases to zero."""
        init_linear(self.fc_cls, self.init_std)

    def forward(self, x: Any, *args: Any, **kwargs: Any) -> Tensor:
        """Map features (N, in_channels) to logits (N, num_classes)."""
        return self.fc_cls(x if self.dropout is None else self.dropout(x))


def init_linear(layer: nn.Linear, std: float) -> None:
    """Draw weights from a normal, truncated at -2 and 2, and set biases to zero.

    The draws are those of MMEngine's ``trunc_normal_init``, which PyTorch's of one seed are not.
    """
    share = math.erf(2 / (std * math.sqrt(2)))
    with torch.no_grad():
        layer.weight.uniform_(-share, share).erfinv_().mul_(std * math.sqrt(2)).clamp_(-2, 2)
        layer.bias.zero_()


def topk_accuracies(scores: Tensor, labels: Tensor, topk: Sequence[int]) -> dict[str, Tensor]:
    """Return ``top<k>_acc`` of logits (N, classes) and labels (N,) for each k."""
    best = scores.detach().topk(min(max(topk), scores.shape[1]), dim=1).indices
    hits = best == labels[:, None]
    return {f"top{k}_acc": hits[:, :k].any(dim=1).to(scores.dtype).mean() for k in topk}
