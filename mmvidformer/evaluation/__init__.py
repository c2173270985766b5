"""Metrics that MMAction2 lacks."""

from mmvidformer.evaluation.anticipation import AnticipationMetric
from mmvidformer.evaluation.bad_videos import BadVideoEvaluator
from mmvidformer.evaluation.challenge_json import ChallengeJson
from mmvidformer.evaluation.multi_task import MultiTaskAccuracy
from mmvidformer.evaluation.save_scores import SaveScores

__all__ = [
    "AnticipationMetric",
    "BadVideoEvaluator",
    "ChallengeJson",
    "MultiTaskAccuracy",
    "SaveScores",
]
