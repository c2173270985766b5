"""Accuracy and recall of actions that are foretold, at each time before they begin."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from mmengine.evaluator import BaseMetric
from torch import Tensor

from mmvidformer.evaluation.multi_task import rank_of
from mmvidformer.evaluation.subsets import Classes, Subset, read_classes, read_subset
from mmvidformer.registry import METRICS

TASKS = ("verb", "noun", "action")


def mean_topk_recall(
    ranks: np.ndarray, labels: np.ndarray, k: int = 5, classes: Sequence[int] | None = None
) -> np.ndarray:
    """Mean over classes of the share of a class's samples that have it among the first k.

    Args:
        ranks: (N, ...), how many classes come before the right one.
        labels: (N,), the right classes.
        k: The k.
        classes: Classes to average over; those without a sample never count. Default: all.

    Returns:
        (...), shares.

    Raises:
        ValueError: If none of the classes has a sample.
    """
    present = np.unique(labels)
    if classes is not None:
        present = np.intersect1d(present, np.asarray(classes))
    if not len(present):
        raise ValueError("no class to average over has a sample")
    return np.mean([(ranks[labels == c] < k).mean(axis=0) for c in present], axis=0)


def marginal_scores(action_scores: Tensor, classes: Tensor) -> Tensor:
    """Scores of verbs (or nouns) as the sum over the softmax of the actions that have them.

    As RULSTM does, whose model has actions only. A verb or noun without any action gets the
    probability of action 0, as there.

    Args:
        action_scores: (A, actions), logits.
        classes: (actions,), the verb or noun of each action.

    Returns:
        (A, classes), up to the highest class.
    """
    probabilities = action_scores.softmax(dim=1)
    count = int(classes.max()) + 1
    sums = probabilities.new_zeros(len(probabilities), count).index_add_(1, classes, probabilities)
    absent = torch.ones(count, dtype=torch.bool).index_fill_(0, classes, False)
    return torch.where(absent, probabilities[:, :1], sums)


@METRICS.register_module()
class AnticipationMetric(BaseMetric):
    """Top-k accuracy and mean top-k recall of verb, noun and action at each anticipation time.

    Each data sample needs

    - ``pred_score``: ``dict(verb=(A, Cv), noun=(A, Cn), action=(A, Ca))``, a row of scores for each
      of A anticipation times, the earliest first: row i is ``(A - i) time_step`` seconds before the
      action, with A = 8 from 2.0 to 0.25 s. Only the order of scores matters.
    - ``gt_label``: (verb, noun, action), as ``mmvidformer.AnticipationDataset`` gives it.
    - ``narration_id``, if there are ``subsets``.

    Results are shares of 1, such as ``action/top5_1.00s``, ``verb/recall5_0.25s``, and
    ``noun/recall5_tail_1.00s`` for a subset ``tail``. Accuracies are over all samples, recalls are
    means over classes; equal scores and NaN are ranked as in ``MultiTaskAccuracy``.

    EPIC-Kitchens-55: ``many_shot`` limits the recall to classes with many samples in training, of
    those with any in validation; an action is many-shot if its verb or its noun is. Segments that
    start too early do not count. EPIC-Kitchens-100: the recall is over all classes with samples,
    overall, of unseen participants, and of tail classes; ``discarded='wrong'``.

    Args:
        topk: The k's of the accuracies.
        recall_k: The k of the recall.
        time_step: Seconds from an anticipation time to the next.
        many_shot: ``dict(verb=..., noun=...)``, for each a list of classes or the path of
            ``EPIC_many_shot_verbs.csv`` or ``..._nouns.csv``.
        subsets: For each name of a subset the files that choose it, one, several or by task,
            ``dict(tail=dict(verb=..., noun=..., action=[..., ...]))``; see ``read_subset``.
        discarded: ``'drop'``, or ``'wrong'`` to count the segments that the dataset has left out as
            wrong at any k. RULSTM gives them scores of 0, all equal, and leaves it to the sort
            which classes are first.
        marginal: Take verbs and nouns from the scores of the actions, as RULSTM does, and not from
            ``pred_score``.
        collect_device: Where results of several processes meet, ``'cpu'`` or ``'gpu'``.
        prefix: Put before the names of the results.

    Raises:
        ValueError: If an argument is unknown, scores have other shapes, or a recall has no sample.
        KeyError: If a sample lacks what the metric needs.
    """

    def __init__(
        self,
        topk: Sequence[int] = (1, 5),
        recall_k: int = 5,
        time_step: float = 0.25,
        many_shot: Mapping[str, Classes] | None = None,
        subsets: Mapping[str, object] | None = None,
        discarded: str = "drop",
        marginal: bool = False,
        collect_device: str = "cpu",
        prefix: str | None = None,
    ) -> None:
        super().__init__(collect_device=collect_device, prefix=prefix)
        if discarded not in ("drop", "wrong"):
            raise ValueError(f"discarded must be 'drop' or 'wrong', got {discarded!r}")
        if many_shot is not None and set(many_shot) != {"verb", "noun"}:
            raise ValueError(f"many_shot must have verb and noun, got {sorted(many_shot)}")
        self.topk = tuple(topk)
        self.recall_k = recall_k
        self.time_step = time_step
        self.many_shot = (
            None
            if many_shot is None
            else {task: read_classes(source, task) for task, source in many_shot.items()}
        )
        self.subsets = {name: _by_task(name, files) for name, files in (subsets or {}).items()}
        self.discarded = discarded
        self.marginal = marginal

    def process(self, data_batch: Sequence, data_samples: Sequence[Mapping]) -> None:
        """Keep the rank of the right verb, noun and action at each time, for each sample."""
        pairs = torch.tensor(self._actions()) if self.marginal else None
        for sample in data_samples:
            if "gt_label" not in sample or (self.subsets and "narration_id" not in sample):
                raise KeyError(
                    "AnticipationMetric needs a gt_label of each sample, and for subsets its "
                    "narration_id: give PackActionInputs meta_keys=('narration_id',); "
                    f"found {sorted(sample)}"
                )
            label = sample["gt_label"].tolist()
            scores = dict(sample["pred_score"])
            if pairs is not None:
                actions = scores["action"].float().cpu()
                for i, task in enumerate(TASKS[:2]):
                    scores[task] = marginal_scores(actions, pairs[:, i])
            _check_shapes(scores)
            ranks = {
                task: [rank_of(row, label[i]) for row in scores[task].float().cpu()]
                for i, task in enumerate(TASKS)
            }
            self.results.append(
                {"narration_id": sample.get("narration_id"), "label": label, "ranks": ranks}
            )

    def _actions(self) -> list[tuple[int, int]]:
        if "actions" not in (self.dataset_meta or {}):
            raise KeyError(
                "many_shot and marginal need the verb and noun of each action, 'actions' of the "
                "dataset's metainfo; mmvidformer.AnticipationDataset has it"
            )
        return self.dataset_meta["actions"]

    def compute_metrics(self, results: list[dict]) -> dict[str, float]:
        """Shares over all samples and classes, such as ``action/recall5_1.00s``."""
        times = len(results[0]["ranks"]["verb"])
        results = results + self._wrong(times)
        labels = np.array([result["label"] for result in results])  # (N, 3)
        chosen = {
            name: {
                task: [part.holds(r["narration_id"], r["label"]) for r in results]
                for task, part in parts.items()
            }
            for name, parts in self.subsets.items()
        }
        metrics = {}
        for i, task in enumerate(TASKS):
            ranks = np.array([result["ranks"][task] for result in results])  # (N, A)
            for k in self.topk:
                metrics |= self._named(f"{task}/top{k}", (ranks < k).mean(axis=0))
            recall = f"{task}/recall{self.recall_k}"
            overall = mean_topk_recall(ranks, labels[:, i], self.recall_k, self._classes(task))
            metrics |= self._named(recall, overall)
            for name, samples in chosen.items():
                part = np.array(samples[task])
                if not part.any():
                    raise ValueError(f"no sample is in the subset {name!r} of {task}s")
                shares = mean_topk_recall(ranks[part], labels[part, i], self.recall_k)
                metrics |= self._named(f"{recall}_{name}", shares)
        return metrics

    def _named(self, name: str, shares: np.ndarray) -> dict[str, float]:
        return {
            f"{name}_{(len(shares) - i) * self.time_step:.2f}s": float(share)
            for i, share in enumerate(shares)
        }

    def _wrong(self, times: int) -> list[dict]:
        """A result that is never right for each labelled segment that the dataset left out."""
        if self.discarded == "drop":
            return []
        if "discarded" not in (self.dataset_meta or {}):
            raise KeyError(
                "discarded='wrong' needs the segments that were left out, 'discarded' of the "
                "dataset's metainfo; mmvidformer.AnticipationDataset has it"
            )
        return [
            {
                "narration_id": segment["narration_id"],
                "label": segment["gt_label"].tolist(),
                "ranks": dict.fromkeys(TASKS, [math.inf] * times),
            }
            for segment in self.dataset_meta["discarded"]
        ]

    def _classes(self, task: str) -> list[int] | None:
        """Classes that the recall is limited to."""
        if self.many_shot is None:
            return None
        if task in self.many_shot:
            return self.many_shot[task]
        verbs, nouns = set(self.many_shot["verb"]), set(self.many_shot["noun"])
        return [
            i for i, (verb, noun) in enumerate(self._actions()) if verb in verbs or noun in nouns
        ]


def _check_shapes(scores: Mapping[str, Tensor]) -> None:
    shapes = {name: tuple(score.shape) for name, score in scores.items()}
    if (
        set(shapes) != set(TASKS)
        or any(len(shape) != 2 for shape in shapes.values())
        or len({shape[0] for shape in shapes.values()}) != 1
    ):
        raise ValueError(
            f"expected scores (times, classes) for each of {TASKS}, with equal times; got {shapes}"
        )


def _by_task(name: str, files: object) -> dict[str, Subset]:
    if not isinstance(files, Mapping):
        files = dict.fromkeys(TASKS, files)
    if set(files) != set(TASKS):
        raise ValueError(f"the subset {name!r} must have {TASKS}, got {sorted(files)}")
    return {task: read_subset(paths) for task, paths in files.items()}
