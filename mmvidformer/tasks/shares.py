import mmvidformer.repairs  # noqa: F401  isort: skip  (repairs MMAction2 first)

import logging
from collections.abc import Iterable

from mmaction.evaluation import AccMetric, ANetMetric, AVAMetric
from mmengine.evaluator import BaseMetric
from mmengine.logging import print_log

# Beginnings of the names of results that are shares, from 0 to 1, of MMAction2's metrics. Those of
# this package say so themselves (``shares``).
SHARES: dict[type[BaseMetric], tuple[str, ...]] = {
    AccMetric: ("",),
    AVAMetric: ("",),
    ANetMetric: ("AR@",),
}


def is_share(name: str, metrics: Iterable[BaseMetric]) -> bool:
    """Whether a result is a share from 0 to 1, as its metric declares.

    Args:
        name: Name of the result, with the prefix of its metric.
        metrics: All metrics of an evaluation. What none of them declares is no share.
    """
    for metric in metrics:
        prefix = f"{metric.prefix}/" if metric.prefix else ""
        if name.startswith(prefix) and name.removeprefix(prefix).startswith(_shares_of(metric)):
            return True
    return False


def _shares_of(metric: BaseMetric) -> tuple[str, ...]:
    if hasattr(metric, "shares"):
        return metric.shares
    known = (shares for metric_type, shares in SHARES.items() if isinstance(metric, metric_type))
    return next(known, ())


def leave_out(result: str, reason: str) -> None:
    """Say in the log that a result is not defined, and why."""
    print_log(f"no {result}: {reason}", logger="current", level=logging.WARNING)
