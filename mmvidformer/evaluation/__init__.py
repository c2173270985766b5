"""Metrics that MMAction2 lacks."""

from mmvidformer.evaluation.multi_task import MultiTaskAccuracy
from mmvidformer.evaluation.video_accuracy import VideoAccuracy

__all__ = ["MultiTaskAccuracy", "VideoAccuracy"]
