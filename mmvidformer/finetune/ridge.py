"""Ridge regression on the changes of tokens; what it reads is chosen on the training videos."""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.linalg import solve
from scipy.special import log_softmax
from sklearn.model_selection import StratifiedGroupKFold
from torch import Tensor

from mmvidformer.errors import UserError
from mmvidformer.layers.changes import group_changes, mirror_changes, split_changes

PENALTIES = (1.0, 3.0, 10.0, 30.0, 100.0)  # inverse strengths
FOLDS = 10
MOST = 2000  # training videos: the products of all pairs are held
SCALES = 2.0 ** np.arange(0, 6)  # of scores, for probabilities
FLOOR = 0.1  # least deviation of a value, as a share of the median one


class Choice(NamedTuple):
    """What a regression reads, and how strongly it is held back."""

    groups: tuple[str, ...]  # of blocks (``group_changes``), with equal shares
    penalty: float

    def __str__(self) -> str:
        """Describe the choice: ``'layer 0 + places, inverse L2 penalty 10'``."""
        return f"{' + '.join(self.groups)}, inverse L2 penalty {self.penalty:g}"


def fit_changes(
    head: Any,
    changes: Tensor,
    labels: Tensor,
    mirror: bool,
    alike: Sequence[Hashable] | None = None,
) -> str:
    """Set the weights of a ``ChangeHead``, and return what it reads, and the penalty.

    These have the most right answers in cross-validation; scores are scaled for the best
    likelihood there. It reads the changes of places, those anywhere of one layer or of all layers,
    or both; weights of others are zero. Blocks of a group have the same share.

    Args:
        head: The head.
        changes: Those of the training videos (N, C).
        labels: Their classes (N,).
        mirror: Whether mirrored videos have the same classes, and are learned too.
        alike: What videos are alike by, such as persons; these are held out together. Default:
            nothing.

    Raises:
        UserError: If there are too many videos.
    """
    count = len(labels)
    if count > MOST:
        raise UserError(f"temporal is for {MOST} training videos at most, got {count}")
    if mirror:
        changes = torch.cat([changes, mirror_changes(changes, head.width, head.layers)])
    mean, scales = _standardization(changes, head)
    rows = {name: x * scales[name] for name, x in _split(changes - mean, head).items()}
    groups = group_changes(head.layers)
    kernels = {}
    for group, names in groups.items():
        products = [rows[name] @ rows[name].T for name in names]
        kernels[group] = (torch.stack(products).mean(0)).double().numpy()
    targets = np.eye(head.num_classes)[labels.numpy()]
    copies = len(changes) // count
    splits = _draw_splits(labels.numpy(), range(count) if alike is None else alike)
    choice, temperature = _choose(kernels, targets, copies, splits)
    duals = torch.from_numpy(
        _solve(_mix(kernels, choice.groups), np.tile(targets, (copies, 1)), choice.penalty)
    ).to(changes)
    weights = {name: torch.zeros(duals.shape[1], x.shape[1]).to(x) for name, x in rows.items()}
    for group in choice.groups:
        for name in groups[group]:
            share = 1 / (len(groups[group]) * len(choice.groups))
            weights[name] = duals.T @ rows[name] * scales[name] * share
    weight = torch.cat([weights[name] for name in rows], dim=1)
    bias = torch.from_numpy(targets.mean(0)).to(weight) - weight @ mean
    head.fc_cls.weight.data.copy_(weight * temperature)
    head.fc_cls.bias.data.copy_(bias * temperature)
    return str(choice)


def _split(changes: Tensor, head: Any) -> dict[str, Tensor]:
    """Split values (N, C) into blocks (N, values), by name."""
    blocks = split_changes(changes, head.width, head.layers)
    return {name: block.flatten(1) for name, block in blocks.items()}


def _standardization(changes: Tensor, head: Any) -> tuple[Tensor, dict[str, Tensor]]:
    """Return what is taken from changes (N, C), and what their blocks are multiplied by."""
    mean, deviation = changes.mean(0), changes.std(0, correction=0)
    deviations = _split(deviation[None], head)
    scales = {}
    for name, block in _split(changes - mean, head).items():
        of_block = deviations[name][0]
        scale = 1 / of_block.clamp(min=FLOOR * float(of_block.median()) + 1e-8)
        energy = (block * scale).square().sum(1).mean()
        scales[name] = scale / energy.clamp(min=1e-8).sqrt()
    return mean, scales


def _draw_splits(
    labels: np.ndarray, alike: Sequence[Hashable]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return which videos are learned and held out in turn; none if a class has one video."""
    units = {
        label: len({alike[row] for row in np.flatnonzero(labels == label).tolist()})
        for label in set(labels.tolist())
    }
    folds = min(FOLDS, *units.values()) if len(units) > 1 else 0
    if folds < 2:
        return []
    numbers = {unit: number for number, unit in enumerate(dict.fromkeys(alike))}
    drawn = StratifiedGroupKFold(folds, shuffle=True, random_state=0)
    return list(drawn.split(labels, labels, [numbers[unit] for unit in alike]))


def _choose(
    kernels: dict[str, np.ndarray],
    targets: np.ndarray,
    copies: int,
    splits: Sequence[tuple[np.ndarray, np.ndarray]],
) -> tuple[Choice, float]:
    """Return what has the most right answers on held out videos, and the scale of its scores."""
    _, *layers = kernels
    everything = tuple(kernels)
    candidates: list[tuple[str, ...]] = [(group,) for group in kernels]
    if len(layers) > 1:
        candidates.append(tuple(layers))
    if not splits:
        return Choice(everything, PENALTIES[len(PENALTIES) // 2]), 1.0
    labels, count = targets.argmax(1), len(targets)
    best = (-1, -np.inf)
    for groups in [*candidates, everything]:
        kernel = _mix(kernels, groups)
        for penalty in PENALTIES:
            scores = np.empty_like(targets)
            for train, test in splits:
                rows = np.concatenate([train + copy * count for copy in range(copies)])
                repeated = np.tile(targets[train], (copies, 1))
                duals = _solve(kernel[np.ix_(rows, rows)], repeated, penalty)
                scores[test] = kernel[np.ix_(test, rows)] @ duals + targets[train].mean(0)
            right = int((scores.argmax(1) == labels).sum())
            fit = -float(np.square(scores - targets).sum())  # decides between equals
            if (right, fit) > best:
                best, choice, held_out = (right, fit), Choice(groups, penalty), scores
    likelihoods = [(log_softmax(scale * held_out, 1) * targets).sum() for scale in SCALES]
    return choice, float(SCALES[int(np.argmax(likelihoods))])


def _mix(kernels: dict[str, np.ndarray], groups: Sequence[str]) -> np.ndarray:
    return np.mean([kernels[group] for group in groups], axis=0)


def _solve(kernel: np.ndarray, targets: np.ndarray, penalty: float) -> np.ndarray:
    """Return the dual weights (N, classes) of ridge regression on centered targets."""
    held_back = kernel + np.eye(len(kernel)) / penalty
    return solve(held_back, targets - targets.mean(0), assume_a="pos")
