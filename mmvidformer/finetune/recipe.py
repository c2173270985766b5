"""All that makes a fine-tuning config of a shipped one."""

import os
from dataclasses import dataclass

from mmengine.config import Config

from mmvidformer.config import type_name
from mmvidformer.datasets.own_videos import VideoLists
from mmvidformer.engine.optim.precision import use_amp
from mmvidformer.finetune.schedule import scale_rate, set_batch, set_epochs
from mmvidformer.finetune.videos import set_classes, use_lists

MONITOR = "acc/top1"


@dataclass(frozen=True)
class Recipe:
    """How to fine-tune; None leaves a setting to the config.

    Attributes:
        epochs: Epochs.
        batch: Clips a process and step.
        procs: Processes.
        lr: Learning rate; default: the config's, scaled by the batch.
        freeze: Train the head alone (linear probe).
        layer_decay: Factor of the learning rate from a layer to the one before.
        patience: Stop after so many validations without a better top-1.
        amp: Mixed precision.
        workers: Processes that read videos, for each training process; default: the config's, or
            the cores if those are fewer.
        seed: Of the order of the videos and of all random draws.
    """

    epochs: int | None = None
    batch: int | None = None
    procs: int = 1
    lr: float | None = None
    freeze: bool = False
    layer_decay: float | None = None
    patience: int | None = None
    amp: bool = False
    workers: int | None = None
    seed: int = 0


def apply_recipe(cfg: Config, lists: VideoLists, recipe: Recipe) -> list[str]:
    """Rewrite a config for one's own videos.

    Args:
        cfg: Of a recogniser that gives a video one label; changed.
        lists: From ``datasets.own_videos.read_lists``.
        recipe: How to train.

    Returns:
        What was done, in lines.

    Raises:
        ValueError: If the config or the recipe does not allow it; says why.
    """
    notes = use_lists(cfg, lists)
    set_classes(cfg, lists.classes)
    if recipe.freeze:
        _freeze(cfg, recipe)
        notes.append("the backbone is frozen: the head alone is trained")
    if recipe.layer_decay is not None:
        _decay(cfg, recipe.layer_decay)
        notes.append(f"each layer's rate is {recipe.layer_decay:g} of that of the next one")
    if recipe.patience is not None:
        if cfg.get("val_dataloader") is None:
            raise ValueError("stopping early needs validation videos, and val.txt is empty")
        stop = dict(type="EarlyStoppingHook", monitor=MONITOR, rule="greater")
        stop.update(patience=recipe.patience, min_delta=1e-4)
        cfg.custom_hooks = [*(cfg.get("custom_hooks") or ()), stop]
        notes.append(f"stops after {recipe.patience} validations without a better top-1")
    count = lists.counts["train"]
    notes += set_batch(cfg, count, recipe.batch, recipe.procs)
    notes += scale_rate(cfg, recipe.procs, recipe.lr)
    notes += set_epochs(cfg, count, recipe.epochs, recipe.procs)
    _set_workers(cfg, recipe.workers)
    if recipe.amp:
        use_amp(cfg)
    cfg.randomness = {**(cfg.get("randomness") or {}), "seed": recipe.seed}
    return notes


def _freeze(cfg: Config, recipe: Recipe) -> None:
    if recipe.layer_decay is not None:
        raise ValueError("a frozen backbone has no learning rates to decay: choose one of the two")
    if type_name(cfg.model) not in ("Recognizer3D", "MultiViewRecognizer"):
        raise ValueError(
            "only the backbone of a Recognizer3D or MultiViewRecognizer is frozen, not of "
            f"{cfg.model.type}"
        )
    cfg.model.type = "mmvidformer.FrozenRecognizer"


def _decay(cfg: Config, decay: float) -> None:
    if cfg.model.get("neck") is not None:
        raise ValueError(f"layer decay is for models of transformer blocks, not {cfg.model.type}")
    if not 0 < decay <= 1:
        raise ValueError(f"layer decay must be above 0 and at most 1, got {decay}")
    wrapper = cfg.optim_wrapper
    wrapper.constructor = "mmvidformer.LayerDecayOptimWrapperConstructor"
    wrapper.paramwise_cfg = {**(wrapper.get("paramwise_cfg") or {}), "layer_decay": decay}


def _set_workers(cfg: Config, workers: int | None) -> None:
    for split in ("train", "val", "test"):
        loader = cfg.get(f"{split}_dataloader")
        if loader is None:
            continue
        loader.num_workers = (
            min(loader.num_workers, os.cpu_count() or 1) if workers is None else workers
        )
        if loader.num_workers == 0:
            loader.persistent_workers = False
            loader.timeout = 0
