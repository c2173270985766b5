"""Features of a frozen backbone, computed once, and classifiers on them."""

import copy
import logging
import math
import sys
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
from torch.utils.data import default_collate
from tqdm import tqdm

from mmvidformer.apis.bulk.processes import Lost
from mmvidformer.apis.bulk.reading import WholeVideos, read_groups
from mmvidformer.apis.bulk.run import cut
from mmvidformer.apis.pipeline import VideoPipeline, inference_transforms, normalize
from mmvidformer.checkpoints.download import hash_of
from mmvidformer.checkpoints.partial import keep_trained
from mmvidformer.data.lists import read_list
from mmvidformer.data.own_videos import VideoLists
from mmvidformer.data.splits import SPLITS
from mmvidformer.engine.checkpointing.hook import published_base
from mmvidformer.engine.loading import load_recognizer
from mmvidformer.engine.preflight.checks import names_side
from mmvidformer.errors import UserError
from mmvidformer.finetune.ridge import fit_changes
from mmvidformer.finetune.settings import Recipe
from mmvidformer.layers.changes import measure_changes
from mmvidformer.sinks.video_files import place_of, write_features
from mmvidformer.storage.atomic import write_atomically
from mmvidformer.storage.resuming import check_settings
from mmvidformer.storage.targets import identity_of

logger = logging.getLogger("mmvidformer")

# As DINOv2's evaluation (Oquab et al. 2024): numbers of neighbors, temperature of their votes.
NEIGHBORS = (10, 20, 100, 200)
TEMPERATURE = 0.07
PENALTIES = np.logspace(-4, 2, 7)  # inverse strengths of the L2 penalty
NEVER = -1e4  # bias of a class without training videos

CLIPS = 4  # of a forward pass

# As V-JEPA 2's attentive probes (Assran et al. 2025); AdamW, cosine, no warm-up.
RATES, EPOCHS, BATCH = (5e-3, 3e-3, 1e-3, 3e-4, 1e-4), 20, 64

Rows = list[tuple[Path, int]]  # files and classes of videos
Classifiers = dict[str, Callable[[Tensor], Tensor]]  # from features to scores, by their settings


@torch.no_grad()
def compute_features(
    cfg: Config,
    model: nn.Module,
    lists: VideoLists,
    folder: Path,
    forms: Sequence[str],
    workers: int = 0,
) -> None:
    """Compute the features that are not in a folder yet, of the center view of each video.

    The model, a recognizer in evaluation mode, has the weights that its config names as
    ``load_from``. Files are ``FOLDER/FORM/PATH_OF_VIDEO.npy``. Forms are ``'vectors'`` (D,),
    averaged over the tokens if the backbone leaves that to its head, ``'tokens'`` (T H W, D), and
    ``'changes'`` (C,) (``layers.changes``).
    Videos are read by ``workers`` processes, by this one if there are none.

    Raises:
        FileExistsError: If the folder has features of other weights or settings.
    """
    backbone = model.backbone
    settings = feature_settings(cfg)
    for form in forms:
        pool = {"pool": backbone.pool} if form == "vectors" else {}
        has_features = any((folder / form).rglob("*.npy"))
        check_settings(folder / form, settings | pool, has_features)
    targets: dict[Path, dict[str, Path]] = {}  # file of each form, by video
    for split in SPLITS:
        for video, _ in videos_of(lists, split):
            place = place_of(video, lists.root)
            targets[video] = {form: folder / form / place for form in forms}
    missing = [video for video in targets if not all(map(Path.exists, targets[video].values()))]
    progress = tqdm(total=len(missing), unit="video", disable=None)
    groups = cut([(str(video), str(video)) for video in missing], CLIPS)
    read_clips = WholeVideos(VideoPipeline(cfg, 1))
    for message in read_groups(read_clips, groups, CLIPS, workers):
        if isinstance(message, Lost):
            for name, reason in message.failed:
                tqdm.write(f"left out: {name}: {reason}", file=sys.stderr)
            continue
        progress.update(len(message.finished))
        by_shape: dict[torch.Size, list[tuple[Path, Tensor]]] = {}
        for clip in message.clips:
            if clip.error is not None:
                tqdm.write(f"left out: {clip.error}", file=sys.stderr)
                continue
            views = clip.sample["inputs"]
            by_shape.setdefault(views.shape, []).append((Path(clip.name), views))
        for videos in by_shape.values():
            pixels = normalize(model, torch.cat([clips for _, clips in videos]))
            tokens = backbone.forward_features(pixels)
            vectors = backbone.pool_features(tokens)
            if vectors.dim() == 5:  # (N, T, H, W, D)
                vectors = vectors.flatten(1, -2).mean(dim=1)
            places = backbone.fc_norm(tokens.places)
            features = {"vectors": vectors, "tokens": places.flatten(1, 3)}
            if "changes" in forms:
                features["changes"] = measure_changes(places)
            for row, (video, _) in enumerate(videos):
                for form, target in targets[video].items():
                    write_features(target, features[form][row].float().cpu().numpy())
    progress.close()


