"""Classifiers on the features of a frozen backbone."""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from mmengine.config import Config
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn
from tqdm import tqdm

from mmvidformer.atomic import write_atomically
from mmvidformer.convert.trained import keep_trained
from mmvidformer.datasets.own_videos import VideoLists
from mmvidformer.engine.loading import load_recognizer
from mmvidformer.finetune.recipe import Recipe
from mmvidformer.probing.features import Split, read_features

# As DINOv2's evaluation (Oquab et al. 2024): numbers of neighbors, temperature of their votes.
NEIGHBORS = (10, 20, 100, 200)
TEMPERATURE = 0.07
PENALTIES = np.logspace(-4, 2, 7).tolist()  # inverse strengths of the L2 penalty
NEVER = -1e4  # bias of a class without training videos

# As V-JEPA 2's attentive probes (Assran et al. 2025); AdamW, cosine, no warm-up.
RATES, EPOCHS, BATCH = (5e-3, 3e-3, 1e-3, 3e-4, 1e-4), 20, 64

Splits = Mapping[str, Split]


class Result(NamedTuple):
    """Right predictions, number of videos, and what was chosen on the validation videos."""

    right: int
    count: int
    chosen: str


def probe(
    cfg: Config, recipe: Recipe, lists: VideoLists, features: Path, target: Path | None
) -> Result:
    """Train and test a classifier on features of a frozen backbone.

    Args:
        cfg: Config that ``finetune.apply_recipe`` changed, with the weights ``load_from``.
        recipe: The recipe; its ``method`` is one of ``finetune.methods.PROBES``.
        lists: Lists of one class a video.
        features: Folder of features (``read_features``).
        target: Checkpoint to write: the head, and where the backbone is. None for none.
    """
    base = cfg.load_from
    model = load_recognizer(cfg, base, None, head=False)
    kind, train = PROBES[recipe.method]
    found = read_features(cfg, model, base, lists, features, [kind])[kind]
    result = train(model, found, recipe)
    if target is not None:
        state = {name: value.cpu() for name, value in model.state_dict().items()}
        meta = {"dataset_meta": {"classes": list(lists.classes)}}
        content = {"state_dict": state, "meta": meta}
        frozen = [f"backbone.{name}" for name, _ in model.backbone.named_parameters()]
        keep_trained(content, frozen, base)
        with write_atomically(target) as part:
            torch.save(content, part)
    return result


def _linear(model: nn.Module, splits: Splits, recipe: Recipe) -> Result:
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


def _knn(model: nn.Module, splits: Splits, recipe: Recipe) -> Result:
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


def _attentive(model: nn.Module, splits: Splits, recipe: Recipe) -> Result:
    """Attention over the tokens: heads with several learning rates, trained side by side."""
    train, head, rates = splits["train"], model.cls_head, [recipe.lr] if recipe.lr else RATES
    torch.manual_seed(recipe.seed)
    head.init_weights()
    heads = nn.ModuleList(copy.deepcopy(head) for _ in rates).train()
    groups = [{"params": [*h.parameters()], "lr": r} for h, r in zip(heads, rates, strict=True)]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    epochs, size = recipe.epochs or EPOCHS, recipe.batch or BATCH
    steps = epochs * math.ceil(len(train.files) / size)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in tqdm(range(epochs), unit="epoch", disable=None):
        for numbers in torch.randperm(len(train.files)).split(size):
            tokens, labels = _batch(train, numbers.tolist(), head.fc_cls.weight)
            optimizer.zero_grad()
            sum(F.cross_entropy(one(tokens), labels) for one in heads).backward()
            optimizer.step()
            schedule.step()
    heads.eval()
    right = {name: _right(heads, one, size) for name, one in splits.items() if name != "train"}
    best = int(right["val" if splits["val"].files else "test"].argmax())
    head.load_state_dict(heads[best].state_dict())
    count = len(splits["test"].files) + splits["test"].missing
    return Result(int(right["test"][best]), count, f"learning rate {rates[best]:g}")


@torch.no_grad()
def _right(heads: nn.ModuleList, split: Split, size: int) -> np.ndarray:
    """Count the right predictions of each head."""
    right = np.zeros(len(heads), dtype=int)
    for numbers in np.array_split(range(len(split.files)), math.ceil(len(split.files) / size) or 1):
        if len(numbers):
            tokens, labels = _batch(split, numbers, heads[0].fc_cls.weight)
            right += [int((one(tokens).argmax(dim=1) == labels).sum()) for one in heads]
    return right


def _batch(split: Split, numbers: Sequence[int], like: Tensor) -> tuple[Tensor, Tensor]:
    labels = torch.from_numpy(split.labels[numbers])
    return torch.from_numpy(split.load(numbers)).to(like), labels.to(like.device)


PROBES: Mapping[str, tuple[str, Callable[[nn.Module, Splits, Recipe], Result]]] = {
    "attentive": ("tokens", _attentive),
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
