"""Metrics of numbers, of classes over time, of segments and of boxes."""

import multiprocessing
from collections.abc import Mapping, Sequence
from itertools import pairwise
from os.path import join
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
from mmaction.evaluation import AVAMetric, ava_eval, results2csv
from mmaction.evaluation.functional import ava_utils, average_precision_at_temporal_iou
from mmengine.evaluator import BaseMetric
from sklearn.metrics import mean_absolute_error, r2_score

from mmvidformer.registry import METRICS
from mmvidformer.tasks.annotations import BACKGROUND, NO_LABEL, classes_at
from mmvidformer.tasks.boxes import read_boxes


@METRICS.register_module()
class NumberMetric(BaseMetric):
    """R^2 and mean absolute error of the values of ``NumberHead``.

    With several values, ``r2`` is the mean over them, and ``mae_<name>`` the error of each.
    Arguments are those of MMEngine's ``BaseMetric``.
    """

    default_prefix = "number"

    def process(self, data_batch: object, data_samples: Sequence[Mapping]) -> None:
        """Store values and truth."""
        for sample in data_samples:
            rows = sample["pred_score"], sample["gt_label"]
            self.results.append(tuple(row.float().cpu().numpy() for row in rows))

    def compute_metrics(self, results: list[tuple[np.ndarray, np.ndarray]]) -> dict[str, float]:
        """Compute the metrics."""
        found, truth = (np.stack(rows) for rows in zip(*results, strict=True))
        errors = mean_absolute_error(truth, found, multioutput="raw_values")
        names = (self.dataset_meta or {}).get("classes") or range(len(errors))
        means = {"r2": float(r2_score(truth, found)), "mae": float(errors.mean())}
        each = {f"mae_{name}": float(error) for name, error in zip(names, errors, strict=True)}
        return means | (each if len(each) > 1 else {})


class Part(NamedTuple):
    """Successive frames of one class: the first one, and the one after the last."""

    label: int
    start: int
    end: int


def list_parts(labels: Sequence[int], left_out: Sequence[int] = ()) -> list[Part]:
    """List the parts of frames of one class, but those of the classes that are left out."""
    starts = [0, *(np.flatnonzero(np.diff(labels)) + 1).tolist(), len(labels)]
    parts = (Part(int(labels[one]), one, end) for one, end in pairwise(starts) if one < end)
    return [part for part in parts if part.label not in left_out]


def edit_score(found: Sequence[Part], truth: Sequence[Part]) -> float:
    """Return 1 - Levenshtein distance of the classes / number of parts of the longer."""
    labels = np.array([part.label for part in truth])
    row = places = np.arange(len(truth) + 1)
    for part in found:
        changed = np.minimum(row[1:] + 1, row[:-1] + (labels != part.label))
        row = np.minimum.accumulate(np.append(row[0] + 1, changed) - places) + places
    return 1 - float(row[-1]) / max(len(found), len(truth), 1)


def match_parts(found: Sequence[Part], truth: Sequence[Part], iou: float) -> np.ndarray:
    """Count true positives, false positives and false negatives at an IoU of frames.

    Each found part is compared with the true part of its class that it overlaps most, which counts
    once, as in the evaluation of MS-TCN (Farha and Gall 2019).
    """
    taken = set()
    for part in found:
        shares = {
            number: (min(one.end, part.end) - max(one.start, part.start))
            / (max(one.end, part.end) - min(one.start, part.start))
            for number, one in enumerate(truth)
            if one.label == part.label
        }
        best = max(shares, key=shares.__getitem__, default=None)
        if best is not None and shares[best] >= iou:
            taken.add(best)
    return np.array([len(taken), len(found) - len(taken), len(truth) - len(taken)])


