"""Batches, learning rates, epochs, workers and precision of a fine-tuning config, as fragments."""

import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from mmengine.config import Config

from mmvidformer.config.fragments import Change, Fragment, replace
from mmvidformer.data.list_folders import VideoLists
from mmvidformer.data.splits import SPLITS
from mmvidformer.engine.optim.precision import precision_fragment
from mmvidformer.errors import UserError
from mmvidformer.finetune.coverage import has_weights, samples_per_process, steps_to_learn
from mmvidformer.finetune.settings import Recipe, RunSettings

# Of what is added to a frozen backbone, times the learning rate of all weights: Schulman 2025 (LoRA
# Without Regret); AdaTAD's configurations have 1e-4 for adapters, and 1e-5 for all weights.
ADDED_RATE = 10
# Settings of a learning rate scheduler that count epochs.
SPANS = ("begin", "end", "T_max", "step_size", "milestones", "warmup", "cosine_begin")


def decay_rates(cfg: Config, lists: VideoLists, recipe: Recipe) -> Change:
    """Let learning rates decay from layer to layer, if the recipe says so."""
    decay, wrapper = recipe.layer_decay, cfg.optim_wrapper
    if decay is None:
        return {}, []
    paramwise = {**(wrapper.get("paramwise_cfg") or {}), "layer_decay": decay}
    values = {
        "constructor": "mmvidformer.LayerDecayOptimWrapperConstructor",
        **replace(wrapper, "paramwise_cfg", paramwise),
    }
    return {"optim_wrapper": values}, [
        f"each layer's learning rate is {decay:g} of the next layer's"
    ]


def choose_batch(cfg: Config, lists: VideoLists, recipe: Recipe) -> Change:
    """Set the batch size, at most the number of samples of a process.

    Raises:
        UserError: If there are fewer videos than processes.
    """
    count = lists.counts["train"]
    if count < recipe.procs:
        raise UserError(f"procs must be at most the {count} training videos, got {recipe.procs}")
    share = samples_per_process(cfg, lists, recipe)
    batch = recipe.batch or cfg.train_dataloader.batch_size
    notes = []
    if batch > share:
        what = f"batch size reduced from {batch} to {share}"
        notes.append(f"{what}, the number of samples per process")
    # Nothing is dropped, as the last batch may be the only one.
    loader = dict(batch_size=min(batch, share), drop_last=False)
    return {"train_dataloader": loader}, notes


def scale_rate(cfg: Config, lists: VideoLists, recipe: Recipe) -> Change:
    """Scale the learning rate by total batch size over ``auto_scale_lr.base_batch_size``."""
    rate = cfg.optim_wrapper.optimizer.lr
    total = cfg.train_dataloader.batch_size * recipe.procs
    total *= cfg.optim_wrapper.get("accumulative_counts", 1)
    base = (cfg.get("auto_scale_lr") or {}).get("base_batch_size")
    factor = ADDED_RATE if recipe.method in ("lora", "adapter") else 1
    if recipe.lr is not None:
        scaled = recipe.lr
        note = f"learning rate {scaled:g} as given, total batch size {total}"
    elif base is None:
        scaled = rate
        note = f"learning rate {rate:g} as in the config, which has no base_batch_size"
    else:
        scaled = rate * total / base * factor
        sizes = f"{total} / {base} (total batch size here / in the config)"
        sizes += f" x {factor} ({recipe.method})" if factor > 1 else ""
        note = f"learning rate {scaled:.4g} = {rate:g} x {sizes}"
    fragment: Fragment = {"optim_wrapper": {"optimizer": {"lr": scaled}}}
    if base is not None:  # of the rate set here
        fragment |= replace(cfg, "auto_scale_lr", dict(enable=False, base_batch_size=total))
    return fragment, [note]


