"""Heads on the outputs of HORST: one label of the clip, or the next action at several times."""

from collections.abc import Mapping, Sequence

import torch
from mmaction.evaluation import top_k_accuracy
from mmaction.models.heads import BaseHead
from mmaction.structures import ActionDataSample
from torch import Tensor, nn

from mmvidformer.lookup import look_up
from mmvidformer.models.horst.classifiers import CLASSIFIERS, Logits, check_tasks
from mmvidformer.models.horst.layer import HorstOutput
from mmvidformer.registry import MODELS


@MODELS.register_module()
class LastStepHead(BaseHead):
    """A linear layer on the mean of y over places, at the last observed step: early recognition.

    Paper, appendix A.1; the loss is the cross-entropy at that step alone.

    Args:
        num_classes: Classes; 41 in the paper's subset of Something-Something V2.
        in_channels: Channels C of the last layer.
        loss_cls: Loss.
        dropout_ratio: Dropout on the mean; the paper names none.
        **kwargs: Further arguments of MMAction2's ``BaseHead`` (``label_smooth_eps``, ``topk``,
            ``average_clips``, ...).
    """

    def __init__(
        self,
        num_classes: int,
        in_channels: int,
        loss_cls: Mapping | None = None,
        dropout_ratio: float = 0.0,
        **kwargs: object,
    ) -> None:
        loss_cls = loss_cls or {"type": "CrossEntropyLoss"}
        super().__init__(num_classes, in_channels, loss_cls=loss_cls, **kwargs)
        self.dropout = nn.Dropout(dropout_ratio)
        self.fc_cls = nn.Linear(in_channels, num_classes)

    def forward(
        self, x: HorstOutput, lengths: Tensor | None = None, every_step: bool = False
    ) -> Tensor:
        """Classify clips.

        Args:
            x: Outputs of the last layer (B, T, C, h, w).
            lengths: Steps of each clip (B,), at least 1; default: all T.
            every_step: Classify after each step, to show how a prediction grows; steps beyond a
                length then have no meaning.

        Returns:
            Logits (B, num_classes), or for every step (B, T, num_classes).
        """
        means = x.y.mean((-2, -1))
        if not every_step:
            rows = torch.arange(means.shape[0], device=means.device)
            last = -1 if lengths is None else lengths.to(means.device) - 1
            means = means[rows, last]
        return self.fc_cls(self.dropout(means))


@MODELS.register_module()
class AnticipationHead(BaseHead):
    """Action, verb and noun that come next, predicted anew at every step.

    Step t of ``horizon`` steps, counted from 0, is ``(horizon - t) x 0.25`` s before the action
    starts. A sample's ``gt_label`` holds a class for each task in the order of ``tasks``. The loss
    is the sum of the tasks' cross-entropies, summed over the anticipation times (paper, appendix
    A.2), averaged over the clips. Which times is not published: by default the last 8 as in
    RULSTM (2, 1.75, ..., 0.25 s). The prediction is a dictionary of logits for each task, for the
    same times.

    Args:
        tasks: Classes of ``action``, ``verb`` and ``noun``, in the order of the labels.
        in_channels: Channels C of the last layer.
        classifier: ``'linear'`` or ``'unrolling'``.
        form: ``'official'`` or ``'paper'`` (``recurrent.classifiers``).
        horizon: Steps from the first frame to the action; 14 in the paper.
        times: Last steps that count; None: all.
        loss_cls: Loss of a task at a time.
        topk: Which training accuracies of the action are logged, at the time ``logged_time``.
        logged_time: Steps before the action; default 4, which is 1 s.

    Raises:
        KeyError: If classifier or form are unknown.
        ValueError: If the tasks are others, or a clip is longer than the horizon.
    """

    def __init__(
        self,
        tasks: Mapping[str, int],
        in_channels: int,
        classifier: str = "linear",
        form: str = "official",
        horizon: int = 14,
        times: int | None = 8,
        loss_cls: Mapping | None = None,
        topk: int | tuple[int, ...] = (1, 5),
        logged_time: int = 4,
    ) -> None:
        check_tasks(tasks)
        loss_cls = loss_cls or {"type": "CrossEntropyLoss"}
        super().__init__(tasks["action"], in_channels, loss_cls=loss_cls, topk=topk)
        self.tasks = dict(tasks)
        self.horizon = horizon
        self.times = times or horizon
        self.logged_time = logged_time
        build = look_up(CLASSIFIERS, classifier, "anticipation classifier")
        self.classifier = build(in_channels, tasks, form)

    def forward(
        self, x: HorstOutput, lengths: Tensor | None = None, ahead: Sequence[int] | None = None
    ) -> Logits:
        """Classify the last steps, at most ``times``.

        Args:
            x: Outputs of the last layer (B, T, C, h, w).
            lengths: Not supported: clips of anticipation are of one length, and end when the
                action starts.
            ahead: How many steps ahead each of those steps looks; default: up to the action. A
                stream, whose end is not known, looks as far as it likes.

        Returns:
            Logits (B, times, classes) by task.

        Raises:
            ValueError: If there are lengths, or the clip is longer than the horizon.
        """
        steps = x.y.shape[1]
        if lengths is not None and (lengths != steps).any():
            raise ValueError(f"clips to anticipate from must all have {steps} steps, got {lengths}")
        if ahead is None:
            if steps > self.horizon:
                raise ValueError(f"a clip of {steps} steps is over the horizon of {self.horizon}")
            ahead = [self.horizon - t for t in range(steps)][-self.times :]
        means = (part[:, -len(ahead) :].mean((-2, -1)) for part in x)
        return self.classifier(*means, ahead)

    def loss_by_feat(
        self, cls_scores: Logits, data_samples: list[ActionDataSample]
    ) -> dict[str, Tensor]:
        """Losses and accuracies.

        Args:
            cls_scores: Logits (B, times, classes) by task.
            data_samples: Samples with ``gt_label``.

        Returns:
            ``loss_action``, ``loss_verb`` and ``loss_noun``, and accuracies of the action.

        Raises:
            ValueError: If a label is not a class for each task.
        """
        labels = torch.stack([sample.gt_label for sample in data_samples])
        if labels.shape[1:] != (len(self.tasks),):
            raise ValueError(
                f"labels of shape {tuple(labels.shape)} are no class for each of the tasks "
                f"{list(self.tasks)}"
            )
        labels = labels.to(cls_scores["action"].device).unbind(1)
        targets = dict(zip(self.tasks, labels, strict=True))
        losses = {}
        for task, logits in cls_scores.items():
            at_times = [self.loss_cls(step, targets[task]) for step in logits.unbind(1)]
            losses[f"loss_{task}"] = torch.stack(at_times).sum()
        logged = cls_scores["action"][:, -min(self.logged_time, cls_scores["action"].shape[1])]
        accuracies = top_k_accuracy(
            logged.detach().float().cpu().numpy(), targets["action"].cpu().numpy(), self.topk
        )
        for k, accuracy in zip(self.topk, accuracies, strict=True):
            losses[f"top{k}_acc"] = logged.new_tensor(accuracy)
        return losses

    def predict_by_feat(
        self, cls_scores: Logits, data_samples: list[ActionDataSample]
    ) -> list[ActionDataSample]:
        """Store ``pred_score``, a dictionary of logits (times, classes) by task.

        Args:
            cls_scores: Logits (B, times, classes) by task.
            data_samples: B samples.

        Returns:
            The samples.
        """
        for i, sample in enumerate(data_samples):
            sample.set_pred_score({task: logits[i] for task, logits in cls_scores.items()})
        return data_samples
