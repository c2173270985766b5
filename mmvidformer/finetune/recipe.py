"""How a shipped config becomes a fine-tuning config."""

import math
from collections.abc import Sequence

import numpy as np
from mmaction.datasets import VideoDataset
from mmengine.config import Config

from mmvidformer.config import config_scope, leaf_datasets, pipelines, type_name
from mmvidformer.datasets.own_videos import SPLITS, VideoLists
from mmvidformer.engine.loading import build_meta_model
from mmvidformer.engine.pipelines import set_classes
from mmvidformer.engine.preflight.checks import mirrors, names_side
from mmvidformer.finetune.balance import set_balance
from mmvidformer.finetune.settings import METHODS, PROBES, Recipe
from mmvidformer.finetune.tasks import set_task
from mmvidformer.registry import DATASETS
from mmvidformer.tasks.base import Task
from mmvidformer.tasks.table import find_task

KEPT = ("num_classes", "average_clips", "topk")  # arguments of the config's head
FREEZING = ("frozen_stages", "lora")  # arguments of backbones
LORA_RATE = 10  # times the learning rate of all weights, as Schulman 2025 (LoRA Without Regret)
# Settings of a learning rate scheduler that count epochs.
SPANS = ("begin", "end", "T_max", "step_size", "milestones", "warmup", "cosine_begin")


def apply_recipe(cfg: Config, lists: VideoLists, recipe: Recipe) -> list[str]:
    """Rewrite a config for your videos.

    Args:
        cfg: Config of a recognizer with one label per video. Changed in place.
        lists: Result of ``tasks.lists.read_task_lists``, for the task.
        recipe: Fine-tuning settings.

    Returns:
        Log lines of what was changed.

    Raises:
        ValueError: If the config or the lists do not allow it.
    """
    task = find_task(recipe.task)
    notes = use_lists(cfg, lists, task.suffix)
    set_classes(cfg, lists.classes, task.least_classes)
    notes += set_task(cfg, task, lists)
    if recipe.balance:
        notes.append(set_balance(cfg, task, recipe.balance, lists))
    notes += remove_flips(cfg, lists.classes)
    if type_name(cfg.model) == "Recognizer3D":  # it cannot limit the views of a batch
        cfg.model.type = "mmvidformer.MultiViewRecognizer"
    notes += _set_method(cfg, recipe, task)
    training = []
    if recipe.layer_decay is not None:
        wrapper, decay = cfg.optim_wrapper, recipe.layer_decay
        wrapper.constructor = "mmvidformer.LayerDecayOptimWrapperConstructor"
        wrapper.paramwise_cfg = {**(wrapper.get("paramwise_cfg") or {}), "layer_decay": decay}
        training.append(f"each layer's learning rate is {decay:g} of the next layer's")
    count, loader = lists.counts["train"], cfg.train_dataloader
    if count < recipe.procs:
        raise ValueError(f"procs must be at most the {count} training videos, got {recipe.procs}")
    share, batch = math.ceil(count / recipe.procs), recipe.batch or loader.batch_size
    loader.batch_size = min(batch, share)
    loader.drop_last = False  # it may be the only batch
    if batch > share:
        training.append(
            f"batch size reduced from {batch} to {share}, the number of videos per process"
        )
    training.append(_set_rate(cfg, recipe))
    training += _set_epochs(cfg, recipe, math.ceil(share / loader.batch_size))
    if recipe.method not in PROBES or not task.has_probes:
        notes += training
    recipe.apply(cfg)
    return notes


def drop_split(cfg: Config, split: str) -> None:
    """Let a config have no validation, or no test."""
    for part in ("cfg", "dataloader", "evaluator"):
        cfg[f"{split}_{part}"] = None
    if split == "val":
        cfg.default_hooks.checkpoint.save_best = None


def _set_rate(cfg: Config, recipe: Recipe) -> str:
    """Scale the learning rate by total batch size over ``auto_scale_lr.base_batch_size``."""
    optimizer, old = cfg.optim_wrapper.optimizer, cfg.optim_wrapper.optimizer.lr
    total = cfg.train_dataloader.batch_size * recipe.procs
    total *= cfg.optim_wrapper.get("accumulative_counts", 1)
    base = (cfg.get("auto_scale_lr") or {}).get("base_batch_size")
    if base is not None:
        cfg.auto_scale_lr = dict(enable=False, base_batch_size=total)  # of the rate set below
    if recipe.lr is not None:
        optimizer.lr = recipe.lr
        return f"learning rate {recipe.lr:g} as given, total batch size {total}"
    if base is None:
        return f"learning rate {old:g} as in the config, which has no base_batch_size"
    factor = LORA_RATE if recipe.method == "lora" else 1
    optimizer.lr = old * total / base * factor
    sizes = f"{total} / {base} (total batch size here / in the config)"
    sizes += f" x {factor} (LoRA)" if factor > 1 else ""
    return f"learning rate {optimizer.lr:.4g} = {old:g} x {sizes}"


