"""How a shipped config becomes a fine-tuning config."""

import os
from dataclasses import dataclass

from mmengine.config import Config

from mmvidformer.config import type_name
from mmvidformer.datasets.own_videos import SPLITS, VideoLists
from mmvidformer.engine.optim.precision import use_amp
from mmvidformer.finetune.schedule import scale_rate, set_batch, set_epochs
from mmvidformer.finetune.videos import set_classes, use_lists


@dataclass(frozen=True)
class Recipe:
    """Fine-tuning settings; None keeps the config's.

    Attributes:
        epochs: Number of epochs.
        batch: Batch size per process.
        procs: Number of processes.
        lr: Learning rate. Default: the config's, scaled by the total batch size.
        freeze: Whether to train only the head (linear probe).
        layer_decay: Factor between the learning rates of a layer and the next one.
        patience: Number of validations without a better top-1 before training stops.
        amp: Whether to use mixed precision.
        workers: Number of dataloader workers per process. Default: the config's, but at most the
            number of cores.
        seed: Random seed.
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
        cfg: Config of a recognizer with one label per video. Changed in place.
        lists: Result of ``datasets.own_videos.read_lists``.
        recipe: Fine-tuning settings.

    Returns:
        Log lines of what was changed.

    Raises:
        ValueError: If the config or the recipe does not allow it.
    """
    notes = use_lists(cfg, lists)
    set_classes(cfg, lists.classes)
    if recipe.freeze:
        _freeze(cfg, recipe)
        notes.append("the backbone is frozen: only the head is trained")
    if recipe.layer_decay is not None:
        _decay(cfg, recipe.layer_decay)
        notes.append(f"each layer's learning rate is {recipe.layer_decay:g} of the next layer's")
    if recipe.patience is not None:
        if cfg.get("val_dataloader") is None:
            raise ValueError("early stopping needs validation videos, but val.txt is empty")
        stop = dict(type="EarlyStoppingHook", monitor="acc/top1", rule="greater", min_delta=1e-4)
        stop.update(patience=recipe.patience)
        cfg.custom_hooks = [*(cfg.get("custom_hooks") or ()), stop]
        notes.append(f"training stops after {recipe.patience} validations without a better top-1")
    count = lists.counts["train"]
    notes += set_batch(cfg, count, recipe.batch, recipe.procs)
    notes += scale_rate(cfg, recipe.procs, recipe.lr)
    notes += set_epochs(cfg, count, recipe.epochs, recipe.procs)
    for loader in filter(None, (cfg.get(f"{split}_dataloader") for split in SPLITS)):
        loader.num_workers = min(loader.num_workers, os.cpu_count() or 1)
        if recipe.workers is not None:
            loader.num_workers = recipe.workers
        if loader.num_workers == 0:  # PyTorch refuses both without workers
            loader.update(persistent_workers=False, timeout=0)
    if recipe.amp:
        use_amp(cfg)
    cfg.randomness = {**(cfg.get("randomness") or {}), "seed": recipe.seed}
    return notes


def _freeze(cfg: Config, recipe: Recipe) -> None:
    if recipe.layer_decay is not None:
        raise ValueError(
            "freeze and layer_decay exclude each other: a frozen backbone has no rates"
        )
    if type_name(cfg.model) not in ("Recognizer3D", "MultiViewRecognizer"):
        raise ValueError(
            f"freeze needs a Recognizer3D or MultiViewRecognizer, got {cfg.model.type}"
        )
    cfg.model.type = "mmvidformer.FrozenRecognizer"


def _decay(cfg: Config, decay: float) -> None:
    if cfg.model.get("neck") is not None:
        raise ValueError(f"layer_decay needs a model of transformer blocks, got {cfg.model.type}")
    if not 0 < decay <= 1:
        raise ValueError(f"layer_decay must be above 0 and at most 1, got {decay}")
    wrapper = cfg.optim_wrapper
    wrapper.constructor = "mmvidformer.LayerDecayOptimWrapperConstructor"
    wrapper.paramwise_cfg = {**(wrapper.get("paramwise_cfg") or {}), "layer_decay": decay}
