"""Camera motion: classes of a part, and how fast the camera pans, tilts, zooms and rolls."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn

from mmvidformer.tasks.classification import Classification
from mmvidformer.tasks.prediction import Names, Prediction
from mmvidformer.tasks.rows import value_cells

RATES = ("pan", "tilt", "zoom", "roll", "shake")  # as the head gives them
UNITS = ("short sides/s", "short sides/s", "log zoom/s", "degrees/s", "short sides")
FORMATS = ("{:+.2f}", "{:+.2f}", "{:+.2f}", "{:+.1f} deg", "{:.3f}")
UNCERTAIN, SHAKE = "uncertain", "shake"
LEAST_SHAKE = 0.005  # short sides: from there on, the camera is said to shake
# From there on, a rate alone is a label: the head's threshold, in the units above.
LIMITS = ((-0.05, 0.05), (-0.05, 0.05), (-0.1, 0.1), (-5.73, 5.73), (LEAST_SHAKE,))
LEAST_COVERED = 5 / 8  # of a clip: the share that the video must fill
LEAST_STRUCTURE = 1.5  # of a scene (``MeasureStructure``), in gray levels


class CameraMotion(Classification):
    """One class a video, and rates, by ``CameraMotionHead``; ``uncertain`` without an answer."""

    name, probes = "camera", ()
    head = "mmvidformer.CameraMotionHead"
    heads_by_classifier = None
    runs_frame_by_frame = False
    value_outputs = ("rates",)
    units = dict(zip(RATES, UNITS, strict=True))
    limits = dict(zip(RATES, LIMITS, strict=True))
    formats = dict(zip(RATES, FORMATS, strict=True))

    def answers(
        self, output: Any, names: Names, is_logits: bool = True, **where: Any
    ) -> list[Prediction]:
        """Make a prediction of a data sample with ``pred_rates`` and ``pred_moves``."""
        (classes,) = names.values()
        rates = dict(zip(RATES, output.pred_rates.tolist(), strict=True))
        moves = output.pred_moves.nonzero().flatten().tolist()
        labels = tuple(classes[number] for number in moves)
        if rates[SHAKE] >= LEAST_SHAKE:
            labels += (SHAKE,)
        where.update(measured=rates, labels=labels, doubt=find_doubt(output))
        return super().answers(output, names, is_logits, **where)

    def top(self, prediction: Prediction, k: int, name: str) -> list[tuple[int, str, float]]:
        """Return the most likely classes, or ``uncertain``, number -1, without a probability."""
        if prediction.doubt:
            return [(-1, UNCERTAIN, 0.0)]
        return super().top(prediction, k, name)

    def cells(self, prediction: Prediction, k: int | None = None) -> dict[str, Any]:
        """Return the class and its score, all labels, the rates, and what makes them doubtful."""
        rates = {name: prediction.values.get(name, math.nan) for name in RATES}
        return {
            **super().cells(prediction, k),
            "labels": ";".join(prediction.labels),
            **value_cells(rates),
            "doubt": prediction.doubt,
        }

    def summary(self, predictions: Sequence[Prediction], k: int) -> dict[str, float]:
        """Return the share of the parts that have each class, the k most frequent ones."""
        names = [prediction.top(1)[0][1] for prediction in predictions]
        shares = {name: names.count(name) / len(names) for name in dict.fromkeys(names)}
        return dict(sorted(shares.items(), key=lambda pair: -pair[1])[:k])

    def output_names(self, head: nn.Module) -> list[str]:
        """Return the names of the outputs: logits and rates."""
        return [*super().output_names(head), *self.value_outputs]

    def run_head(self, head: nn.Module, features: Tensor, **options: Any) -> tuple[Tensor, ...]:
        """Map features to logits and rates."""
        return head.measure(features)

    def describe_outputs(self, head: nn.Module, names: Names) -> dict[str, dict[str, Any]]:
        """Describe logits and rates."""
        (rates,) = self.value_outputs
        described = {
            "shape": "(batch, rates)",
            "activation": None,
            "views": "mean of values",
            "classes": [*RATES],
            "units": [*UNITS],
        }
        return {**super().describe_outputs(head, names), rates: described}


def find_doubt(sample: Any) -> str:
    """Say why a data sample allows no answer: the video is too short, or the scene is plain.

    It knows ``frame_inds`` and ``clip_len``, or ``structure``, if the pipeline keeps them.
    """
    numbers, length = sample.get("frame_inds"), sample.get("clip_len")
    if numbers is not None and length:
        clips = np.reshape(numbers, (-1, length))
        # A clip that is longer than the video repeats its last frame.
        covered = (np.argmax(clips == clips[:, -1:], axis=1) + 1).max() / length
        if covered < LEAST_COVERED:
            return "too short"
    structure = sample.get("structure")
    if structure is not None and structure < LEAST_STRUCTURE:
        return "nothing to see"
    return ""