@METRICS.register_module()
class FramesMetric(BaseMetric):
    """Frame accuracy, edit score and F1 of ``FramesHead``, from 0 to 1, as MS-TCN defines them.

    Accuracy counts all frames of all videos that have a class; the edit score is the mean over the
    videos; F1 counts the parts of all videos. Parts of the class ``'background'`` count for the
    accuracy only. Frames without a class count for nothing, and end a part.

    Args:
        ious: Overlaps of F1.
        **kwargs: Arguments of MMEngine's ``BaseMetric``.
    """

    default_prefix = "frames"

    def __init__(self, ious: Sequence[float] = (0.1, 0.25, 0.5), **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.ious = ious

    def process(self, data_batch: object, data_samples: Sequence[Mapping]) -> None:
        """Store the class of each frame, found and true."""
        for sample in data_samples:
            frames = np.arange(sample["total_frames"])
            found = sample["pred_score"].argmax(dim=1).cpu().numpy()
            steps = np.minimum((frames / sample["step"]).astype(int), len(found) - 1)
            self.results.append((found[steps], classes_at(frames, sample)))

    def compute_metrics(self, results: list[tuple[np.ndarray, np.ndarray]]) -> dict[str, float]:
        """Compute the metrics.

        Raises:
            ValueError: If no frame of any video has a class.
        """
        names = list((self.dataset_meta or {}).get("classes") or ())
        left_out = [NO_LABEL, *(names.index(name) for name in names if name == BACKGROUND)]
        right = known = 0
        scores, counts = [], dict.fromkeys(self.ious, np.zeros(3))
        for found, truth in results:
            has_class = truth != NO_LABEL
            if not has_class.any():
                continue
            right += int((found == truth)[has_class].sum())
            known += int(has_class.sum())
            found_parts = list_parts(np.where(has_class, found, NO_LABEL), left_out)
            true_parts = list_parts(truth, left_out)
            scores.append(edit_score(found_parts, true_parts))
            for iou in self.ious:
                counts[iou] = counts[iou] + match_parts(found_parts, true_parts, iou)
        if not known:
            raise ValueError("accuracy of frames needs annotated frames, but the videos have none")
        f1 = {
            f"f1@{round(100 * iou)}": float(2 * hits / max(2 * hits + false + missed, 1))
            for iou, (hits, false, missed) in counts.items()
        }
        return {"accuracy": right / known, "edit": float(np.mean(scores)), **f1}


@METRICS.register_module()
class SegmentsMetric(BaseMetric):
    """Mean average precision of the segments of ``SegmentsHead``, as ActivityNet defines it.

    ``mAP@<100 tIoU>`` is the mean over the classes that the annotations have, and ``mAP`` the mean
    over the overlaps.

    Args:
        ious: Temporal overlaps.
        **kwargs: Arguments of MMEngine's ``BaseMetric``.
    """

    default_prefix = "segments"

    def __init__(self, ious: Sequence[float] = (0.3, 0.4, 0.5, 0.6, 0.7), **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.ious = ious

    def process(self, data_batch: object, data_samples: Sequence[Mapping]) -> None:
        """Store true segments (n, 3) and found ones (m, 4): start, end, class and score."""
        for sample in data_samples:
            found = sample["pred_instances"]
            columns = [*found["segments"].T, found["labels"], found["scores"]]
            rows = np.stack([column.float().cpu().numpy() for column in columns], axis=1)
            self.results.append((np.asarray(sample["spans"], dtype=float).reshape(-1, 3), rows))

    def compute_metrics(self, results: list[tuple[np.ndarray, np.ndarray]]) -> dict[str, float]:
        """Compute the metrics.

        Raises:
            ValueError: If no video has a true segment.
        """
        classes = sorted({int(label) for truth, _ in results for label in truth[:, 2]})
        if not classes:
            raise ValueError("mAP of segments needs annotated segments, but the videos have none")
        ious = np.asarray(self.ious, np.float32)  # the type of the overlaps: 0.7 is 0.7 then
        precisions = []
        for label in classes:
            every = {i: one[one[:, 2] == label, :2] for i, (one, _) in enumerate(results)}
            truth = {i: one for i, one in every.items() if len(one)}
            found = [
                (i, label, *row[[0, 1, 3]])
                for i, (_, rows) in enumerate(results)
                for row in rows[rows[:, 2] == label]
            ]
            precisions.append(average_precision_at_temporal_iou(truth, found, ious))
        means = np.mean(precisions, axis=0)
        names = (f"mAP@{round(100 * iou)}" for iou in self.ious)
        return {"mAP": float(means.mean()), **dict(zip(names, means.tolist(), strict=True))}


@METRICS.register_module()
class BoxesMetric(AVAMetric):
    """MMAction2's ``AVAMetric``, with an error instead of NaN if there are no predictions.

    It closes its pool of processes, and writes its file to a temporary folder. Arguments are those
    of ``AVAMetric``.
    """

    def compute_metrics(self, results: list) -> dict[str, float]:
        """Compute the metrics.

        Raises:
            ValueError: If no annotated moment has a predicted box.
        """
        found = {
            (x["video_id"], int(x["timestamp"])) for x in results if any(map(len, x["outputs"]))
        }
        moments = read_boxes(self.ann_file)
        if not found & moments.keys():
            raise ValueError(
                f"{self.ann_file}: none of its {len(moments)} moments has a prediction"
            )
        files = self.label_file, self.ann_file, self.exclude_file
        # MMAction2 does not close its pool, whose own thread may then wait for itself to end.
        with TemporaryDirectory() as folder, multiprocessing.Pool() as pool:
            predictions = join(folder, "predictions.csv")
            results2csv(results, predictions, self.custom_classes)
            ava_utils.multiprocessing = SimpleNamespace(Pool=lambda count: pool)
            try:
                return ava_eval(
                    predictions, self.options[0], *files, custom_classes=self.custom_classes
                )
            finally:
                ava_utils.multiprocessing = multiprocessing
