"""Heads on the outputs of HORST: for early recognition and for anticipation."""

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvidformer.catalog import MODELS
from mmvidformer.errors import UserError
from mmvidformer.layers.samples import Samples
from mmvidformer.lookup import look_up
from mmvidformer.models.head import Head, topk_accuracies
from mmvidformer.models.heads import stack_labels
from mmvidformer.models.horst.classifiers import CLASSIFIERS, Logits
from mmvidformer.models.horst.layer import HorstOutput
from mmvidformer.models.task_heads import pool_clip


@MODELS.add
class LastStepHead(Head):
    """A linear layer on the mean of y over places at the last time step, for early recognition.

    Paper, appendix A.1. The loss is the cross-entropy at that time step alone.

    Args:
        num_classes: Number of classes; 41 in the paper's subset of Something-Something V2.
        in_channels: Number of channels C of the last layer.
        dropout_ratio: Dropout rate of the mean; the paper mentions none.
        **kwargs: Further arguments of ``Head`` (``loss_cls``, ``label_smooth_eps``,
            ``topk``, ``average_clips``, ...).
    """

    def __init__(
        self, num_classes: int, in_channels: int, dropout_ratio: float = 0.0, **kwargs: object
    ) -> None:
        super().__init__(num_classes, in_channels, **kwargs)
        self.dropout = nn.Dropout(dropout_ratio)
        self.fc_cls = nn.Linear(in_channels, num_classes)

    def forward(self, x: HorstOutput, lengths: Tensor | None = None) -> Tensor:
        """Classify clips.

        Args:
            x: Outputs of the last layer (B, T, C, h, w).
            lengths: Number of time steps of each clip (B,), at least 1. Default: all T.

        Returns:
            Logits (B, num_classes).
        """
        return self.fc_cls(self.dropout(pool_clip(x, lengths)))


@MODELS.add
class AnticipationHead(Head):
    """Predict the next action, verb and noun at each time step.

    Time step t of ``horizon``, counted from 0, is ``(horizon - t) x 0.25`` s before the action
    starts. The ``gt_label`` of a sample holds one class per task, of verb, noun and action. The
    loss is the sum of the cross-entropies over tasks and anticipation times (paper, appendix A.2),
    averaged over the clips. The anticipation times are not published; by default they are the last
    8 time steps, as in RULSTM (2, 1.75, ..., 0.25 s). The prediction is a dictionary of scores by
    task for these times.

    Args:
        tasks: Number of classes of ``verb``, ``noun`` and ``action``.
        in_channels: Number of channels C of the last layer.
        classifier: ``'linear'`` or ``'unrolling'``.
        form: ``'official'`` or ``'paper'`` (``models.horst.classifiers``).
        horizon: Number of time steps from the first frame to the action; 14 in the paper.
        times: Number of anticipation times, the last time steps; None for all.
        logged_time: Number of time steps before the action at which the training accuracies of the
            action are computed. Default: 4, which is 1 s.
        average_clips: ``'score'`` averages the logits of the views, ``'prob'`` their probabilities;
            None keeps the views.
        **kwargs: Further arguments of ``Head`` (``loss_cls``, ``label_smooth_eps``,
            ``topk``, ...).

    Raises:
        KeyError: If the classifier or the form is unknown.
        UserError: If the tasks are not action, verb and noun.
    """

    def __init__(
        self,
        tasks: Mapping[str, int],
        in_channels: int,
        classifier: str = "linear",
        form: str = "official",
        horizon: int = 14,
        times: int | None = 8,
        logged_time: int = 4,
        average_clips: str | None = "score",
        **kwargs: object,
    ) -> None:
        net = look_up(CLASSIFIERS, classifier, "anticipation classifier")(in_channels, tasks, form)
        super().__init__(tasks["action"], in_channels, average_clips=average_clips, **kwargs)
        self.tasks = {task: tasks[task] for task in ("verb", "noun", "action")}  # as in labels
        self.horizon = horizon
        self.times = times or horizon
        self.logged_time = logged_time
        self.classifier = net

    def forward(
        self, x: HorstOutput, lengths: Tensor | None = None, ahead: Sequence[int] | None = None
    ) -> Logits:
        """Classify the last time steps, at most ``times``.

        Args:
            x: Outputs of the last layer (B, T, C, h, w).
            lengths: Number of time steps of each clip (B,); must all be T.
            ahead: Number of time steps to the action from each of the last time steps. Default: the
                clip ends when the action starts. A stream can choose any.

        Returns:
            Logits (B, times, classes) by task.

        Raises:
            UserError: If the lengths differ, or the clip is longer than the horizon.
        """
        steps = x.y.shape[1]
        if lengths is not None and (lengths != steps).any():
            raise UserError(f"lengths must all be {steps}, got {lengths.tolist()}")
        if ahead is not None:
            return self._classify(x, ahead)
        if steps > self.horizon:
            raise UserError(f"a clip must have at most {self.horizon} time steps, got {steps}")
        ahead = [self.horizon - t for t in range(steps)]
        if not self.training:
            return self._classify(x, ahead[-self.times :])
        # In training all time steps count in the batch norm of the official classifier.
        logits = self._classify(x, ahead)
        return {task: scores[:, -self.times :] for task, scores in logits.items()}

    def _classify(self, x: HorstOutput, ahead: Sequence[int]) -> Logits:
        """Classify the last time steps, from which the action is ``ahead`` time steps away."""
        means = (part[:, -len(ahead) :].mean((-2, -1)) for part in x)
        return self.classifier(*means, ahead)

    def loss_by_feat(self, cls_scores: Logits, data_samples: Samples) -> dict[str, Tensor]:
        """Compute losses and accuracies of logits (B, times, classes) by task.

        Returns:
            ``loss_action``, ``loss_verb``, ``loss_noun``, and ``top<k>_acc`` of the action.

        Raises:
            UserError: If a label does not have one class per task.
        """
        labels = stack_labels(data_samples, self.tasks).to(cls_scores["action"].device)
        targets = dict(zip(self.tasks, labels.unbind(1), strict=True))
        losses, eps = {}, self.label_smooth_eps
        for task, logits in cls_scores.items():
            target = targets[task]
            if eps:
                target = (1 - eps) * F.one_hot(target, self.tasks[task]) + eps / self.tasks[task]
            at_times = [self.loss_cls(step, target) for step in logits.unbind(1)]
            losses[f"loss_{task}"] = torch.stack(at_times).sum()
        action = cls_scores["action"]
        logged_time = min(self.logged_time, action.shape[1])
        accuracies = topk_accuracies(action[:, -logged_time], targets["action"], self.topk)
        return losses | accuracies

    def predict_by_feat(self, cls_scores: Logits, data_samples: Samples) -> Samples:
        """Average the views of logits (N * views, times, classes), and store the scores by task.

        They are (times, classes), or (views, times, classes) with ``average_clips=None``.
        """
        views = len(cls_scores["action"]) // len(data_samples)
        fused = {}
        for task, logits in cls_scores.items():
            at_times = [self.average_clip(step, views) for step in logits.unbind(1)]
            fused[task] = torch.stack(at_times, dim=-2)
        for i, sample in enumerate(data_samples):
            sample.set_pred_score({task: scores[i] for task, scores in fused.items()})
        return data_samples
