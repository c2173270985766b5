"""What a run reached on a list, beside what needs no model."""

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from mmvidformer.apis.model_card import Figure
from mmvidformer.data.list_folders import VideoLists
from mmvidformer.finetune.tally import Tally
from mmvidformer.processor import processor_name
from mmvidformer.tasks.base import Task

ADVICE = "try --weights, more --epochs, or --method linear"
PROBE_ADVICE = "try other --weights, or --method full"
SPLIT_WORDS = {"val": "validation", "test": "test"}


def compare_to_chance(
    task: Task,
    lists: VideoLists,
    metrics: Mapping[str, float],
    split: str = "val",
    tally: Tally | None = None,
    baselines: Mapping[str, Tally] | None = None,
) -> str | None:
    """Say what a result is worth beside answers that need no model.

    Args:
        task: The task.
        lists: Its lists.
        metrics: Metrics of a list.
        split: The list.
        tally: Right answers, of the task ``classes``.
        baselines: What needs no network, of the task ``classes``, by name (``try_baselines``).

    Returns None if the task does not know such an answer.
    """
    name = task.best_metric or "acc/top1"
    chance, value = task.chance(lists, split), metrics.get(name)
    if chance is None or value is None:
        return None
    called = SPLIT_WORDS[split]
    if tally is not None:
        return f"{called}: {compare_share(tally, chance, baselines)}"
    text = f"{called}: {name} {value:.3f}; without looking at the videos: {chance:.3f}"
    return text if value > chance else f"{text}. Nothing was learned: {ADVICE}"


def compare_share(
    tally: Tally, chance: float, baselines: Mapping[str, Tally] | None = None, advice: str = ADVICE
) -> str:
    """Describe a share of right videos, and whether it is above chance and cheap baselines."""
    if not tally.count:
        return str(tally)
    text = f"{tally}; without looking at the videos: {100 * chance:.1f}%"
    for name, baseline in (baselines or {}).items():
        text = f"{text}; {name}: {baseline}"
    if tally.right <= chance * tally.count:
        return f"{text}. Nothing was learned: {advice}"
    if baselines and tally.share <= max(baseline.share for baseline in baselines.values()):
        return f"{text}. This does not beat them: {advice}"
    if tally.interval()[0] <= chance:
        return f"{text}. {tally.count} videos are too few to tell whether it is above chance"
    return text


def list_figures(
    task: Task,
    lists: VideoLists,
    split: str,
    data: str,
    command: str,
    value: float | None,
    tally: Tally | None = None,
    baselines: Mapping[str, Tally] | None = None,
) -> list[dict[str, Any]]:
    """Return what a run measured, as ``Figure`` of a model card has it; nothing without a result.

    Args as ``compare_to_chance``; ``data`` and ``command`` are what the user gave.
    """
    if value is None:
        return []
    beside = {"chance": task.chance(lists, split)}
    beside |= {name: counted.share for name, counted in (baselines or {}).items()}
    figure = Figure(
        metric=task.best_metric or "acc/top1",
        value=value,
        split=SPLIT_WORDS[split],
        data=Path(data).resolve().name,
        interval=tally.interval() if tally and tally.count else None,
        count=tally.count if tally else lists.counts[split],
        beside={name: share for name, share in beside.items() if share is not None},
        command=command,
        processor=torch.cuda.get_device_name() if torch.cuda.is_available() else processor_name(),
        date=time.strftime("%Y-%m-%d"),
    )
    return [asdict(figure)]
