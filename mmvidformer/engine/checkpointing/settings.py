"""Settings of a resumed run: the config counts, and the state is that of the checkpoint.

State are weights, moments, the scale of the loss, the number of steps, and the order of samples.
"""

import inspect
import json
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from mmengine.hooks import EMAHook
from mmengine.optim import BaseOptimWrapper, OptimWrapperDict
from mmengine.runner import Runner
from torch.optim import Optimizer

from mmvidformer.errors import UserError

Pairs = list[tuple[dict, dict]]
# Parts of a config on which training depends.
TRAINED = ("model", "train_dataloader", "train_cfg", "optim_wrapper", "param_scheduler")
TRAINED += ("auto_scale_lr", "custom_hooks", "fsdp")
# What optimizers compute does not depend on these arguments.
IMPLEMENTATION = ("foreach", "fused", "capturable", "differentiable")
# What changes in a scheduler while it runs, and what it takes from the optimizer.
PROGRESS = ("last_step", "_global_step", "_last_value", "base_values", "verbose")


class CannotContinue(UserError):
    """A checkpoint from which a run cannot be resumed."""


def check_state(checkpoint: object, source: str) -> None:
    """Check that a checkpoint holds what a run needs to continue.

    Raises:
        CannotContinue: If it only has weights.
    """
    parts = checkpoint if isinstance(checkpoint, Mapping) else {}
    steps = parts.get("meta") if isinstance(parts.get("meta"), Mapping) else {}
    missing = [] if "optimizer" in parts else ["state of the optimizer"]
    if "message_hub" not in parts or not {"epoch", "iter"} <= steps.keys():
        missing.append("number of steps")
    if missing:
        raise CannotContinue(
            f"{source} cannot be resumed: it has no {' and no '.join(missing)}. Resume from "
            "epoch_*.pth, or start a new run from its weights with --cfg-options "
            f"load_from={source}"
        )


def use_config(runner: Runner, checkpoint: dict, same_length: bool) -> list[str]:
    """Replace the settings in a checkpoint that is being resumed by those of the run's config.

    If any differ, the schedules are dropped from the checkpoint, and ``replay_schedules`` must be
    called before the first step. Nothing is changed in a checkpoint with the same settings.

    Args:
        runner: Runner with optimizers and schedules as built from its config.
        checkpoint: Content of the checkpoint.
        same_length: Whether an epoch has as many steps as before. Otherwise schedules by steps
            differ, too.

    Returns:
        What differs, old and new.

    Raises:
        CannotContinue: If the state is that of another optimizer, or of other groups of parameters.
    """
    _use_raw_weights(runner, checkpoint)
    groups = _pair_groups(runner.optim_wrapper, checkpoint["optimizer"])
    changes = [change for old, new in groups for change in _compare_groups(old, new)]
    if same_length:
        changes += _compare_schedules(runner.param_schedulers, checkpoint.get("param_schedulers"))
    for old, new in groups:
        old.update({name: new[name] for name in IMPLEMENTATION if name in new})
        if changes:
            for name in [name for name in old if name.startswith("initial_")]:
                del old[name]
            old.update(new)
    if changes or not same_length:
        checkpoint.pop("param_schedulers", None)
    return [*dict.fromkeys(changes)]


def settings_of(cfg: Mapping) -> dict[str, Any]:
    """Return what training depends on (``TRAINED``), of a config, as plain values."""
    return json.loads(json.dumps({part: cfg.get(part) for part in TRAINED}, default=str))


