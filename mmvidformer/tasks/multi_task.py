"""Metrics of several tasks: EPIC-Kitchens' noun, verb and action, recognized or anticipated."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from mmengine.evaluator import BaseMetric
from torch import Tensor

from mmvidformer.data.table_numbers import read_number
from mmvidformer.data.tables import read_rows
from mmvidformer.errors import UserError
from mmvidformer.registry import METRICS
from mmvidformer.tasks.shares import leave_out

TASKS = ("verb", "noun", "action")  # of anticipation


def rank_of(scores: Tensor, label: int) -> float:
    """Count the classes that are ranked before the labeled one.

    Ties are broken by index, as in ``argmax``, so that an untrained zero head is at chance; RULSTM
    ranks the last of equal classes first. Scores with a NaN give infinity, so that a diverged model
    is never right.
    """
    if scores.isnan().any():
        return math.inf
    true = scores[label]
    return int((scores > true).sum() + (scores[:label] == true).sum())


def mean_topk_recall(
    ranks: np.ndarray, labels: np.ndarray, k: int, classes: Sequence[int] | None = None
) -> np.ndarray:
    """Average the share of a class's samples that are right at top k over classes (default: all).

    ``ranks`` (N, ...) are results of ``rank_of``, and ``labels`` (N,) the right classes. Classes
    without samples are ignored. Raises a ``UserError`` if none has one.
    """
    present = np.intersect1d(labels, labels if classes is None else classes)
    if not len(present):
        raise UserError("no class to average over has a sample")
    return np.mean([(ranks[labels == c] < k).mean(axis=0) for c in present], axis=0)


def without_scores(sample: Mapping) -> dict:
    """Return a sample whose scores of all tasks are NaN, which is never right."""
    scores = {task: torch.full_like(x, torch.nan) for task, x in sample["pred_score"].items()}
    return {**sample, "pred_score": scores}


def _distribution(scores: Tensor) -> Tensor:
    is_one = bool((scores >= 0).all()) and abs(float(scores.sum()) - 1) < 1e-3
    return scores if is_one else scores.softmax(0)


@METRICS.register_module()
class MultiTaskAccuracy(BaseMetric):
    """Top-k and mean class accuracy of each task, and top-k accuracy of the action.

    The action is a pair of classes, whose score is the product of the two softmaxes, as in ViViT's
    official evaluation of EPIC-Kitchens-100. Data samples need a dictionary of scores
    (``MultiTaskHead``) and labels in the order of the tasks. Scores that are probabilities (of a
    head with ``average_clips='prob'``) get no softmax. Results are named ``action/top1``,
    ``verb/mean_class`` etc.

    Args:
        tasks: Names of the tasks, in the order of the labels.
        topk: The k's.
        **kwargs: Arguments of MMEngine's ``BaseMetric``, ``collect_device`` and ``prefix``.

    Raises:
        UserError: If a sample's scores are those of several views.
    """

    default_prefix = ""

    def __init__(
        self,
        tasks: Sequence[str] = ("noun", "verb"),
        topk: Sequence[int] = (1, 5),
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self.tasks = tuple(tasks)
        self.shares = tuple(f"{task}/" for task in (*self.tasks, "action"))
        self.topk = tuple(topk)

    worst = staticmethod(without_scores)

    def process(self, data_batch: Sequence, data_samples: Sequence[Mapping]) -> None:
        """Store the labels, and the ranks of the right class of each task and of the action."""
        for sample in data_samples:
            scores, labels = sample["pred_score"], sample["gt_label"].tolist()
            if min(labels) < 0:  # of a line without one
                self.results.append(None)
                continue
            if any(of_task.dim() != 1 for of_task in scores.values()):
                raise UserError("a head with average_clips=None keeps the views of each video")
            vectors = [scores[name].float().cpu() for name in self.tasks]
            ranks = [rank_of(*pair) for pair in zip(vectors, labels, strict=True)]
            if len(self.tasks) == 2:
                # Products of confident softmaxes underflow to ties in single precision.
                first, second = (_distribution(vector.double()) for vector in vectors)
                pair = labels[0] * len(second) + labels[1]
                ranks.append(rank_of(torch.outer(first, second).flatten(), pair))
            self.results.append((labels, ranks))

    def compute_metrics(self, results: list[tuple]) -> dict[str, float]:
        """Compute the shares over all samples with labels."""
        labeled = [result for result in results if result is not None]
        if len(labeled) < len(results):
            count = f"{len(results) - len(labeled)} of {len(results)} samples"
            leave_out("label", f"{count} do not count")
        if not labeled:
            return {}
        labels, ranks = (np.array(column) for column in zip(*labeled, strict=True))
        metrics = {}
        for i, name in enumerate((*self.tasks, "action")[: ranks.shape[1]]):
            for k in self.topk:
                metrics[f"{name}/top{k}"] = float((ranks[:, i] < k).mean())
            if name in self.tasks:
                recall = mean_topk_recall(ranks[:, i], labels[:, i], k=1)
                metrics[f"{name}/mean_class"] = float(recall)
        return metrics


@METRICS.register_module()
class AnticipationMetric(BaseMetric):
    """Top-k accuracy and mean top-k recall of verb, noun and action at each anticipation time.

    Data samples need ``pred_score``, ``dict(verb=(A, Cv), noun=(A, Cn), action=(A, Ca))`` for A
    anticipation times, of which row i is ``(A - i) time_step`` seconds before the action;
    ``gt_label``, (verb, noun, action) as in ``mmvidformer.AnticipationDataset``; and
    ``narration_id``, if there are ``subsets``.

    Results are shares, such as ``action/top5_1.00s``, ``verb/recall5_0.25s``, and
    ``noun/recall5_tail_1.00s`` for a subset ``tail``. Accuracies are over all samples, recalls are
    means over classes. Ties and NaN are ranked as in ``MultiTaskAccuracy``.

    Args:
        topk: The k's of the accuracies.
        recall_k: The k of the recall.
        time_step: Seconds between anticipation times.
        many_shot: ``dict(verb=..., noun=...)``, for each a list of classes or the path of
            ``EPIC_many_shot_verbs.csv`` or ``..._nouns.csv``. The recall is limited to these; an
            action is many-shot if its verb or its noun is.
        subsets: Files that list the narration ids of each subset by its name, one file or one per
            task: ``dict(unseen=..., tail=dict(verb=..., noun=..., action=...))``; such as RULSTM's
            ``validation_tail_verbs_ids.csv``.
        discarded: ``'drop'``, or ``'wrong'`` to count segments that the dataset skips as wrong;
            RULSTM gives them equal scores, so that some are right by chance.
        **kwargs: Arguments of MMEngine's ``BaseMetric``, ``collect_device`` and ``prefix``.

    Raises:
        UserError: If ``discarded`` is unknown.
    """

    default_prefix = ""
    shares = tuple(f"{task}/" for task in TASKS)  # results that are shown in percent

    def __init__(
        self,
        topk: Sequence[int] = (1, 5),
        recall_k: int = 5,
        time_step: float = 0.25,
        many_shot: Mapping[str, str | Sequence[int]] | None = None,
        subsets: Mapping[str, str | Mapping[str, str]] | None = None,
        discarded: str = "drop",
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        if discarded not in ("drop", "wrong"):
            raise UserError(f"discarded must be 'drop' or 'wrong', got {discarded!r}")
        self.topk = tuple(topk)
        self.recall_k = recall_k
        self.time_step = time_step
        self.many_shot = many_shot and {
            task: _read_classes(many_shot[task], f"{task}_class") for task in TASKS[:2]
        }
        self.subsets = {}
        for name, files in (subsets or {}).items():
            files = files if isinstance(files, Mapping) else dict.fromkeys(TASKS, files)
            ids = {task: set(Path(files[task]).read_text("utf-8").split()) for task in TASKS}
            self.subsets[name] = ids
        self.discarded = discarded

    worst = staticmethod(without_scores)

    def process(self, data_batch: Sequence, data_samples: Sequence[Mapping]) -> None:
        """Store id, label and the ranks (3, A) of the right verb, noun and action."""
        for sample in data_samples:
            scores, label = sample["pred_score"], sample["gt_label"].tolist()
            ranks = []
            for task, number in zip(TASKS, label, strict=True):
                ranks.append([rank_of(row, number) for row in scores[task].float().cpu()])
            name = sample["narration_id"] if self.subsets else None
            self.results.append((name, label, ranks))

    def compute_metrics(self, results: list[tuple]) -> dict[str, float]:
        """Compute the shares over all samples and classes."""
        if self.discarded == "wrong":
            never = np.full_like(results[0][2], math.inf, dtype=float)
            results = results + [
                (segment["narration_id"], segment["gt_label"], never)
                for segment in self.dataset_meta["discarded"]
            ]
        names, labels, ranks = zip(*results, strict=True)
        labels, ranks = np.array(labels), np.array(ranks)  # (N, 3), (N, 3, A)
        times = self.time_step * np.arange(ranks.shape[2], 0, -1)
        metrics = {}
        for task, truth, rank in zip(TASKS, labels.T, ranks.transpose(1, 0, 2), strict=True):
            shares = {f"top{k}": (rank < k).mean(axis=0) for k in self.topk}
            recall = f"recall{self.recall_k}"
            classes = self._classes(task)
            if classes is None or np.isin(truth, classes).any():
                shares[recall] = mean_topk_recall(rank, truth, self.recall_k, classes)
            else:
                leave_out(f"{task}/{recall}", "no sample has a many-shot class")
            for name, ids in self.subsets.items():
                part = np.isin(names, [*ids[task]])
                if not part.any():
                    leave_out(f"{task}/{recall}_{name}", "no sample is in the subset")
                    continue
                shares[f"{recall}_{name}"] = mean_topk_recall(
                    rank[part], truth[part], self.recall_k
                )
            for name, values in shares.items():
                for time, value in zip(times, values, strict=True):
                    metrics[f"{task}/{name}_{time:.2f}s"] = float(value)
        return metrics

    def _classes(self, task: str) -> Sequence[int] | None:
        if not self.many_shot or task != "action":
            return self.many_shot and self.many_shot[task]
        verbs, nouns = set(self.many_shot["verb"]), set(self.many_shot["noun"])
        pairs = enumerate(self.dataset_meta["actions"])
        return [i for i, (verb, noun) in pairs if verb in verbs or noun in nouns]


def _read_classes(source: str | Sequence[int], column: str) -> Sequence[int]:
    if not isinstance(source, str):
        return source
    return [read_number(row, column, where) for row, where in read_rows(source, column)]
