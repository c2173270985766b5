"""The metric of classes over time."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from mmengine.evaluator import BaseMetric

from mmvidformer.registry import METRICS
from mmvidformer.tasks.action_segmentation import ActionSegmentation
from mmvidformer.tasks.annotations import BACKGROUND
from mmvidformer.tasks.shares import leave_out
from mmvidformer.tasks.span_samples import NO_LABEL
from mmvidformer.tasks.transforms import classes_at
from mmvidformer.video.times import FrameTimes


@METRICS.register_module()
class FramesMetric(BaseMetric):
    """Frame accuracy, edit score and F1 of ``FramesHead``, from 0 to 1, as MS-TCN defines them.

    Accuracy counts all frames of all videos that have a class; the edit score is the mean over the
    videos; F1 counts the runs of frames of one class, MS-TCN's segments, of all videos. Runs of the
    class ``'background'`` count for the accuracy only. Frames without a class count for nothing,
    and end a run. In a bad video no frame and no run is right; it lasts until its last annotation,
    with the mean rate of the others.

    Args:
        ious: Overlaps of F1.
        **kwargs: Arguments of MMEngine's ``BaseMetric``.
    """

    default_prefix = "frames"
    shares = ("accuracy", "edit", "f1@")  # results that are shown in percent
    worst = staticmethod(ActionSegmentation.worst)

    def __init__(self, ious: Sequence[float] = (0.1, 0.25, 0.5), **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.ious = ious

    def process(self, data_batch: object, data_samples: Sequence[Mapping]) -> None:
        """Store the class of each frame, found and true, and the rate; of bad videos the spans."""
        for sample in data_samples:
            if "bad_video" in sample:
                self.results.append({name: sample[name] for name in ("spans", "background")})
                continue
            predicted, _, truth = answers_by_frame(sample)
            self.results.append(dict(predicted=predicted, truth=truth, rate=sample["avg_fps"]))

    def compute_metrics(self, results: list[dict]) -> dict[str, float]:
        """Compute the metrics. Those of which there is nothing to measure are left out."""
        rates = [video["rate"] for video in results if "rate" in video]
        mean_rate = float(np.mean(rates)) if rates else 1.0
        names = list((self.dataset_meta or {}).get("classes") or ())
        left_out = [NO_LABEL, *(names.index(name) for name in names if name == BACKGROUND)]
        right, known, has_runs = 0, 0, False
        scores, counts = [], dict.fromkeys(self.ious, np.zeros(3))
        for video in results:
            is_bad = "rate" not in video
            truth = annotated_frames(video, mean_rate) if is_bad else video["truth"]
            predicted = np.full_like(truth, NO_LABEL) if is_bad else video["predicted"]
            has_class = truth != NO_LABEL
            if not has_class.any():
                continue
            right += int((predicted == truth)[has_class].sum())
            known += int(has_class.sum())
            predicted_runs = list_runs(np.where(has_class, predicted, NO_LABEL), left_out)
            true_runs = list_runs(truth, left_out)
            scores.append(0.0 if is_bad else edit_score(predicted_runs, true_runs))
            has_runs = has_runs or bool(predicted_runs or true_runs)
            for iou in self.ious:
                counts[iou] = counts[iou] + match_runs(predicted_runs, true_runs, iou)
        if not known:
            leave_out("accuracy of frames", "the videos have no annotated frames")
            return {}
        accuracy = {"accuracy": right / known}
        if not has_runs:
            leave_out("edit score and F1 of frames", "all frames are background")
            return accuracy
        f1 = {
            f"f1@{round(100 * iou)}": float(2 * hits / max(2 * hits + false + missed, 1))
            for iou, (hits, false, missed) in counts.items()
        }
        return {**accuracy, "edit": float(np.mean(scores)), **f1}


def answers_by_frame(sample: Mapping) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the class of each frame, its probability, and the true class, each (frames,)."""
    frames = np.arange(sample["total_frames"])
    scores, labels = (array.cpu().numpy() for array in sample["pred_score"].float().max(dim=1))
    steps = np.minimum((frames / sample["step"]).astype(int), len(labels) - 1)
    return labels[steps], scores[steps], classes_at(frames, sample)


def annotated_frames(annotation: Mapping, rate: float) -> np.ndarray:
    """Return the class of each frame up to the last annotation, of at least one frame."""
    end = max((end for _, end, _ in annotation["spans"]), default=0.0)
    frames = np.arange(max(round(FrameTimes(rate).count(end)), 1))
    return classes_at(frames, {**annotation, "avg_fps": rate})


class Run(NamedTuple):
    """Successive frames of one class: the first one, and the one after the last."""

    label: int
    start: int
    end: int


def list_runs(labels: Sequence[int], left_out: Sequence[int] = ()) -> list[Run]:
    """List the runs of frames of one class, but those of the classes that are left out."""
    starts = [0, *(np.flatnonzero(np.diff(labels)) + 1).tolist(), len(labels)]
    runs = (Run(int(labels[start]), start, end) for start, end in pairwise(starts) if start < end)
    return [run for run in runs if run.label not in left_out]


def edit_score(predicted: Sequence[Run], truth: Sequence[Run]) -> float:
    """Return 1 - Levenshtein distance of the classes / number of runs of the longer."""
    labels = np.array([run.label for run in truth])
    row = places = np.arange(len(truth) + 1)
    for run in predicted:
        changed = np.minimum(row[1:] + 1, row[:-1] + (labels != run.label))
        row = np.minimum.accumulate(np.append(row[0] + 1, changed) - places) + places
    return 1 - float(row[-1]) / max(len(predicted), len(truth), 1)


def match_runs(predicted: Sequence[Run], truth: Sequence[Run], iou: float) -> np.ndarray:
    """Count true positives, false positives and false negatives at an IoU of frames.

    Each found run is compared with the true run of its class that it overlaps most, which counts
    once, as in the evaluation of MS-TCN (Farha and Gall 2019).
    """
    taken = set()
    for run in predicted:
        shares = {
            number: (min(true.end, run.end) - max(true.start, run.start))
            / (max(true.end, run.end) - min(true.start, run.start))
            for number, true in enumerate(truth)
            if true.label == run.label
        }
        best = max(shares, key=shares.__getitem__, default=None)
        if best is not None and shares[best] >= iou:
            taken.add(best)
    return np.array([len(taken), len(predicted) - len(taken), len(truth) - len(taken)])
