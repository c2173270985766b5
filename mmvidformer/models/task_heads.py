"""Heads that answer with several classes, with numbers, or at each step of time."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from mmvidformer.catalog import MODELS
from mmvidformer.layers.outputs import average_places
from mmvidformer.layers.samples import Sample, Samples
from mmvidformer.layers.scores import check_tokens
from mmvidformer.models.head import Head, TimeSformerHead
from mmvidformer.models.heads import AttentiveHead, MultiTaskHead, ZeroInitHead, refuse_unread
from mmvidformer.models.horst.layer import Features, HorstOutput

NO_LABEL = -1  # of a frame that is neither trained nor evaluated


def pool_clip(x: Features, lengths: Tensor | None = None) -> Tensor:
    """Average tokens (N, ..., D) to (N, D), or take the last step of a recurrent model."""
    if not isinstance(x, HorstOutput):
        return average_places(x)
    means = x.y.mean(dim=(-2, -1))
    # Not len(), which would fix the batch size of an exported graph.
    rows = torch.arange(means.shape[0], device=means.device)
    return means[rows, -1 if lengths is None else lengths.to(means.device) - 1]


def pool_space(x: Features, head: nn.Module) -> Tensor:
    """Average tokens (N, T, H, W, D), or outputs (N, T, D, h, w), over space to (N, T, D)."""
    if isinstance(x, HorstOutput):
        return x.y.mean(dim=(-2, -1))
    check_tokens(head, x)
    return x.mean(dim=(2, 3))


class SigmoidClasses(Head):
    """Loss and predictions of any number of classes a clip, each with a sigmoid.

    For MMAction2's datasets with ``multi_class=True``. A subclass adds what maps features to
    logits. Arguments of ``Head`` have other defaults: ``loss_cls``, of logits and labels
    (N, classes), is ``BCELossWithLogits``; another is,
    for many rare classes, ``dict(type='timm.loss.AsymmetricLossMultiLabel')``.
    ``average_clips='prob'`` averages the probabilities of the views, ``'score'`` their logits.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        options = {"loss_cls": dict(type="BCELossWithLogits"), "average_clips": "prob", **kwargs}
        super().__init__(*args, **{**options, "multi_class": True})
        refuse_unread(self, kwargs, "label_smooth_eps")
        if kwargs.get("multi_class", True) is not True:
            refuse_unread(self, kwargs, "multi_class")

    def loss_by_feat(self, cls_scores: Tensor, data_samples: Samples) -> dict[str, Tensor]:
        """Compute the loss of logits (N, classes)."""
        labels = torch.stack([sample.gt_label for sample in data_samples]).to(cls_scores)
        return {"loss_cls": self.loss_cls(cls_scores, labels)}

    def average_clip(self, cls_scores: Tensor, num_segs: int = 1) -> Tensor:
        """Average the views of logits (N * views, classes)."""
        if self.average_clips == "prob":
            return cls_scores.sigmoid().unflatten(0, (-1, num_segs)).mean(dim=1)
        return super().average_clip(cls_scores, num_segs)


@MODELS.add
class MultiLabelHead(SigmoidClasses, TimeSformerHead):
    """A linear layer for any number of classes a clip (``SigmoidClasses``).

    It reads features (N, D), tokens, or outputs of a recurrent model (``pool_clip``).

    Args:
        num_classes: Number of classes.
        in_channels: Feature width D.
        **kwargs: Further arguments of ``TimeSformerHead``.
    """

    def __init__(self, num_classes: int, in_channels: int, **kwargs: Any) -> None:
        super().__init__(num_classes, in_channels, **kwargs)

    def forward(self, x: Features, lengths: Tensor | None = None, **kwargs: Any) -> Tensor:
        """Return logits (N, num_classes)."""
        return super().forward(pool_clip(x, lengths))


@MODELS.add
class MultiLabelAttentiveHead(SigmoidClasses, AttentiveHead):
    """An ``AttentiveHead``, with its arguments, for any number of classes (``SigmoidClasses``)."""

    def __init__(self, num_classes: int, in_channels: int, num_heads: int, **kwargs: Any):
        super().__init__(num_classes, in_channels, num_heads, **kwargs)


@MODELS.add
class NumberHead(ZeroInitHead):
    """A linear layer for one number a clip, or several; it reads what ``MultiLabelHead`` reads.

    The outputs are in the units of the annotation. The loss compares them after subtraction of
    ``mean`` and division by ``std``, which are buffers, so that a checkpoint has them. Training
    starts with the mean.

    Args:
        num_classes: Number of values.
        in_channels: Feature width D.
        mean: Mean of each value in the training data.
        std: Standard deviation of each.
        **kwargs: Further arguments of ``TimeSformerHead``; ``loss_cls``, of standardized values, is
            PyTorch's ``SmoothL1Loss`` by default.
    """

    def __init__(
        self,
        num_classes: int,
        in_channels: int,
        mean: float | Sequence[float] = 0.0,
        std: float | Sequence[float] = 1.0,
        **kwargs: Any,
    ) -> None:
        options = {"loss_cls": dict(type="torch.nn.SmoothL1Loss"), **kwargs}
        super().__init__(num_classes, in_channels, **options)
        refuse_unread(self, kwargs, "label_smooth_eps", "average_clips", "multi_class")
        self.mean: Tensor
        self.std: Tensor
        for name, value in dict(mean=mean, std=std).items():
            values = torch.as_tensor(value, dtype=torch.float).expand(num_classes).clone()
            self.register_buffer(name, values)

    def forward(self, x: Features, lengths: Tensor | None = None, **kwargs: Any) -> Tensor:
        """Return values (N, num_classes), or features (N, D) without ``fc_cls``."""
        outputs = super().forward(pool_clip(x, lengths))
        if not isinstance(self.fc_cls, nn.Linear):  # VideoClassifier replaces it
            return outputs
        return outputs * self.std + self.mean

    def loss_by_feat(self, cls_scores: Tensor, data_samples: Samples) -> dict[str, Tensor]:
        """Compute the loss, and the mean absolute error, of values (N, num_classes)."""
        truth = torch.stack([sample.gt_label for sample in data_samples]).to(cls_scores)
        predicted = (cls_scores - self.mean) / self.std
        target = (truth - self.mean) / self.std
        error = (cls_scores - truth).abs().mean().detach()
        return {"loss_cls": self.loss_cls(predicted, target), "mae": error}

    def average_clip(self, cls_scores: Tensor, num_segs: int = 1) -> Tensor:
        """Average the views of values (N * views, num_classes)."""
        return cls_scores.unflatten(0, (-1, num_segs)).mean(dim=1)


