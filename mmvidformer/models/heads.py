"""Classification heads that MMAction2 lacks."""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from mmaction.evaluation import top_k_accuracy
from mmaction.models.heads import BaseHead, TimeSformerHead
from mmaction.structures import ActionDataSample
from torch import Tensor, nn

from mmvidformer.registry import MODELS


def _zero(layer: nn.Linear) -> None:
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)


@MODELS.register_module()
class ZeroInitHead(TimeSformerHead):
    """MMAction2's linear head on a feature vector, with weights that start at zero.

    Scenic's ViViT starts its output projection there; ``TimeSformerHead(init_std=0)`` divides by
    zero. Arguments are those of ``TimeSformerHead``.
    """

    def init_weights(self) -> None:
        """Set weights and biases to zero."""
        _zero(self.fc_cls)


@MODELS.register_module()
class MultiTaskHead(BaseHead):
    """One linear layer whose outputs are the classes of several tasks, one after the other.

    ViViT on EPIC-Kitchens-100 (section 4.1 and supplementary): 397 outputs, 300 nouns and then
    97 verbs, the loss is the mean of the tasks' cross-entropies. A sample's ``gt_label`` holds a
    class for each task in this order, or, after mixing, a distribution over all outputs. The
    prediction is a dictionary of scores; the action is left to the metric, as its 29100 products
    are not worth carrying.

    Args:
        tasks: Classes of each task by its name, in the order of the outputs.
        in_channels: Feature width D.
        loss_cls: Loss of a task; must take soft labels.
        dropout_ratio: Dropout on the features.
        label_smooth_eps: Label smoothing, within each task, after mixing.
        topk: Which training accuracies are logged.
        average_clips: ``'score'`` averages the views' logits (ViViT), ``'prob'`` their
            probabilities, None keeps the views.

    Raises:
        ValueError: If there are no tasks, or a label fits neither form.
    """

    def __init__(
        self,
        tasks: Mapping[str, int],
        in_channels: int,
        loss_cls: Mapping | None = None,
        dropout_ratio: float = 0.0,
        label_smooth_eps: float = 0.0,
        topk: int | tuple[int, ...] = (1, 5),
        average_clips: str | None = "score",
    ) -> None:
        if not tasks:
            raise ValueError("a multi-task head needs tasks, as in dict(noun=300, verb=97)")
        super().__init__(
            sum(tasks.values()),
            in_channels,
            loss_cls=loss_cls or {"type": "CrossEntropyLoss"},
            label_smooth_eps=label_smooth_eps,
            topk=topk,
            average_clips=average_clips,
        )
        self.tasks = dict(tasks)
        self.dropout = nn.Dropout(dropout_ratio)
        self.fc_cls = nn.Linear(in_channels, self.num_classes)

    def init_weights(self) -> None:
        """Set weights and biases to zero, as scenic does."""
        _zero(self.fc_cls)

    def forward(self, x: Tensor, **kwargs) -> Tensor:
        """Map features (N, D) to the logits of all tasks (N, sum of classes)."""
        return self.fc_cls(self.dropout(x))

    def loss_by_feat(
        self, cls_scores: Tensor, data_samples: list[ActionDataSample]
    ) -> dict[str, Tensor]:
        """Mean of the tasks' losses, each task's loss, and accuracies where labels are hard.

        Args:
            cls_scores: Logits (N, sum of classes).
            data_samples: Samples with ``gt_label``.

        Returns:
            ``loss_cls``, and for each task ``<task>_ce`` and ``<task>_top<k>_acc`` (not losses
            by name, so that the runner only logs them).
        """
        labels = torch.stack([sample.gt_label for sample in data_samples]).to(cls_scores.device)
        logged, losses = {}, []
        for name, scores, target, hard in self._split_labels(cls_scores, labels):
            if hard is not None:
                accuracies = top_k_accuracy(
                    scores.detach().float().cpu().numpy(), hard.cpu().numpy(), self.topk
                )
                for k, accuracy in zip(self.topk, accuracies, strict=True):
                    logged[f"{name}_top{k}_acc"] = scores.new_tensor(accuracy)
            eps = self.label_smooth_eps
            loss = self.loss_cls(scores, (1 - eps) * target + eps / target.shape[1])
            logged[f"{name}_ce"] = loss.detach()
            losses.append(loss)
        return {"loss_cls": torch.stack(losses).mean(), **logged}

    def _split_labels(self, scores: Tensor, labels: Tensor) -> list[tuple]:
        """For each task: name, logits, soft target and hard label (None after mixing)."""
        sizes = list(self.tasks.values())
        parts = scores.split(sizes, dim=1)
        if labels.shape[1] == self.num_classes:
            targets, hards = labels.to(scores.dtype).split(sizes, dim=1), [None] * len(sizes)
        elif labels.shape[1] == len(sizes):
            hards = labels.unbind(1)
            targets = [
                F.one_hot(hard, size).to(scores.dtype)
                for hard, size in zip(hards, sizes, strict=True)
            ]
        else:
            raise ValueError(
                f"labels of shape {tuple(labels.shape)} are neither a class for each of the tasks "
                f"{list(self.tasks)} nor distributions over all {self.num_classes} outputs"
            )
        return list(zip(self.tasks, parts, targets, hards, strict=True))

    def predict_by_feat(
        self, cls_scores: Tensor, data_samples: list[ActionDataSample]
    ) -> list[ActionDataSample]:
        """Average the views and store a score vector for each task.

        Args:
            cls_scores: Logits (N * views, sum of classes).
            data_samples: N samples; gets ``pred_score``, a dictionary by task.

        Returns:
            The samples.
        """
        views = len(cls_scores) // len(data_samples)
        fused = {
            name: self.average_clip(scores, num_segs=views)
            for name, scores in zip(
                self.tasks, cls_scores.split(list(self.tasks.values()), dim=1), strict=True
            )
        }
        for i, sample in enumerate(data_samples):
            sample.set_pred_score({name: scores[i] for name, scores in fused.items()})
        return data_samples
