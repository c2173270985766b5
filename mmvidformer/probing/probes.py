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
from sklearn.pipeline import Pipeline, make_pipeline
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
    """Right predictions, of how many videos, and what was chosen on the validation videos.

    Videos that could not be read count as wrong.
    """

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
    model = load_recognizer(cfg, cfg.load_from, None, head=False)
    kind, train = PROBES[recipe.method]
    found = read_features(cfg, model, lists, features, [kind])[kind]
    right, chosen = train(model, found, recipe)
    if target is not None:
        content = {
            "state_dict": {name: value.cpu() for name, value in model.state_dict().items()},
            "meta": {"dataset_meta": {"classes": list(lists.classes)}},
        }
        frozen = [f"backbone.{name}" for name, _ in model.backbone.named_parameters()]
        keep_trained(content, frozen, cfg.load_from)
        with write_atomically(target) as part:
            torch.save(content, part)
    return Result(right, found["test"].count, chosen)


def _linear(model: nn.Module, splits: Splits, recipe: Recipe) -> tuple[int, str]:
    """Logistic regression on standardized features, which become weights of the linear head."""

    def make(penalty: float) -> Pipeline:
        return make_pipeline(StandardScaler(), LogisticRegression(C=penalty, max_iter=2000))

    penalty, (scaler, found), right = _search(make, PENALTIES, 1.0, splits)
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
    return right, f"inverse L2 penalty {penalty:g}"


def _knn(model: nn.Module, splits: Splits, recipe: Recipe) -> tuple[int, str]:
    """Votes of the nearest neighbors by cosine, weighted by exp(similarity / temperature)."""

    def votes(distances: np.ndarray) -> np.ndarray:
        return np.exp((1 - distances) / TEMPERATURE)

    def make(count: int) -> KNeighborsClassifier:
        return KNeighborsClassifier(count, metric="cosine", weights=votes)

    most = len(splits["train"].files)
    counts = [count for count in NEIGHBORS if count <= most] or [most]
    count, _, right = _search(make, counts, counts[0], splits)
    return right, f"{count} neighbors"


def _search(make: Callable, values: Sequence, default: float, splits: Splits) -> tuple:
    """Fit models of scikit-learn with each of some values, on the training videos.

    Returns the value that is best on the validation videos, the first of equals (without any, the
    default), its model, and how many test videos that predicts right.
    """
    inputs = {name: one.load() for name, one in splits.items() if one.files}

    def right(model: Any, name: str) -> int:
        if name not in inputs:
            return 0
        return int((model.predict(inputs[name]) == splits[name].labels).sum())

    values = values if "val" in inputs else [default]
    models = [make(value).fit(inputs["train"], splits["train"].labels) for value in values]
    value, best = max(zip(values, models, strict=True), key=lambda one: right(one[1], "val"))
    return value, best, right(best, "test")


def _attentive(model: nn.Module, splits: Splits, recipe: Recipe) -> tuple[int, str]:
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
    return int(right["test"][best]), f"learning rate {rates[best]:g}"


@torch.no_grad()
def _right(heads: nn.ModuleList, split: Split, size: int) -> np.ndarray:
    """Count the right predictions of each head."""
    right, every = np.zeros(len(heads), dtype=int), range(len(split.files))
    for start in every[::size]:
        tokens, labels = _batch(split, every[start : start + size], heads[0].fc_cls.weight)
        right += [int((one(tokens).argmax(dim=1) == labels).sum()) for one in heads]
    return right


def _batch(split: Split, numbers: Sequence[int], like: Tensor) -> tuple[Tensor, Tensor]:
    labels = torch.from_numpy(split.labels[numbers])
    return torch.from_numpy(split.load(numbers)).to(like), labels.to(like.device)


PROBES: Mapping[str, tuple[str, Callable[[nn.Module, Splits, Recipe], tuple[int, str]]]] = {
    "attentive": ("tokens", _attentive),
    "linear": ("vectors", _linear),
    "knn": ("vectors", _knn),
}