@MODELS.add
class FramesHead(TimeSformerHead):
    """A linear layer on the tokens of each step of time, averaged over space.

    The backbone returns tokens (``pool='none'``), or is recurrent. In training a sample has the
    class of each frame (``LabelFrames``), and a step takes that of its middle frame. In testing the
    clips of a video overlap (``CoverFrames``); probabilities of a step are averaged over them.

    Args:
        num_classes: Number of classes, with that of the background if there is one.
        in_channels: Token width D.
        **kwargs: Further arguments of ``TimeSformerHead`` (``loss_cls``, ``dropout_ratio``, ...).
    """

    answers_parts = True  # of a clip: a sample has not one label
    output_shape = "(batch, steps, classes)"  # of an exported graph, as its file says

    def __init__(self, num_classes: int, in_channels: int, **kwargs: Any) -> None:
        super().__init__(num_classes, in_channels, **{**kwargs, "average_clips": "prob"})
        refuse_unread(self, kwargs, "label_smooth_eps", "average_clips", "multi_class")

    def forward(self, x: Features, **kwargs: Any) -> Tensor:
        """Map tokens (N, T, H, W, D), or outputs (N, T, D, h, w), to logits (N, T, classes)."""
        return super().forward(pool_space(x, self))

    def loss_by_feat(self, cls_scores: Tensor, data_samples: Samples) -> dict[str, Tensor]:
        """Compute the loss and the accuracy of logits (N, T, classes)."""
        labels = torch.stack([sample.gt_label for sample in data_samples]).to(cls_scores.device)
        steps, frames = cls_scores.shape[1], labels.shape[1]
        labels = labels[:, ((torch.arange(steps) + 0.5) * frames / steps).long()]
        known = labels != NO_LABEL
        if not known.any():
            return {"loss_cls": cls_scores.sum() * 0}
        logits, labels = cls_scores[known], labels[known]
        accuracy = (logits.argmax(dim=1) == labels).float().mean()
        return {"loss_cls": self.loss_cls(logits, labels), "frame_acc": accuracy}

    def predict_by_feat(self, cls_scores: Tensor, data_samples: Samples) -> Samples:
        """Store the probabilities of all steps of a video, (steps, classes), as its scores.

        ``step`` in the metainfo is the number of frames of a step.
        """
        # (N * views, T, classes) -> (N, views, T, classes)
        probabilities = cls_scores.softmax(dim=-1).unflatten(0, (len(data_samples), -1))
        for sample, views in zip(data_samples, probabilities, strict=True):
            scores, step = merge_clips(views, sample)
            sample.set_pred_score(scores)
            sample.set_metainfo({"step": step})
        return data_samples


def merge_clips(views: Tensor, sample: Sample) -> tuple[Tensor, float]:
    """Average the steps (views, T, classes) of a video's clips where they overlap.

    Args:
        views: Probabilities, first all clips of a crop, as ``FormatShape`` orders them.
        sample: Data sample whose metainfo has what ``CoverFrames`` sets.

    Returns:
        Probabilities (steps, classes) of the whole video, and the number of frames of a step.
    """
    clips, steps = sample.num_clips, views.shape[1]
    frames = torch.as_tensor(sample.frame_inds, dtype=torch.float).view(clips, -1)
    step = frames.shape[1] / steps * sample.frame_step
    # The step of the video, counted from its first frame, that holds the middle of each step.
    centers = frames.unflatten(1, (steps, -1)).mean(dim=2) + sample.frame_step / 2
    total = max(round(sample.total_frames / step), 1)
    places = ((centers - sample.start_index) / step).long().clamp(0, total - 1).to(views.device)
    values = views.unflatten(0, (-1, clips)).mean(dim=0).flatten(0, 1)
    sums = values.new_zeros(total, values.shape[1]).index_add(0, places.flatten(), values)
    counts = places.flatten().bincount(minlength=total).clamp(min=1)
    return sums / counts[:, None], step


@MODELS.add
class MultiTaskWrapper(MultiTaskHead):
    """A head of MMAction2 whose classes are those of several tasks, as those of ``MultiTaskHead``.

    Args:
        tasks: Number of classes of each task, as in ``MultiTaskHead``.
        head: Config of the head, without its number of classes.
        **kwargs: Further arguments of ``MultiTaskHead``, of losses and predictions.
    """

    fc_cls: Any

    def __init__(self, tasks: Mapping[str, int], head: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(tasks, head["in_channels"], **kwargs)
        self.fc_cls = MODELS.build({**head, "num_classes": self.num_classes})

    def init_weights(self) -> None:
        """Initialize the head as MMAction2 does."""
        self.fc_cls.init_weights()

    def forward(self, x: Any, **kwargs: Any) -> Tensor:
        """Map what the head reads to logits (N, sum of classes)."""
        return self.fc_cls(x, **kwargs)
