"""Batch size, learning rate and length of a training run, for another number of videos."""

import math

from mmengine.config import Config

# Settings of a scheduler that count epochs.
SPANS = ("begin", "end", "T_max", "step_size")


def set_batch(cfg: Config, count: int, batch: int | None = None, procs: int = 1) -> list[str]:
    """Set the batch size per process, at most the number of videos per process.

    Args:
        cfg: Changed in place.
        count: Number of training videos.
        batch: Batch size per process. Default: the config's.
        procs: Number of processes.

    Returns:
        Log lines.

    Raises:
        ValueError: If there are fewer videos than processes, or an argument is below 1.
    """
    loader = cfg.train_dataloader
    batch = loader.batch_size if batch is None else batch
    if batch < 1 or procs < 1:
        raise ValueError(f"batch and procs must be at least 1, got {batch} and {procs}")
    if count < procs:
        raise ValueError(f"{procs} processes for {count} training videos; use fewer processes")
    share = math.ceil(count / procs)
    loader.batch_size = min(batch, share)
    loader.drop_last = False  # it may be the only batch
    if batch > share:
        return [f"batch size reduced from {batch} to {share}, the number of videos per process"]
    return []


def scale_rate(cfg: Config, procs: int = 1, rate: float | None = None) -> list[str]:
    """Scale the learning rate by total batch size over ``auto_scale_lr.base_batch_size``.

    Args:
        cfg: Changed in place, after its batch size is set.
        procs: Number of processes.
        rate: Learning rate to use instead.

    Returns:
        Log lines.
    """
    optimizer, old = cfg.optim_wrapper.optimizer, cfg.optim_wrapper.optimizer.lr
    total = cfg.train_dataloader.batch_size * procs
    total *= cfg.optim_wrapper.get("accumulative_counts", 1)
    base = (cfg.get("auto_scale_lr") or {}).get("base_batch_size")
    if base is not None:
        cfg.auto_scale_lr.enable = False
    if rate is not None:
        optimizer.lr = rate
        return [f"learning rate {rate:g} as given, total batch size {total}"]
    if base is None:
        return [f"learning rate {old:g} as in the config, which has no base_batch_size"]
    optimizer.lr = old * total / base
    sizes = f"{total} / {base} (total batch size here / in the config)"
    return [f"learning rate {optimizer.lr:.4g} = {old:g} x {sizes}"]


def set_epochs(cfg: Config, count: int, epochs: int | None = None, procs: int = 1) -> list[str]:
    """Set the length of training, and stretch the learning rate schedule accordingly.

    Every epoch is validated. Schedulers converted to steps that last less than two steps are
    removed: MMEngine's ``LinearLR`` would keep its first value forever.

    Args:
        cfg: Changed in place, after its batch size is set.
        count: Number of training videos.
        epochs: Number of epochs. Default: the config's.
        procs: Number of processes.

    Returns:
        Log lines.

    Raises:
        ValueError: If the config does not train by epochs, or ``epochs`` is below 1.
    """
    loop = cfg.train_cfg
    if not loop.get("max_epochs"):
        raise ValueError(f"train_cfg must have max_epochs, got {dict(loop)}")
    if epochs is not None and epochs < 1:
        raise ValueError(f"epochs must be at least 1, got {epochs}")
    factor = (epochs or loop.max_epochs) / loop.max_epochs
    loop.max_epochs = epochs or loop.max_epochs
    loop.val_interval = 1
    steps = math.ceil(math.ceil(count / procs) / cfg.train_dataloader.batch_size)
    kept, notes = [], [f"{loop.max_epochs} epochs of {steps} steps"]
    for scheduler in cfg.get("param_scheduler") or ():
        by_step = scheduler.get("convert_to_iter_based", False)
        if scheduler.get("by_epoch", True):
            _stretch(scheduler, factor, exact=by_step)
        begin, end = scheduler.get("begin", 0), scheduler.get("end")
        unit = steps if by_step else 1
        if end is not None and int(end * unit) - int(begin * unit) < 2:
            notes.append(f"{scheduler.type} is removed: it would last less than two steps")
        else:
            kept.append(scheduler)
    cfg.param_scheduler = kept
    return notes


def _stretch(scheduler: dict, factor: float, exact: bool) -> None:
    def scaled(value: float) -> float:
        return value * factor if exact else max(1, round(value * factor))

    for key in SPANS:
        if scheduler.get(key):
            scheduler[key] = scaled(scheduler[key])
    if "milestones" in scheduler:
        scheduler.milestones = [scaled(value) for value in scheduler.milestones]
