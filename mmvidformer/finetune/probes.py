"""Features of a frozen backbone, computed once, and classifiers on them."""

import copy
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from mmengine.config import Config
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn
from torch.utils.data import default_collate
from tqdm import tqdm

from mmvidformer.apis.features import check_settings, read_views, target_of, write_features
from mmvidformer.apis.pipeline import VideoPipeline, inference_transforms, normalize
from mmvidformer.checkpoints.atomic import write_atomically
from mmvidformer.checkpoints.download import hash_of
from mmvidformer.checkpoints.partial import keep_trained
from mmvidformer.datasets.lists import read_list
from mmvidformer.datasets.own_videos import SPLITS, VideoLists
from mmvidformer.engine.checkpointing.hook import published_base
from mmvidformer.engine.loading import load_recognizer
from mmvidformer.finetune.recipe import Recipe

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
    kinds: Sequence[str],
    workers: int = 0,
) -> None:
    """Compute the features that are not in a folder yet, of the center view of each video.

    The model, a recognizer in evaluation mode, has the weights that its config names as
    ``load_from``. Files are ``FOLDER/KIND/PATH_OF_VIDEO.npy``. Kinds are ``'vectors'`` (D,),
    averaged over the tokens if the backbone leaves that to its head, and ``'tokens'`` (T H W, D).
    Videos are read by ``workers`` processes, by this one if there are none.

    Raises:
        FileExistsError: If the folder has features of other weights or settings.
    """
    base, backbone = cfg.load_from, model.backbone
    settings = {"base": hash_of(Path(base)) if Path(base).is_file() else base}
    own = {k: v for k, v in cfg.model.backbone.items() if k not in ("pool", "frozen_stages")}
    settings |= {"pipeline": repr(inference_transforms(cfg, 1)), "backbone": repr(own)}
    pixels = cfg.model.get("data_preprocessor") or {}
    settings["pixels"] = repr([pixels.get(key) for key in ("mean", "std")])
    for kind in kinds:
        pool = {"pool": backbone.pool} if kind == "vectors" else {}
        check_settings(folder / kind, settings | pool)
    videos = dict.fromkeys(video for split in SPLITS for video, _ in videos_of(lists, split))
    targets = {
        video: {kind: target_of(video, lists.root, folder / kind) for kind in kinds}
        for video in videos
    }
    missing = [video for video in videos if not all(map(Path.exists, targets[video].values()))]
    progress = tqdm(total=len(missing), unit="video", disable=None)
    for batch in read_views(VideoPipeline(cfg, 1), missing, workers, CLIPS):
        progress.update(len(batch))
        by_shape: dict[torch.Size, list[tuple[Path, Tensor]]] = {}
        for video, clips in batch:
            if isinstance(clips, str):
                tqdm.write(f"left out: {clips}", file=sys.stderr)
            else:
                by_shape.setdefault(clips.shape, []).append((video, clips))
        for same in by_shape.values():
            clips = torch.cat([clips for _, clips in same])
            grid, cls = backbone.forward_features(normalize(model, clips))
            vector = backbone.pool_features(grid, cls)
            vector = vector.flatten(1, -2).mean(dim=1) if vector.dim() == 5 else vector
            found = {"vectors": vector, "tokens": backbone.fc_norm(grid).flatten(1, 3)}
            for row, (video, _) in enumerate(same):
                for kind, target in targets[video].items():
                    write_features(target, found[kind][row].float().cpu().numpy())
    progress.close()


def videos_of(lists: VideoLists, split: str) -> Rows:
    """Return path and class of each video of a list; of ``val`` if ``test`` is empty."""
    split = "val" if split == "test" and not lists.counts["test"] else split
    file, tab = lists.root / f"{split}.txt", lists.delimiter
    rows = read_list(file, tab) if lists.counts[split] else []
    return [(lists.root / path, int(text.strip().rpartition(tab)[2])) for text, path in rows]


def load(rows: Rows) -> list[Tensor]:
    """Read features (N, ...) and classes (N,)."""
    return default_collate([(np.load(file), label) for file, label in rows])


