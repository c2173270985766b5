"""Classifiers on features of a frozen backbone."""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from mmengine.config import Config
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn
from tqdm import tqdm

from mmvidformer.checkpoints.partial import keep_trained
from mmvidformer.data.list_folders import VideoLists
from mmvidformer.data.splits import SPLITS
from mmvidformer.engine.checkpointing.hook import published_base
from mmvidformer.engine.loading import load_recognizer
from mmvidformer.engine.preflight.checks import names_side
from mmvidformer.errors import UserError
from mmvidformer.finetune import long_videos
from mmvidformer.finetune.coverage import FEW_STEPS
from mmvidformer.finetune.frozen_features import compute_features
from mmvidformer.finetune.ridge import MOST, fit_changes
from mmvidformer.finetune.rows import Row, clips_of, load_rows, videos_of, warn_of_shared_videos
from mmvidformer.finetune.settings import Recipe
from mmvidformer.sinks.video_files import place_of
from mmvidformer.storage.atomic import write_atomically

# As DINOv2's evaluation (Oquab et al. 2024): numbers of neighbors, temperature of their votes.
NEIGHBORS = (10, 20, 100, 200)
TEMPERATURE = 0.07
PENALTIES = np.logspace(-4, 2, 7)  # inverse strengths of the L2 penalty
NEVER = -1e4  # bias of a class without training videos

# As V-JEPA 2's attentive probes (Assran et al. 2025); AdamW, cosine, no warm-up.
RATES, EPOCHS, BATCH = (5e-3, 3e-3, 1e-3, 3e-4, 1e-4), 20, 64
LEAST_STEPS = 8  # of an epoch: few videos would hardly be learned in batches of 64
LEAST_OF_RUN = FEW_STEPS[False]  # steps, as the head has random weights

Rows = Sequence[Row]
Classifiers = dict[str, Callable[[Tensor], Tensor]]  # from features to scores, by their settings


