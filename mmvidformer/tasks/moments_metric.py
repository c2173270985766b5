"""The metric of moments."""

from collections.abc import Mapping, Sequence

import numpy as np
from mmengine.evaluator import BaseMetric

from mmvidformer.registry import METRICS
from mmvidformer.tasks.action_localization import ActionLocalization
from mmvidformer.tasks.shares import leave_out
from mmvidformer.video.times import FrameTimes

THRESHOLDS = np.linspace(0, 1, 200)
RECALLS = np.arange(11) / 10
FINE, FINE_FPS = (0.2, 0.4, 0.8), 25.0  # widths in seconds, and frames per second, of mAP_fine

Video = tuple[np.ndarray, np.ndarray]  # true moments (n, 2): seconds, class; found (m, 3): score


@METRICS.register_module()
class MomentsMetric(BaseMetric):
    """Mean average precision of ``MomentsHead`` at tolerances, as SoccerNet defines it.

    Times become frames of a low rate. A moment is found if a prediction of its class is at most
    half a tolerance away; each true moment, in order, takes the one with the highest score. Scores
    are cut at 200 values, and the precision is averaged over 11 values of recall and over all
    classes. ``mAP`` is the area under the curve of tolerances. Of several predictions of a class in
    a frame, the best one counts.

    Where that is easy, ``mAP_fine`` tells models apart: the same within 0.1, 0.2 and 0.4 s, at 25
    frames per second, averaged. ``mean`` is that of both.

    Args:
        tolerances: Widths, in seconds. The default is SoccerNet's tight metric; its loose one is 5,
            10, ..., 60.
        fps: Frames per second.
        **kwargs: Arguments of MMEngine's ``BaseMetric``.
    """

    default_prefix = "moments"
    shares = ("mean", "mAP", "mAP_fine")
    worst = staticmethod(ActionLocalization.worst)

    def __init__(
        self, tolerances: Sequence[float] = (1, 2, 3, 4, 5), fps: float = 2.0, **kwargs: object
    ) -> None:
        super().__init__(**kwargs)
        self.tolerances, self.fps = tolerances, fps

    def process(self, data_batch: object, data_samples: Sequence[Mapping]) -> None:
        """Store true moments (n, 2): seconds, class; and found ones (m, 3), with the score."""
        for sample in data_samples:
            predicted = sample["pred_instances"]
            columns = [predicted["segments"][:, 0], predicted["labels"], predicted["scores"]]
            rows = np.stack([column.float().cpu().numpy() for column in columns], axis=1)
            truth = np.asarray(sample["spans"], dtype=float).reshape(-1, 3)
            self.results.append((truth[:, [0, 2]], rows))

    def compute_metrics(self, results: list[Video]) -> dict[str, float]:
        """Compute the metrics; none if no video has a true moment."""
        if not any(len(truth) for truth, _ in results):
            leave_out("mAP of moments", "the videos have no annotated moments")
            return {}
        count = len((self.dataset_meta or {}).get("classes") or ())
        count = count or 1 + int(max(truth[:, 1].max() for truth, _ in results if len(truth)))
        means = mean_precisions(results, count, self.tolerances, self.fps)
        middles = (np.array(means[1:]) + np.array(means[:-1])) / 2
        area = float(middles.mean()) if len(means) > 1 else means[0]
        fine = float(np.mean(mean_precisions(results, count, FINE, FINE_FPS)))
        names = (f"mAP@{width:g}s" for width in self.tolerances)
        at_tolerances = dict(zip(names, means, strict=True))
        return {"mean": (area + fine) / 2, "mAP": area, "mAP_fine": fine, **at_tolerances}


def mean_precisions(
    videos: Sequence[Video], classes: int, widths: Sequence[float], fps: float
) -> list[float]:
    """Return the average precision at each width in seconds, averaged over the classes."""
    return [
        float(np.mean([average_precision(videos, label, width, fps) for label in range(classes)]))
        for width in widths
    ]


def average_precision(videos: Sequence[Video], label: int, width: float, fps: float) -> float:
    """Return the interpolated average precision of a class at a width in seconds."""
    scores, hits, total = [], [], 0
    times = FrameTimes(fps)
    for truth, predicted in videos:
        true_frames = np.unique(frames_of(truth[truth[:, 1] == label, 0], times))
        frames, best = best_of_frames(predicted[predicted[:, 1] == label], times)
        scores.append(best)
        hits.append(match(true_frames, frames, best, times.count(width)))
        total += len(true_frames)
    all_scores, all_hits = np.concatenate(scores), np.concatenate(hits)
    is_kept = all_scores >= THRESHOLDS[:, None]  # (thresholds, predictions)
    right = (is_kept & all_hits).sum(axis=1)
    precision = right / np.maximum(is_kept.sum(axis=1), 1)
    recall = right / max(total, 1)
    highest = [precision[recall >= least].max(initial=0.0) for least in RECALLS]
    return float(np.mean(highest))


def frames_of(seconds: np.ndarray, times: FrameTimes) -> np.ndarray:
    """Return the numbers of the frames of times."""
    return np.asarray(times.numbers(seconds)).astype(int)


def best_of_frames(predicted: np.ndarray, times: FrameTimes) -> tuple[np.ndarray, np.ndarray]:
    """Return the frames with predictions (m, 3), in order, and the highest score of each."""
    frames, places = np.unique(frames_of(predicted[:, 0], times), return_inverse=True)
    scores = np.zeros(len(frames))
    np.maximum.at(scores, places, predicted[:, 2])
    return frames, scores


def match(
    true_frames: np.ndarray, frames: np.ndarray, scores: np.ndarray, width: float
) -> np.ndarray:
    """Return which predictions are right (m,): each true frame takes the best free one."""
    is_taken = np.zeros(len(frames), dtype=bool)
    for true_frame in true_frames:
        is_near = (np.abs(frames - true_frame) <= width / 2) & ~is_taken
        if is_near.any():
            is_taken[np.where(is_near, scores, -1.0).argmax()] = True
    return is_taken