def compare_settings(old: Any, new: Any, place: str = "") -> Iterator[str]:
    """Yield where two configs differ (``settings_of``): each place, its old and its new value."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            inside = f"{place}.{key}" if place else key
            yield from compare_settings(old.get(key), new.get(key), inside)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, pair in enumerate(zip(old, new, strict=True)):
            yield from compare_settings(*pair, f"{place}.{index}")
    elif old != new:
        yield f"{place} {_shorten(old)} -> {_shorten(new)}"


def replay_schedules(runner: Runner) -> None:
    """Bring the schedules of the config to the step of the run, as if they had always applied."""
    # A schedule by metrics has no length, and its steps cannot be repeated.
    schedulers = _flatten(runner.param_schedulers)
    schedulers = [s for s in schedulers if not getattr(s, "need_step_args", False)]
    for scheduler in schedulers:
        name, groups = scheduler.param_name, scheduler.optimizer.param_groups
        scheduler.last_step = scheduler._global_step = -1
        scheduler.optimizer._global_step = 0  # or MMEngine warns that it makes no steps
        for group, value in zip(groups, scheduler.base_values, strict=True):
            group[name] = group[f"initial_{name}"] = value
    for iteration in range(runner.iter + 1):  # the first step sets the first value
        for scheduler in schedulers:
            if iteration <= (runner.epoch if scheduler.by_epoch else runner.iter):
                scheduler.step()


def _use_raw_weights(runner: Runner, checkpoint: dict) -> None:
    """Without ``EMAHook``, go on from the weights that were trained, not from their averages.

    The hook saves the averages as ``state_dict``, and the weights under the names of the averages.
    """
    if "ema_state_dict" in checkpoint and not any(isinstance(h, EMAHook) for h in runner.hooks):
        raw = {k.removeprefix("module."): v for k, v in checkpoint.pop("ema_state_dict").items()}
        state = checkpoint["state_dict"]
        state.update({name: raw[name] for name in state if name in raw})


def _pair_groups(wrapper: BaseOptimWrapper | OptimWrapperDict, state: Mapping) -> Pairs:
    """Pair the groups of parameters in the state of an optimizer with the settings of new ones.

    Settings are the arguments of the optimizer, and from which values schedules start.
    """
    if isinstance(wrapper, OptimWrapperDict):
        pairs = [_pair_groups(part, state.get(name, {})) for name, part in wrapper.items()]
        return sum(pairs, [])
    arguments = {*inspect.signature(type(wrapper.optimizer)).parameters} - {"params"}
    _check_groups(wrapper.optimizer, state, arguments)
    old = [*state["param_groups"]]
    if state.get("base_param_settings"):  # of the wrapper; those of the groups follow from it
        old.append(state["base_param_settings"])
    new = [
        {k: v for k, v in group.items() if k in arguments or k.startswith("initial_")}
        for group in wrapper.param_groups
    ]
    return [*zip(old, new, strict=True)]


def _compare_groups(old: Mapping, new: Mapping) -> list[str]:
    changes = []
    for name in [name for name in new if name in old and not name.startswith("initial_")]:
        before, now = _start_of(old, name), _start_of(new, name)
        if before != now and name not in IMPLEMENTATION:
            changes.append(f"{name} {_shorten(before)} -> {_shorten(now)}")
    return changes


def _check_groups(optimizer: Optimizer, state: Mapping, arguments: set[str]) -> None:
    new, old = optimizer.param_groups, state.get("param_groups") or [{}]
    numbers = {name for name, value in new[0].items() if type(value) in (int, float, tuple)}
    if lacking := sorted(name for name in numbers & arguments if name not in old[0]):
        raise CannotContinue(
            f"the checkpoint has the state of another optimizer than {type(optimizer).__name__}: "
            f"it has no {', '.join(lacking)}. Resume with its optimizer, or start a new run from "
            "its weights (load_from)"
        )
    sizes = [[len(group["params"]) for group in groups] for groups in (old, new)]
    if sizes[0] != sizes[1]:
        counts = [f"{sum(size)} parameters in {len(size)} groups" for size in sizes]
        raise CannotContinue(
            f"the optimizer of the checkpoint has {counts[0]}, that of the config {counts[1]}. "
            "Resume with the same frozen layers and paramwise_cfg, or start a new run from its "
            "weights (load_from)"
        )


def _start_of(group: Mapping, name: str) -> Any:
    """Return the value of a setting before any schedule."""
    value = group.get(f"initial_{name}", group[name])
    return tuple(value) if isinstance(value, list) else value


def _compare_schedules(schedulers: Any, saved: Any) -> list[str]:
    old, new = _flatten(saved), [part.state_dict() for part in _flatten(schedulers)]
    facts = [
        [{k: v for k, v in state.items() if k not in PROGRESS} for state in states]
        for states in (old, new)
    ]
    is_by_metrics = any("need_step_args" in state for state in new)
    return [] if facts[0] == facts[1] or is_by_metrics else ["param_scheduler"]


def _flatten(schedulers: Any) -> list:
    """List schedulers, or their states; those of several optimizers come by name."""
    if isinstance(schedulers, Mapping):
        return sum(schedulers.values(), [])
    return schedulers or []


def _shorten(value: Any) -> str:
    return textwrap.shorten(str(value), 40, placeholder="...")