def probe(
    cfg: Config, recipe: Recipe, lists: VideoLists, features: Path, target: Path | None
) -> tuple[dict[str, bool], str, dict[str, bool]]:
    """Train and test a classifier on features of a frozen backbone.

    It learns all clips of a long video, and tells a video by its center view.

    Args:
        cfg: Config that ``finetune.apply_recipe`` made, with the weights ``load_from``.
        recipe: The recipe; its ``method`` is one of ``finetune.settings.PROBES``.
        lists: Lists of one class a video.
        features: Folder of features (``compute_features``).
        target: Checkpoint to write: the head, and where the backbone is (``keep_trained``). None
            for none.

    Returns:
        Whether each test video is told right, where unreadable ones are not; the settings, the
        first of those best on the validation videos (without any, the middle ones); and for
        ``temporal`` and ``linear`` whether the 10 nearest neighbors tell each right.

    Raises:
        UserError: If no training video can be read, or those of one class only.
    """
    model = load_recognizer(cfg, cfg.load_from, None, head=False)
    method = PROBES[recipe.method]
    workers = (cfg.get("val_dataloader") or {}).get("num_workers", 0)
    compute_features(cfg, model, lists, features, [method.form], workers)
    rows: dict[str, list[Row]] = {split: [] for split in SPLITS}
    tested, unreadable = [], []
    for split in SPLITS:
        for video in videos_of(lists, split):
            file = features / method.form / place_of(video.file, lists.root)
            if file.exists():
                rows[split].append(video._replace(file=file))
            if split == "test":
                (tested if file.exists() else unreadable).append(str(video.file))
    warn_of_shared_videos(lists)
    if not rows["train"]:
        raise UserError(f"none of the {lists.counts['train']} training videos could be read")
    if len(labels := {row.label for row in rows["train"]}) == 1:
        (name,) = (lists.classes[label] for label in labels)
        raise UserError(f"all training videos that could be read have the class {name!r}")
    most = max(MOST // len(rows["train"]), 1) if recipe.method == "temporal" else long_videos.MOST
    rows["train"] = [clip for row in rows["train"] for clip in clips_of(row, most)]
    device = next(model.parameters()).device
    classifiers = method.train(model.cls_head, rows["train"], recipe, lists)
    names = list(classifiers)
    chosen = names[(len(names) - 1) // 2]
    if rows["val"]:
        chosen = max(names, key=lambda name: sum(_right(classifiers[name], rows["val"], device)))

    def name_answers(classify: Callable[[Tensor], Tensor]) -> dict[str, bool]:
        told = zip(tested, _right(classify, rows["test"], device), strict=True)
        return dict.fromkeys(unreadable, False) | dict(told)

    answers, by_neighbors = name_answers(classifiers[chosen]), {}
    if recipe.method in ("temporal", "linear"):
        votes, *_ = _knn(model.cls_head, rows["train"], recipe, lists).values()
        by_neighbors = name_answers(votes)
    if target is not None:
        model.cls_head = classifiers[chosen]
        content = {
            "state_dict": {name: value.cpu() for name, value in model.state_dict().items()},
            "meta": {"dataset_meta": {"classes": list(lists.classes)}},
        }
        frozen = [f"backbone.{name}" for name, _ in model.backbone.named_parameters()]
        keep_trained(content, frozen, target.parent, published_base(cfg.load_from, model))
        with write_atomically(target) as part, part.open("wb") as file:
            torch.save(content, file)
    return answers, chosen, by_neighbors


@torch.no_grad()
def _right(classify: Callable[[Tensor], Tensor], rows: Rows, device: torch.device) -> list[bool]:
    """Return which predictions are right."""
    is_right: list[bool] = []
    for start in range(0, len(rows), BATCH):
        inputs, labels = load_rows(rows[start : start + BATCH])
        predicted = classify(inputs.to(device)).argmax(1).cpu()
        is_right += (predicted == labels).tolist()
    return is_right


def _linear(head: nn.Module, rows: Rows, recipe: Recipe, lists: VideoLists) -> Classifiers:
    """Logistic regression on standardized features, which become weights of the linear head."""
    inputs, labels = (x.numpy() for x in load_rows(rows))
    scaler = StandardScaler().fit(inputs)
    heads: Classifiers = {}
    for penalty in PENALTIES:
        fit = LogisticRegression(C=penalty, max_iter=2000).fit(scaler.transform(inputs), labels)
        coefficients = fit.coef_ / scaler.scale_  # of the features as they are
        intercepts = fit.intercept_ - coefficients @ scaler.mean_
        if len(coefficients) == 1:  # of two classes the second
            coefficients = np.concatenate([0 * coefficients, coefficients])
            intercepts = np.concatenate([0 * intercepts, intercepts])
        fitted = copy.deepcopy(head)
        weight, bias = fitted.fc_cls.weight.data.zero_(), fitted.fc_cls.bias.data.fill_(NEVER)
        weight[fit.classes_] = torch.from_numpy(coefficients).to(weight)
        bias[fit.classes_] = torch.from_numpy(intercepts).to(bias)
        heads[f"inverse L2 penalty {penalty:g}"] = fitted
    return heads


def _knn(head: nn.Module, rows: Rows, recipe: Recipe, lists: VideoLists) -> Classifiers:
    """Votes of the nearest neighbors by cosine, weighted by exp(similarity / temperature)."""
    inputs, labels = load_rows(rows)
    keys, classes = F.normalize(inputs), F.one_hot(labels, head.num_classes)

    def votes(x: Tensor, count: int) -> Tensor:
        near = (F.normalize(x) @ keys.to(x).T).topk(count)  # (N, count)
        weights = near.values.div(TEMPERATURE).exp()
        return (weights[..., None] * classes.to(x)[near.indices]).sum(dim=1)

    counts = [count for count in NEIGHBORS if count <= len(rows)] or [len(rows)]
    return {f"{count} neighbors": partial(votes, count=count) for count in counts}


def _temporal(head: nn.Module, rows: Rows, recipe: Recipe, lists: VideoLists) -> Classifiers:
    """Ridge regression on the changes of tokens, which become weights of the head."""
    fitted = copy.deepcopy(head).cpu()
    mirror = not any(map(names_side, lists.classes))
    alike = [row.group or str(row.file) for row in rows]
    chosen = fit_changes(fitted, *load_rows(rows), mirror, alike)
    return {chosen: fitted.to(head.fc_cls.weight.device)}


def _attentive(head: nn.Module, rows: Rows, recipe: Recipe, lists: VideoLists) -> Classifiers:
    """Attention over the tokens: heads with several learning rates, trained side by side."""
    device = head.fc_cls.weight.device
    rates = [recipe.lr] if recipe.lr else RATES
    torch.manual_seed(recipe.seed)
    head.init_weights()
    heads = {f"learning rate {rate:g}": copy.deepcopy(head).train() for rate in rates}
    groups = [
        {"params": list(probe_head.parameters()), "lr": rate}
        for probe_head, rate in zip(heads.values(), rates, strict=True)
    ]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01, fused=device.type == "cuda")
    size = recipe.batch or min(BATCH, math.ceil(len(rows) / LEAST_STEPS))
    of_epoch = math.ceil(len(rows) / size)
    epochs = recipe.epochs or max(EPOCHS, math.ceil(LEAST_OF_RUN / of_epoch))
    steps = epochs * of_epoch
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in tqdm(range(epochs), unit="epoch", disable=None):
        for numbers in torch.randperm(len(rows)).split(size):
            tokens, labels = load_rows([rows[number] for number in numbers])
            tokens, labels = tokens.to(device), labels.to(device)
            optimizer.zero_grad()
            for probe_head in heads.values():  # their gradients do not meet
                F.cross_entropy(probe_head(tokens), labels).backward()
            optimizer.step()
            schedule.step()
    return {name: probe_head.eval() for name, probe_head in heads.items()}


class Method(NamedTuple):
    """A way to classify features: the form of features that it reads, and its training."""

    form: str
    train: Callable[[nn.Module, Rows, Recipe, VideoLists], Classifiers]


PROBES: Mapping[str, Method] = {
    "temporal": Method("changes", _temporal),
    "attentive": Method("tokens", _attentive),
    "linear": Method("vectors", _linear),
    "knn": Method("vectors", _knn),
}