def _set_epochs(cfg: Config, recipe: Recipe, steps: int) -> list[str]:
    """Set the number of epochs of ``steps`` steps, all validated, and stretch the schedule."""
    loop = cfg.train_cfg
    if not loop.get("max_epochs"):
        raise ValueError(f"train_cfg must have max_epochs, got {dict(loop)}")
    epochs = recipe.epochs or loop.max_epochs
    factor = epochs / loop.max_epochs
    loop.update(max_epochs=epochs, val_interval=1)
    kept, notes = [], [f"{epochs} epochs of {steps} steps"]
    for scheduler in cfg.get("param_scheduler") or ():
        by_step = scheduler.get("convert_to_iter_based", False)
        for key in SPANS if scheduler.get("by_epoch", True) else ():
            if scheduler.get(key):
                spans = np.multiply(scheduler[key], factor)
                spans = spans if by_step else spans.round().clip(1).astype(int)
                scheduler[key] = spans.tolist()
        begin, end = scheduler.get("begin", 0), scheduler.get("end")
        unit = steps if by_step else 1
        # MMEngine's ``LinearLR`` would keep its first value forever.
        if end is not None and int(end * unit) - int(begin * unit) < 2:
            notes.append(f"{scheduler.type} is removed: it would last less than two steps")
        else:
            kept.append(scheduler)
    cfg.param_scheduler = kept
    return notes


def use_lists(cfg: Config, lists: VideoLists, suffix: str = "txt") -> list[str]:
    """Let the dataloaders of a config read one's own lists, with their pipelines.

    If the list ``test`` is empty, testing reads ``val``; if ``val`` is empty, there is no
    validation. Wrappers such as ``RepeatDataset`` are removed. Returns log lines.

    Raises:
        ValueError: If the config does not read lists of videos with one label each.
    """
    notes, counts = [], lists.counts
    for split, word in zip(SPLITS, ("training", "validation", "test"), strict=True):
        if not (loader := cfg.get(f"{split}_dataloader")):
            model_type = type_name(cfg.model)
            raise ValueError(f"the config, of a {model_type}, must have a {split}_dataloader")
        loader.dataset = dataset = next(leaf_datasets(loader.dataset))
        with config_scope(cfg):
            dataset_class = DATASETS.get(dataset.type)
        if dataset_class is None or not issubclass(dataset_class, VideoDataset):
            raise ValueError(
                f"the config must read a VideoDataset, with one class per video, got {dataset.type}"
            )
        source = "val" if split == "test" and not counts["test"] else split
        dataset.ann_file = str(lists.root / f"{source}.{suffix}")
        dataset.data_prefix = {"video": str(lists.root)}
        dataset.delimiter = lists.delimiter
        if not counts[source]:
            notes.append(f"no {word}: {split}.{suffix} is empty")
            drop_split(cfg, split)
        elif source != split:
            notes.append(f"test.{suffix} is empty: mmvidformer test will read val.{suffix}")
    steps = (cfg.model.get("data_preprocessor") or {}).get("augment") or ()
    if any([step.pop("label_map", None) for step in steps]):
        notes.append("flips no longer swap the classes of the config's own data")
    return notes


def remove_flips(cfg: Config, names: Sequence[str]) -> list[str]:
    """Remove horizontal flips from training if the name of a class has a side, such as 'left'."""
    sided = [name for name in names if names_side(name)]
    augment = (cfg.model.get("data_preprocessor") or {}).get("augment")
    is_changed = False
    for steps in (augment or [], *pipelines(cfg.train_dataloader.dataset)) if sided else ():
        for step in list(steps):
            if mirrors(type_name(step), step.get("direction", "horizontal")):
                steps.remove(step)
                is_changed = True
    return [f"horizontal flips are removed: class {sided[0]!r} names a side"] if is_changed else []


def fitting_methods(cfg: Config, task: Task) -> tuple[str, ...]:
    """Return the methods that a model and a task allow."""
    if not hasattr(build_meta_model(cfg).backbone, "stages"):
        return ("full",)
    return METHODS if task.has_probes else ("full", "lora", "linear")


def _set_method(cfg: Config, recipe: Recipe, task: Task) -> list[str]:
    """Freeze the backbone of a config, or nothing, and add what is trained."""
    method = recipe.method
    removed = [key for key in FREEZING if cfg.model.backbone.pop(key, None) not in (None, -1)]
    if method == "full":
        return [f"all weights are trained, without {key} of the config" for key in removed]
    backbone = build_meta_model(cfg).backbone
    if method not in (fit := fitting_methods(cfg, task)):
        what = f"classes, got {task.name}"
        if fit == ("full",):
            what = f"a VideoTransformer, got {type(backbone).__name__}"
        raise ValueError(f"{method} needs {what}")
    cfg.model.backbone.frozen_stages = len(backbone.stages()) - 2  # all blocks
    if method == "lora":
        lora = dict(rank=recipe.lora_rank, alpha=recipe.lora_alpha, layers=[*recipe.lora_layers])
        cfg.model.backbone.lora = lora
        build_meta_model(cfg)  # checks the layers
        return [f"the backbone is frozen, with LoRA of rank {recipe.lora_rank}"]
    if task.has_probes:
        head, pool = dict(type="TimeSformerHead"), "mean" if backbone.pool == "none" else None
        if method == "attentive":
            heads = backbone.configs[-1].sizes["num_heads"]
            head, pool = dict(type="mmvidformer.AttentiveHead", num_heads=heads), "none"
        if pool:
            cfg.model.backbone.pool = pool
        kept = {k: v for k, v in cfg.model.cls_head.items() if k in KEPT}
        cfg.model.cls_head = {**head, "in_channels": backbone.embed_dims, **kept}
    return ["the backbone is frozen: only the head is trained"]