def probe(
    cfg: Config, recipe: Recipe, lists: VideoLists, features: Path, target: Path | None
) -> tuple[int, int, str]:
    """Train and test a classifier on features of a frozen backbone.

    Args:
        cfg: Config that ``finetune.apply_recipe`` changed, with the weights ``load_from``.
        recipe: The recipe; its ``method`` is one of ``finetune.recipe.PROBES``.
        lists: Lists of one class a video.
        features: Folder of features (``compute_features``).
        target: Checkpoint to write: the head, and where the backbone is (``keep_trained``). None
            for none.

    Returns:
        Number of right predictions, that of all test videos, of which unreadable ones count as
        wrong, and the settings, the first of those best on the validation videos (without any, the
        middle ones).

    Raises:
        ValueError: If no training video can be read.
    """
    model = load_recognizer(cfg, cfg.load_from, None, head=False)
    kind, train = PROBES[recipe.method]
    workers = (cfg.get("val_dataloader") or {}).get("num_workers", 0)
    compute_features(cfg, model, lists, features, [kind], workers)
    rows: dict[str, Rows] = {}
    for split in SPLITS:
        pairs = ((target_of(x, lists.root, features / kind), y) for x, y in videos_of(lists, split))
        rows[split] = [(file, label) for file, label in pairs if file.exists()]
    if not rows["train"]:
        raise ValueError(f"none of the {lists.counts['train']} training videos could be read")
    found, device = train(model.cls_head, rows["train"], recipe), next(model.parameters()).device
    chosen = [*found][(len(found) - 1) // 2]
    if rows["val"]:
        chosen = max(found, key=lambda name: _right(found[name], rows["val"], device))
    right = _right(found[chosen], rows["test"], device)
    if target is not None:
        model.cls_head = found[chosen]
        content = {
            "state_dict": {name: value.cpu() for name, value in model.state_dict().items()},
            "meta": {"dataset_meta": {"classes": list(lists.classes)}},
        }
        frozen = [f"backbone.{name}" for name, _ in model.backbone.named_parameters()]
        keep_trained(content, frozen, target.parent, published_base(cfg.load_from, model))
        with write_atomically(target) as part:
            torch.save(content, part)
    return right, len(videos_of(lists, "test")), chosen


@torch.no_grad()
def _right(classify: Callable[[Tensor], Tensor], rows: Rows, device: torch.device) -> int:
    batches = (load(rows[start : start + BATCH]) for start in range(0, len(rows), BATCH))
    return sum(int((classify(x.to(device)).argmax(1).cpu() == y).sum()) for x, y in batches)


def _linear(head: nn.Module, rows: Rows, recipe: Recipe) -> Classifiers:
    """Logistic regression on standardized features, which become weights of the linear head."""
    inputs, labels = (x.numpy() for x in load(rows))
    scaler, found = StandardScaler().fit(inputs), {}
    for penalty in PENALTIES:
        fit = LogisticRegression(C=penalty, max_iter=2000).fit(scaler.transform(inputs), labels)
        weight = fit.coef_ / scaler.scale_
        values = np.c_[weight, fit.intercept_ - weight @ scaler.mean_]
        if len(values) == 1:  # of two classes the second
            values = np.concatenate([0 * values, values])
        found[f"inverse L2 penalty {penalty:g}"] = one = copy.deepcopy(head)
        weight, bias = one.fc_cls.weight.data.zero_(), one.fc_cls.bias.data.fill_(NEVER)
        known = torch.from_numpy(values).to(weight)
        weight[fit.classes_], bias[fit.classes_] = known[:, :-1], known[:, -1]
    return found


def _knn(head: nn.Module, rows: Rows, recipe: Recipe) -> Classifiers:
    """Votes of the nearest neighbors by cosine, weighted by exp(similarity / temperature)."""
    inputs, labels = load(rows)
    keys, classes = F.normalize(inputs), F.one_hot(labels, head.num_classes)

    def votes(x: Tensor, count: int) -> Tensor:
        near = (F.normalize(x) @ keys.to(x).T).topk(count)
        return (near.values.div(TEMPERATURE).exp()[..., None] * classes.to(x)[near.indices]).sum(1)

    counts = [count for count in NEIGHBORS if count <= len(rows)] or [len(rows)]
    return {f"{count} neighbors": partial(votes, count=count) for count in counts}


def _attentive(head: nn.Module, rows: Rows, recipe: Recipe) -> Classifiers:
    """Attention over the tokens: heads with several learning rates, trained side by side."""
    device, rates = head.fc_cls.weight.device, [recipe.lr] if recipe.lr else RATES
    torch.manual_seed(recipe.seed)
    head.init_weights()
    heads = nn.ModuleList(copy.deepcopy(head) for _ in rates).train()
    groups = [{"params": [*h.parameters()], "lr": r} for h, r in zip(heads, rates, strict=True)]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    epochs, size = recipe.epochs or EPOCHS, recipe.batch or BATCH
    steps = epochs * math.ceil(len(rows) / size)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in tqdm(range(epochs), unit="epoch", disable=None):
        for numbers in torch.randperm(len(rows)).split(size):
            tokens, labels = (x.to(device) for x in load([rows[i] for i in numbers]))
            optimizer.zero_grad()
            sum(F.cross_entropy(one(tokens), labels) for one in heads).backward()
            optimizer.step()
            schedule.step()
    return {f"learning rate {rate:g}": one for rate, one in zip(rates, heads.eval(), strict=True)}


PROBES: Mapping[str, tuple[str, Callable[[nn.Module, Rows, Recipe], Classifiers]]] = {
    "attentive": ("tokens", _attentive),
    "linear": ("vectors", _linear),
    "knn": ("vectors", _knn),
}
