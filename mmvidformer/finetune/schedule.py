"""Batch, learning rate and length of a training run, for another number of videos."""

import math

from mmengine.config import Config

# What a scheduler counts in epochs.
SPANS = ("begin", "end", "T_max", "step_size")


def set_batch(cfg: Config, count: int, batch: int | None = None, procs: int = 1) -> list[str]:
    """Set the clips a process and step, no more than a process has.

    Args:
        cfg: Changed.
        count: Videos to train on.
        batch: Clips a process and step; default: the config's.
        procs: Processes.

    Returns:
        What is worth knowing, in lines.

    Raises:
        ValueError: If there are fewer videos than processes, or ``batch`` is below 1.
    """
    loader = cfg.train_dataloader
    batch = loader.batch_size if batch is None else batch
    if batch < 1 or procs < 1:
        raise ValueError(f"batch and processes must be at least 1, got {batch} and {procs}")
    if count < procs:
        raise ValueError(f"{procs} processes share {count} training videos: take fewer processes")
    notes = []
    share = math.ceil(count / procs)
    if batch > share:
        notes.append(f"batch {batch} is more than the {share} videos of a process: now {share}")
        batch = share
    loader.batch_size = batch
    # A step that is not full must not be dropped where it may be the only one.
    loader.drop_last = False
    return notes


def scale_rate(cfg: Config, procs: int = 1, rate: float | None = None) -> list[str]:
    """Scale the learning rate by batch over the config's ``auto_scale_lr.base_batch_size``.

    Args:
        cfg: Changed; its batch is set already.
        procs: Processes.
        rate: Take this rate instead.

    Returns:
        The rate and why, in lines.
    """
    optimizer = cfg.optim_wrapper.optimizer
    old = optimizer.lr
    total = cfg.train_dataloader.batch_size * procs
    total *= cfg.optim_wrapper.get("accumulative_counts", 1)
    settings = cfg.get("auto_scale_lr") or {}
    base = settings.get("base_batch_size")
    if settings:
        cfg.auto_scale_lr.enable = False
    if rate is not None:
        optimizer.lr = rate
        return [f"learning rate {rate:g} as given, {total} clips a step"]
    if base is None:
        return [f"learning rate {old:g} as in the config, which names no batch it is for"]
    optimizer.lr = old * total / base
    return [
        f"learning rate {optimizer.lr:.4g} = {old:g} x {total} / {base} (clips a step, here and in "
        "the config)"
    ]


def set_epochs(cfg: Config, count: int, epochs: int | None = None, procs: int = 1) -> list[str]:
    """Set the length of training; the schedule of the rate is stretched with it.

    Every epoch is validated. Schedules converted to steps that have fewer than two of them are left
    out: MMEngine's ``LinearLR`` would stay at its first value for ever.

    Args:
        cfg: Changed; its batch is set already.
        count: Videos to train on.
        epochs: Epochs; default: the config's.
        procs: Processes.

    Returns:
        What is worth knowing, in lines.

    Raises:
        ValueError: If the config does not train by epochs, or ``epochs`` is below 1.
    """
    loop = cfg.train_cfg
    if not loop.get("max_epochs"):
        raise ValueError(f"the config does not train by epochs: {dict(loop)}")
    if epochs is not None and epochs < 1:
        raise ValueError(f"epochs must be at least 1, got {epochs}")
    factor = (epochs or loop.max_epochs) / loop.max_epochs
    loop.max_epochs = epochs or loop.max_epochs
    loop.val_interval = 1
    steps = math.ceil(math.ceil(count / procs) / cfg.train_dataloader.batch_size)
    kept, notes = [], [f"{loop.max_epochs} epochs of {steps} steps"]
    for scheduler in cfg.get("param_scheduler") or ():
        scheduler = _stretch(scheduler, factor)
        begin, end = (scheduler.get(key, default) for key, default in (("begin", 0), ("end", None)))
        unit = steps if scheduler.get("convert_to_iter_based") else 1
        if end is not None and int(end * unit) - int(begin * unit) < 2:
            notes.append(f"{scheduler.type} is left out: it would last less than two steps")
            continue
        kept.append(scheduler)
    cfg.param_scheduler = kept
    return notes


def _stretch(scheduler: dict, factor: float) -> dict:
    if not scheduler.get("by_epoch", True):
        return scheduler
    exact = scheduler.get("convert_to_iter_based", False)

    def scaled(value: float) -> float:
        return value * factor if exact else max(1, round(value * factor))

    for key in SPANS:
        if scheduler.get(key):
            scheduler[key] = scaled(scheduler[key])
    if "milestones" in scheduler:
        scheduler.milestones = [scaled(value) for value in scheduler.milestones]
    return scheduler
