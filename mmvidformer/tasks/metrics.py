"""Metrics of several labels, of numbers, of segments and of boxes."""

from mmvidformer.registry import METRICS  # isort: skip  (repairs MMAction2 first)
import mmvidformer.repairs.ava_pool  # noqa: F401  isort: skip  (and what ava_eval forks)

import csv
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from mmaction.evaluation import AVAMetric, ava_eval, mean_average_precision, results2csv
from mmaction.evaluation.functional import ava_utils, average_precision_at_temporal_iou
from mmengine.evaluator import BaseMetric
from sklearn.metrics import mean_absolute_error, r2_score

from mmvidformer.errors import UserError
from mmvidformer.tasks.action_localization import ActionLocalization
from mmvidformer.tasks.annotated import write_csv
from mmvidformer.tasks.boxes import Moments, read_boxes
from mmvidformer.tasks.multi_label import MultiLabel
from mmvidformer.tasks.regression import Regression
from mmvidformer.tasks.shares import leave_out
from mmvidformer.tasks.video_scores import fuse_scores, read_video_scores, scores_of_video

AVA_CLASSES = 80


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
        """Compute the mean over the classes that a video has; no result if there is none."""
        scores, labels = (np.stack(rows) for rows in zip(*results, strict=True))
        has_videos = labels.any(axis=0)
        if not has_videos.any():
            leave_out("mean average precision", "no video has a label")
            return {}
        precision = mean_average_precision(scores[:, has_videos], labels[:, has_videos])
        return {"mean_average_precision": float(precision)}


