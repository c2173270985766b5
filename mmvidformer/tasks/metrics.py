"""Metrics of several labels, of numbers, of segments and of boxes."""

import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import numpy as np
from mmaction.evaluation import AVAMetric, ava_eval, mean_average_precision, results2csv
from mmaction.evaluation.functional import ava_utils, average_precision_at_temporal_iou
from mmengine.evaluator import BaseMetric
from sklearn.metrics import mean_absolute_error, r2_score

from mmvidformer.registry import METRICS
from mmvidformer.tasks.action_localization import ActionLocalization
from mmvidformer.tasks.base import write_csv
from mmvidformer.tasks.boxes import Moments, read_boxes
from mmvidformer.tasks.multi_label import MultiLabel
from mmvidformer.tasks.regression import Regression


@METRICS.register_module()
class LabelsMetric(BaseMetric):
    """Mean average precision of ``MultiLabelHead``, by MMAction2's function, as ``AccMetric``.

    Unlike ``AccMetric`` it knows labels of one class. Arguments are those of ``BaseMetric``.
    """

    default_prefix = "acc"
    shares = ("mean_average_precision",)  # results that are shown in percent
    worst = staticmethod(MultiLabel.worst)

    def process(self, data_batch: object, data_samples: Sequence[Mapping]) -> None:
        """Store scores and labels, each (classes,)."""
        for sample in data_samples:
            rows = sample["pred_score"], sample["gt_label"]
            self.results.append(tuple(row.float().cpu().numpy() for row in rows))

    def compute_metrics(self, results: list[tuple[np.ndarray, np.ndarray]]) -> dict[str, float]:
        """Compute the mean over the classes that a video has."""
        scores, labels = zip(*results, strict=True)
        return {"mean_average_precision": float(mean_average_precision(scores, labels))}


@METRICS.register_module()
class NumberMetric(BaseMetric):
    """R^2 and mean absolute error of the values of ``NumberHead``.

    With several values, ``r2`` is the mean over them, and ``mae_<name>`` the error of each. Bad
    videos are left out, and ``left_out`` is their number, if there are any. Arguments are those of
    MMEngine's ``BaseMetric``.
    """

    default_prefix = "number"
    leaves_bad_videos_out = True
    worst = staticmethod(Regression.worst)

    def process(self, data_batch: object, data_samples: Sequence[Mapping]) -> None:
        """Store values and truth, and whether the video could not be read."""
        for sample in data_samples:
            rows = sample["pred_score"], sample["gt_label"]
            values, truth = (row.float().cpu().numpy() for row in rows)
            self.results.append((values, truth, "bad_video" in sample))

    def compute_metrics(
        self, results: list[tuple[np.ndarray, np.ndarray, bool]]
    ) -> dict[str, float]:
        """Compute the metrics.

        Raises:
            ValueError: If no video could be read.
        """
        read = [(values, truth) for values, truth, is_bad in results if not is_bad]
        if not read:
            raise ValueError(f"none of the {len(results)} videos could be read")
        values, truth = (np.stack(rows) for rows in zip(*read, strict=True))
        errors = mean_absolute_error(truth, values, multioutput="raw_values")
        names = (self.dataset_meta or {}).get("classes") or range(len(errors))
        metrics = {"r2": float(r2_score(truth, values)), "mae": float(errors.mean())}
        if len(errors) > 1:
            named = zip(names, errors, strict=True)
            metrics |= {f"mae_{name}": float(error) for name, error in named}
        if len(read) < len(results):
            metrics["left_out"] = len(results) - len(read)
        return metrics


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
    shares = ("mAP",)
    worst = staticmethod(ActionLocalization.worst)

    def __init__(self, ious: Sequence[float] = (0.3, 0.4, 0.5, 0.6, 0.7), **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.ious = ious

    def process(self, data_batch: object, data_samples: Sequence[Mapping]) -> None:
        """Store true segments (n, 3) and found ones (m, 4): start, end, class and score."""
        for sample in data_samples:
            segments = sample["pred_instances"]
            columns = [*segments["segments"].T, segments["labels"], segments["scores"]]
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
            truth = {}
            for number, (segments, _) in enumerate(results):
                of_class = segments[segments[:, 2] == label, :2]
                if len(of_class):
                    truth[number] = of_class
            predicted = [
                (i, label, *row[[0, 1, 3]])
                for i, (_, rows) in enumerate(results)
                for row in rows[rows[:, 2] == label]
            ]
            precisions.append(average_precision_at_temporal_iou(truth, predicted, ious))
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
        predicted = {
            (x["video_id"], int(x["timestamp"])) for x in results if any(map(len, x["outputs"]))
        }
        moments = read_boxes(self.ann_file)
        if not predicted & moments.keys():
            raise ValueError(
                f"{self.ann_file}: none of its {len(moments)} moments has a prediction"
            )
        # MMAction2 does not close its pool, whose own thread may then wait for itself to end.
        with TemporaryDirectory() as folder, multiprocessing.Pool() as pool:
            predictions, truth = Path(folder, "predictions.csv"), Path(folder, "truth.csv")
            write_csv(truth, _rows_of_truth(moments))  # without a header, empty lines, repetitions
            files = self.label_file, truth, self.exclude_file
            results2csv(results, predictions, self.custom_classes)
            ava_utils.multiprocessing = SimpleNamespace(Pool=lambda count: pool)
            try:
                return ava_eval(
                    predictions, self.options[0], *files, custom_classes=self.custom_classes
                )
            finally:
                ava_utils.multiprocessing = multiprocessing


def _rows_of_truth(moments: Moments) -> Iterator[tuple]:
    """Yield a row of AVA's format for each class of each box."""
    for (video, second), boxes in moments.items():
        for corners, labels in boxes.items():
            for label in sorted(labels):
                yield video, second, *corners, label
