"""What a run reached on the validation list, beside what needs no model."""

from collections.abc import Mapping

from scipy.stats import binomtest

from mmvidformer.data.own_videos import VideoLists
from mmvidformer.finetune.baseline import NAME, Baseline
from mmvidformer.tasks.base import Task

ADVICE = "try --weights, more --epochs, or --method linear"
PROBE_ADVICE = "try other --weights, or --method full"


def share(right: int, count: int) -> str:
    """Describe a share with its 95% interval (Wilson 1927): ``'75.0% (30.1-95.4, n = 4)'``."""
    if not count:
        return "no test"
    low, high = binomtest(right, count).proportion_ci(method="wilson")
    return f"{100 * right / count:.1f}% ({100 * low:.1f}-{100 * high:.1f}, n = {count})"


def compare_to_chance(
    task: Task,
    lists: VideoLists,
    metrics: Mapping[str, float],
    baseline: Baseline | None = None,
) -> str | None:
    """Say what a validation result is worth beside answers that need no model.

    Args:
        task: The task.
        lists: Its lists.
        metrics: Metrics of the validation list.
        baseline: What frame differences reach, of the task ``classes`` (``try_baseline``).

    Returns None if the task does not know such an answer.
    """
    name = task.best_metric or "acc/top1"
    chance, value = task.chance(lists, "val"), metrics.get(name)
    if chance is None or value is None:
        return None
    if task.name != "classes":
        text = f"validation: {name} {value:.3f}; without looking at the videos: {chance:.3f}"
        return text if value > chance else f"{text}. Nothing was learned: {ADVICE}"
    count = int(task.class_sizes(lists, "val").sum())  # of videos with a label
    return f"validation: {compare_share(round(value * count), count, chance, baseline)}"


def compare_share(
    right: int,
    count: int,
    chance: float,
    baseline: Baseline | None = None,
    advice: str = ADVICE,
) -> str:
    """Describe a share of right videos, and whether it is above chance and a cheap baseline."""
    if not count:
        return share(right, count)
    text = f"{share(right, count)}; without looking at the videos: {100 * chance:.1f}%"
    if baseline is not None:
        text = f"{text}; {NAME}: {share(*baseline)}"
    if right <= chance * count:
        return f"{text}. Nothing was learned: {advice}"
    if baseline is not None and right / count <= baseline.right / baseline.count:
        return f"{text}. This does not beat it: {advice}"
    if binomtest(right, count).proportion_ci(method="wilson").low <= chance:
        return f"{text}. {count} videos are too few to tell whether it is above chance"
    return text