@METRICS.register_module()
class NumberMetric(BaseMetric):
    """R^2 and mean absolute error of the values of ``NumberHead``.

    With several values, ``r2`` is the mean over those that differ between the videos, without which
    it is not defined, and ``mae_<name>`` the error of each. Bad videos are left out, and
    ``left_out`` is their number, if there are any. Arguments are those of MMEngine's
    ``BaseMetric``.
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
        """Compute the metrics; none if no video could be read."""
        read = [(values, truth) for values, truth, is_bad in results if not is_bad]
        if not read:
            leave_out("error of values", f"none of the {len(results)} videos could be read")
            return {"left_out": len(results)}
        values, truth = (np.stack(rows) for rows in zip(*read, strict=True))
        errors = mean_absolute_error(truth, values, multioutput="raw_values")
        names = (self.dataset_meta or {}).get("classes") or range(len(errors))
        metrics = {"mae": float(errors.mean())}
        differs = np.ptp(truth, axis=0) > 0
        if differs.any():
            metrics = {"r2": float(r2_score(truth[:, differs], values[:, differs])), **metrics}
        else:
            leave_out("R^2", "it needs videos with different values")
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
        video_scores: JSON of scores of all classes by the name of the video, from which the
            segments take their classes (``fuse_scores``). Default: they have those of the model.
        video_classes: With it, how many classes of a video its segments get.
        video_segments: With it, how many segments of a video get them.
        **kwargs: Arguments of MMEngine's ``BaseMetric``.

    Raises:
        UserError: If the file has other content, or lacks a video.
    """

    default_prefix = "segments"
    shares = ("mAP",)
    worst = staticmethod(ActionLocalization.worst)

    def __init__(
        self,
        ious: Sequence[float] = (0.3, 0.4, 0.5, 0.6, 0.7),
        video_scores: str | None = None,
        video_classes: int = 2,
        video_segments: int = 200,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self.ious, self.video_scores = ious, video_scores
        self.limits = video_classes, video_segments
        self._scores = {} if video_scores is None else read_video_scores(video_scores)

    def process(self, data_batch: object, data_samples: Sequence[Mapping]) -> None:
        """Store true segments (n, 3) and found ones (m, 4): start, end, class and score."""
        for sample in data_samples:
            segments = sample["pred_instances"]
            columns = [*segments["segments"].T, segments["labels"], segments["scores"]]
            rows = np.stack([column.float().cpu().numpy() for column in columns], axis=1)
            if self.video_scores is not None:
                count = len((self.dataset_meta or {}).get("classes") or ()) or None
                file = self.video_scores
                scores = scores_of_video(sample["video_path"], self._scores, file, count)
                rows = fuse_scores(rows, scores, *self.limits)
            self.results.append((np.asarray(sample["spans"], dtype=float).reshape(-1, 3), rows))

    def compute_metrics(self, results: list[tuple[np.ndarray, np.ndarray]]) -> dict[str, float]:
        """Compute the metrics; none if no video has a true segment."""
        classes = sorted({int(label) for truth, _ in results for label in truth[:, 2]})
        if not classes:
            leave_out("mAP of segments", "the videos have no annotated segments")
            return {}
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
    """MMAction2's ``AVAMetric``, in which a class that is never found counts as 0, as in AVA's own.

    It writes its file to a temporary folder. Arguments are those of ``AVAMetric``. The means over
    AVA's groups of classes are for AVA's 80 classes only.
    """

    def compute_metrics(self, results: list) -> dict[str, float]:
        """Compute the metrics.

        Raises:
            UserError: If there are predicted boxes, but of no annotated moment; or if a time is no
                whole second, and there is an ``exclude_file``, which has those.
        """
        predicted = {
            (x["video_id"], x["timestamp"]) for x in results if any(map(len, x["outputs"]))
        }
        moments = read_boxes(self.ann_file, _read_names(self.label_file))
        if predicted and not predicted & moments.keys():
            raise UserError(f"{self.ann_file}: none of its {len(moments)} moments has a prediction")
        if self.exclude_file is None:
            moments, results = _number_moments(moments, results)
        elif not all(float(time).is_integer() for _, time in moments):
            what = "has parts of seconds, which exclude_file cannot name"
            raise UserError(f"{self.ann_file} {what}")
        with TemporaryDirectory() as folder:
            predictions, truth = Path(folder, "predictions.csv"), Path(folder, "truth.csv")
            write_csv(truth, _rows_of_truth(moments))  # without a header, empty lines, repetitions
            files = self.label_file, truth, self.exclude_file
            results2csv(results, predictions, self.custom_classes)
            _add_missed_classes(predictions, moments)
            with warnings.catch_warnings(), redirect_stdout(StringIO()) as printed:
                warnings.filterwarnings("ignore", "Mean of empty slice")  # of groups
                metrics = ava_eval(
                    predictions, self.options[0], *files, custom_classes=self.custom_classes
                )
        print(*re.findall("^Index: .*", printed.getvalue(), re.M), sep="\n")
        has_groups = self.num_classes == AVA_CLASSES + 1
        return {k: float(v) for k, v in metrics.items() if has_groups or k == "overall"}


def _read_names(file: str) -> list[str]:
    """Read the names of classes, by number from 1; a number without a name has its own."""
    with open(file, encoding="utf-8") as lines:
        classes, _ = ava_utils.read_labelmap(lines)
    names = {item["id"]: item["name"] for item in classes}
    return [names.get(number, str(number)) for number in range(1, max(names, default=0) + 1)]


def _number_moments(moments: Moments, results: list[dict]) -> tuple[Moments, list[dict]]:
    """Return moments, and what was found at them, as second 0 of videos that are numbers.

    MMAction2 keeps neither a part of a second, nor a name with a comma.
    """
    numbers = {moment: str(number) for number, moment in enumerate(moments)}
    numbered = {(numbers[moment], 0): boxes for moment, boxes in moments.items()}
    answers = []
    for result in results:
        moment = result["video_id"], result["timestamp"]
        if moment in numbers:
            answers.append({**result, "video_id": numbers[moment], "timestamp": 0})
    return numbered, answers


def _rows_of_truth(moments: Moments) -> Iterator[tuple]:
    """Yield a row of AVA's format for each class of each box."""
    for (video, second), boxes in moments.items():
        for corners, labels in boxes.items():
            for label in sorted(labels):
                yield video, int(second), *corners, label


def _add_missed_classes(predictions: Path, moments: Moments) -> None:
    """Add an empty box with a score of 0 for each annotated class that has no predicted box.

    Its precision is then 0, where MMAction2 would leave the class out.
    """
    classes: dict[int, tuple[str, int]] = {}  # a moment of each
    for (video, second), boxes in moments.items():
        for label in set().union(*boxes.values()):
            classes.setdefault(label, (video, int(second)))
    with predictions.open("a+", encoding="utf-8", newline="") as file:
        file.seek(0)
        for video, second, *_, label, _score in csv.reader(file):
            if (video, int(second)) in moments:
                classes.pop(int(label), None)
        for label, moment in classes.items():
            file.write(",".join(map(str, (*moment, 0, 0, 0, 0, label, 0))) + "\n")