def feature_settings(cfg: Config) -> dict[str, str]:
    """Return what the features of a config depend on, but for the pooling."""
    base = cfg.load_from
    backbone = {
        name: value
        for name, value in cfg.model.backbone.items()
        if name not in ("pool", "frozen_stages")
    }
    preprocessor = cfg.model.get("data_preprocessor") or {}
    return {
        "base": hash_of(Path(base)) if Path(base).is_file() else base,
        "pipeline": repr(inference_transforms(cfg, 1)),
        "backbone": repr(backbone),
        "pixels": repr([preprocessor.get("mean"), preprocessor.get("std")]),
    }


def warn_of_shared_videos(lists: VideoLists) -> None:
    """Say which videos of training are in another list too, as training does."""
    of_training = {identity_of(video) for video, _ in videos_of(lists, "train")}
    for split in SPLITS[1:]:
        videos = [video for video, _ in videos_of(lists, split)] if lists.counts[split] else []
        shared = [video for video in videos if identity_of(video) in of_training]
        if shared:
            logger.warning(
                "%d of %d videos of %s are in train too, such as %s: they measure no new videos",
                *(len(shared), len(videos), split, shared[0]),
            )


def videos_of(lists: VideoLists, split: str) -> Rows:
    """Return path and class of each video of a list; of ``val`` if ``test`` is empty."""
    if split == "test" and not lists.counts["test"]:
        split = "val"
    if not lists.counts[split]:
        return []
    videos = []
    file = lists.root / f"{split}.txt"
    for number, line in enumerate(read_list(file), start=1):
        if len(line.labels) != 1:
            raise UserError(f"{file}, line {number}: {line.path} must have one label")
        videos.append((lists.root / line.path, line.labels[0]))
    return videos


def load_rows(rows: Rows) -> list[Tensor]:
    """Read features (N, ...) and classes (N,)."""
    return default_collate([(np.load(file), label) for file, label in rows])


def probe(
    cfg: Config, recipe: Recipe, lists: VideoLists, features: Path, target: Path | None
) -> tuple[dict[str, bool], str]:
    """Train and test a classifier on features of a frozen backbone.

    Args:
        cfg: Config that ``finetune.apply_recipe`` made, with the weights ``load_from``.
        recipe: The recipe; its ``method`` is one of ``finetune.settings.PROBES``.
        lists: Lists of one class a video.
        features: Folder of features (``compute_features``).
        target: Checkpoint to write: the head, and where the backbone is (``keep_trained``). None
            for none.

    Returns:
        Number of right predictions, that of all test videos, of which unreadable ones count as
        wrong, and the settings, the first of those best on the validation videos (without any, the
        middle ones).

    Raises:
        UserError: If no training video can be read.
    """
    model = load_recognizer(cfg, cfg.load_from, None, head=False)
    method = PROBES[recipe.method]
    workers = (cfg.get("val_dataloader") or {}).get("num_workers", 0)
    compute_features(cfg, model, lists, features, [method.form], workers)
    rows: dict[str, Rows] = {split: [] for split in SPLITS}
    answers: dict[str, bool] = {}
    tested = []
    for split in SPLITS:
        for video, label in videos_of(lists, split):
            file = features / method.form / place_of(video, lists.root)
            if split == "test":
                answers[str(video)] = False
            if file.exists():
                rows[split].append((file, label))
                tested += [str(video)] if split == "test" else []
    warn_of_shared_videos(lists)
    if not rows["train"]:
        raise UserError(f"none of the {lists.counts['train']} training videos could be read")
    device = next(model.parameters()).device
    classifiers = method.train(model.cls_head, rows["train"], recipe, lists)
    names = list(classifiers)
    chosen = names[(len(names) - 1) // 2]
    if rows["val"]:
        chosen = max(names, key=lambda name: sum(_right(classifiers[name], rows["val"], device)))
    answers |= zip(tested, _right(classifiers[chosen], rows["test"], device), strict=True)
    if target is not None:
        model.cls_head = classifiers[chosen]
        content = {
            "state_dict": {name: value.cpu() for name, value in model.state_dict().items()},
            "meta": {"dataset_meta": {"classes": list(lists.classes)}},
        }
        frozen = [f"backbone.{name}" for name, _ in model.backbone.named_parameters()]
        keep_trained(content, frozen, target.parent, published_base(cfg.load_from, model))
        with write_atomically(target) as part:
            torch.save(content, part)
    return answers, chosen


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
    chosen = fit_changes(fitted, *load_rows(rows), mirror)
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
    epochs, size = recipe.epochs or EPOCHS, recipe.batch or BATCH
    steps = epochs * math.ceil(len(rows) / size)
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
