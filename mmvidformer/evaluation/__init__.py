"""Metrics that MMAction2 lacks."""

from mmvidformer.evaluation.multi_task import MultiTaskAccuracy

__all__ = ["MultiTaskAccuracy"]
