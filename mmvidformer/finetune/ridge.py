"""Ridge regression on the changes of tokens, its penalty chosen on the training videos."""

import numpy as np
import torch
from scipy.special import log_softmax
from sklearn.model_selection import StratifiedKFold
from torch import Tensor, nn

from mmvidformer.errors import UserError
from mmvidformer.layers.changes import mirror_changes, split_changes

PENALTIES = (1.0, 3.0, 10.0, 30.0, 100.0)  # inverse strengths
FOLDS = 10
MOST = 2000  # training videos: the products of all pairs are held
SCALES = 2.0 ** np.arange(0, 6)  # of scores, for probabilities
FLOOR = 0.1  # least deviation of a value, as a share of the median one


def fit_changes(head: nn.Module, changes: Tensor, labels: Tensor, mirror: bool) -> str:
    """Set the weights of a ``ChangeHead``, and return the penalty.

    It is the one with the most right answers in cross-validation; scores are scaled for the best
    likelihood there. All blocks of changes have the same share.

    Args:
        head: The head.
        changes: Those of the training videos (N, C).
        labels: Their classes (N,).
        mirror: Whether mirrored videos have the same classes, and are learned too.

    Raises:
        UserError: If there are too many videos.
    """
    count = len(labels)
    if count > MOST:
        raise UserError(f"temporal is for {MOST} training videos at most, got {count}")
    if mirror:
        changes = torch.cat([changes, mirror_changes(changes, head.in_channels)])
    mean, scale = _standardization(changes, head.in_channels)
    rows = (changes - mean) * scale
    kernel = (rows @ rows.T).double().numpy()
    targets = np.eye(head.num_classes)[labels.numpy()]
    copies = len(changes) // count
    penalty, temperature = _choose(kernel, targets, copies)
    duals = torch.from_numpy(_solve(kernel, np.tile(targets, (copies, 1)), penalty)).to(rows)
    weight = duals.T @ rows * scale
    bias = torch.from_numpy(targets.mean(0)).to(weight) - weight @ mean
    head.fc_cls.weight.data.copy_(weight * temperature)
    head.fc_cls.bias.data.copy_(bias * temperature)
    return f"inverse L2 penalty {penalty:g}"


def _standardization(changes: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Return what is taken from changes (N, C), and what they are multiplied by, (C,) each."""
    mean, deviation = changes.mean(0), changes.std(0, correction=0)
    deviations = split_changes(deviation[None], width)
    scales = []
    for name, block in split_changes(changes - mean, width).items():
        block_deviation = deviations[name].flatten()
        scale = 1 / block_deviation.clamp(min=FLOOR * float(block_deviation.median()) + 1e-8)
        energy = (block.flatten(1) * scale).square().sum(1).mean()
        scales.append(scale / energy.clamp(min=1e-8).sqrt())
    return mean, torch.cat(scales)


def _choose(kernel: np.ndarray, targets: np.ndarray, copies: int) -> tuple[float, float]:
    """Return the penalty with the most right answers on held out videos, and the scale."""
    labels, count = targets.argmax(1), len(targets)
    sizes = np.bincount(labels)
    folds = min(FOLDS, int(sizes[sizes > 0].min()))
    if folds < 2:
        return PENALTIES[len(PENALTIES) // 2], 1.0
    splits = list(StratifiedKFold(folds, shuffle=True, random_state=0).split(labels, labels))
    held_out = {}
    for penalty in PENALTIES:
        scores = np.empty_like(targets)
        for train, test in splits:
            rows = np.concatenate([train + copy * count for copy in range(copies)])
            repeated = np.tile(targets[train], (copies, 1))
            duals = _solve(kernel[np.ix_(rows, rows)], repeated, penalty)
            scores[test] = kernel[np.ix_(test, rows)] @ duals + targets[train].mean(0)
        held_out[penalty] = scores
    penalty = max(PENALTIES, key=lambda x: int((held_out[x].argmax(1) == labels).sum()))
    likelihoods = [(log_softmax(scale * held_out[penalty], 1) * targets).sum() for scale in SCALES]
    return penalty, float(SCALES[int(np.argmax(likelihoods))])


def _solve(kernel: np.ndarray, targets: np.ndarray, penalty: float) -> np.ndarray:
    """Return the dual weights (N, classes) of ridge regression on centered targets."""
    return np.linalg.solve(kernel + np.eye(len(kernel)) / penalty, targets - targets.mean(0))
