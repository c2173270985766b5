"""Classifiers on the features of a frozen backbone."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from mmengine.config import Config
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from torch import nn

from mmvidformer.atomic import write_atomically
from mmvidformer.convert.trained import keep_trained
from mmvidformer.datasets.own_videos import VideoLists
from mmvidformer.engine.loading import load_recognizer
from mmvidformer.probing.features import Split, read_features

# As DINOv2's evaluation (Oquab et al. 2024): numbers of neighbors, temperature of their votes.
NEIGHBORS = (10, 20, 100, 200)
TEMPERATURE = 0.07
PENALTIES = np.logspace(-4, 2, 7).tolist()  # inverse strengths of the L2 penalty
NEVER = -1e4  # bias of a class without training videos

Splits = Mapping[str, Split]


class Result(NamedTuple):
    """Right predictions, number of videos, and what was chosen on the validation videos."""

    right: int
    count: int
    chosen: str


def probe(
    cfg: Config, method: str, lists: VideoLists, base: str, features: Path, target: Path | None
) -> Result:
    """Train and test a classifier on features of a frozen backbone.

    Args:
        cfg: Config that ``finetune.methods.set_method`` changed for the method.
        method: A name of ``finetune.methods.PROBES``.
        lists: Lists of one class a video.
        base: File or address of the weights of the backbone.
        features: Folder of features (``read_features``).
        target: Checkpoint to write: the head, and where the backbone is. None for none.
    """
    model = load_recognizer(cfg, base, None, head=False)
    kind, train = PROBES[method]
    found = read_features(cfg, model, base, lists, features, [kind])[kind]
    result = train(model, found)
    if target is not None:
        state = {name: value.cpu() for name, value in model.state_dict().items()}
        meta = {"dataset_meta": {"classes": list(lists.classes)}}
        content = {"state_dict": state, "meta": meta}
        frozen = [f"backbone.{name}" for name, _ in model.backbone.named_parameters()]
        keep_trained(content, frozen, base)
        with write_atomically(target) as part:
            torch.save(content, part)
    return result


def _linear(model: nn.Module, splits: Splits) -> Result:
    """Logistic regression on standardized features, which become weights of the linear head."""
    train, test = splits["train"], splits["test"]
    scaler = StandardScaler().fit(train.load())
    inputs = {name: scaler.transform(one.load()) for name, one in splits.items() if one.files}

    def fit(penalty: float) -> LogisticRegression:
        return LogisticRegression(C=penalty, max_iter=2000).fit(inputs["train"], train.labels)

    penalty, found = _choose(fit, PENALTIES, 1.0, inputs, splits)
    two = len(found.classes_) == 2  # one row, for the second class
    weight = np.concatenate([0 * found.coef_, found.coef_]) if two else found.coef_
    bias = np.append(0.0, found.intercept_) if two else found.intercept_
    weight = weight / scaler.scale_
    layer, rows = model.cls_head.fc_cls, torch.from_numpy(found.classes_)
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.fill_(NEVER)
        layer.weight[rows] = torch.from_numpy(weight).to(layer.weight)
        layer.bias[rows] = torch.from_numpy(bias - weight @ scaler.mean_).to(layer.bias)
    return _score(found, inputs, test, f"inverse L2 penalty {penalty:g}")


def _knn(model: nn.Module, splits: Splits) -> Result:
    """Votes of the nearest neighbors by cosine, weighted by exp(similarity / temperature)."""
    train, test = splits["train"], splits["test"]
    inputs = {name: one.load() for name, one in splits.items() if one.files}

    def fit(count: int) -> KNeighborsClassifier:
        def votes(distances: np.ndarray) -> np.ndarray:
            return np.exp((1 - distances) / TEMPERATURE)

        found = KNeighborsClassifier(count, metric="cosine", weights=votes)
        return found.fit(inputs["train"], train.labels)

    counts = [count for count in NEIGHBORS if count <= len(train.files)] or [len(train.files)]
    count, found = _choose(fit, counts, counts[0], inputs, splits)
    return _score(found, inputs, test, f"{count} neighbors")


PROBES: Mapping[str, tuple[str, Callable[[nn.Module, Splits], Result]]] = {
    "linear": ("vectors", _linear),
    "knn": ("vectors", _knn),
}


def _choose(
    fit: Callable, values: Sequence, default: float, inputs: Mapping, splits: Splits
) -> tuple[Any, Any]:
    """Return the value that is best on the validation videos, the first of equals, and its fit."""
    if "val" not in inputs:
        return default, fit(default)
    fits = [(value, fit(value)) for value in values]
    return max(fits, key=lambda one: (one[1].predict(inputs["val"]) == splits["val"].labels).sum())


def _score(found: Any, inputs: Mapping, test: Split, chosen: str) -> Result:
    """Test; videos that could not be read count as wrong."""
    right = int((found.predict(inputs["test"]) == test.labels).sum()) if test.files else 0
    return Result(right, len(test.labels) + test.missing, chosen)