def stretch_schedule(cfg: Config, lists: VideoLists, recipe: Recipe) -> Change:
    """Set the number of epochs, all validated, and stretch the schedule.

    Raises:
        UserError: If the config does not count epochs.
    """
    stretched = stretch(cfg, recipe.epochs)
    epochs = stretched["train_cfg"]["max_epochs"]
    steps = steps_per_epoch(cfg, lists, recipe)
    notes = [f"{epochs} epochs of {steps} steps"]
    schedulers = []
    for scheduler in stretched["param_scheduler"]:
        begin, end = scheduler.get("begin", 0), scheduler.get("end")
        unit = steps if scheduler.get("convert_to_iter_based", False) else 1
        # MMEngine's ``LinearLR`` would keep its first value forever.
        if end is not None and int(end * unit) - int(begin * unit) < 2:
            notes.append(f"{scheduler['type']} is left out: it would last less than two steps")
        else:
            schedulers.append(scheduler)
    loop = dict(max_epochs=epochs, val_interval=1)
    return {"train_cfg": loop, "param_scheduler": schedulers}, notes


def steps_per_epoch(cfg: Config, lists: VideoLists, recipe: Recipe) -> int:
    """Return the number of steps of an epoch."""
    samples = samples_per_process(cfg, lists, recipe)
    return math.ceil(samples / cfg.train_dataloader.batch_size)


def note_few_steps(cfg: Config, lists: VideoLists, recipe: Recipe) -> list[str]:
    """Say so if a run has too few steps to learn, and how many epochs would have enough."""
    steps = steps_per_epoch(cfg, lists, recipe)
    total, needed = cfg.train_cfg.max_epochs * steps, steps_to_learn(cfg)
    if total >= needed:
        return []
    start = "these weights" if has_weights(cfg) else "random weights"
    epochs = math.ceil(needed / steps)
    plural = "s" if total > 1 else ""
    return [f"{total} step{plural} in all: too few to learn from {start}; --epochs {epochs}"]


def stretch(cfg: Config, epochs: int | None = None) -> Fragment:
    """Return a number of epochs, by default the config's, and a schedule of this length.

    Raises:
        UserError: If the config does not count epochs.
    """
    old_epochs = cfg.train_cfg.get("max_epochs")
    if not old_epochs:
        raise UserError(f"train_cfg must have max_epochs, got {dict(cfg.train_cfg)}")
    epochs = epochs or old_epochs
    schedulers = cfg.get("param_scheduler") or ()
    if isinstance(schedulers, Mapping):
        schedulers = [schedulers]
    stretched = [_stretch(scheduler, epochs / old_epochs) for scheduler in schedulers]
    return {"train_cfg": dict(max_epochs=epochs), "param_scheduler": stretched}


def choose_run(cfg: Config, lists: VideoLists, recipe: Recipe) -> Change:
    """Set workers, precision and seed."""
    return run_fragment(cfg, recipe), []


def run_fragment(cfg: Config, settings: RunSettings) -> Fragment:
    """Return the workers, the precision and the seed, as a fragment of a config."""
    fragment: Fragment = {}
    for split in SPLITS:
        loader = cfg.get(f"{split}_dataloader")
        if loader:
            workers = settings.workers
            if workers is None:
                workers = min(loader.num_workers, os.cpu_count() or 1)
            fragment[f"{split}_dataloader"] = {"num_workers": workers}
    if settings.amp:
        fragment |= precision_fragment(cfg)
    randomness = {**(cfg.get("randomness") or {}), "seed": settings.seed}
    return fragment | replace(cfg, "randomness", randomness)


def _stretch(scheduler: Mapping[str, Any], factor: float) -> dict[str, Any]:
    """Return a scheduler that lasts ``factor`` times as many epochs."""
    stretched = dict(scheduler)
    if not scheduler.get("by_epoch", True):
        return stretched
    for name in SPANS:
        if scheduler.get(name):
            span = np.multiply(scheduler[name], factor)
            if not scheduler.get("convert_to_iter_based", False):
                span = span.round().clip(1).astype(int)
            stretched[name] = span.tolist()
    return stretched
