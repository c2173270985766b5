from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from mmengine.evaluator import BaseMetric

from mmvidformer.errors import UserError
from mmvidformer.registry import METRICS
from mmvidformer.storage.atomic import write_atomically
from mmvidformer.tasks.frames_metric import answers_by_frame
from mmvidformer.video.times import FrameTimes

SPANS = ("found", "true", "runs", "boxes")  # of which videos have any number
OVERLAP = 0.5  # of a box and a true one, by which they are the same


@METRICS.register_module()
class SaveScores(BaseMetric):
    """Write the scores of all videos to an ``.npz``; MMEngine's ``DumpResults`` pickles them.

    The file contains ``labels`` (N,) or (N, tasks); ``scores`` (N, classes), or
    (N, views, classes) for a head with ``average_clips=None``, or ``scores_<task>`` for each task
    of a head of several tasks; ``bad_videos`` (N,), true if the video could not be read
    (``BadVideoEvaluator``); ``videos`` (N,), their files, if ``SafeDataset`` names them; and
    ``classes``, those in the dataset's ``metainfo``, if it has any.

    Of segments and moments there are ``found`` and ``true`` in place of scores and labels: the
    number of the video, start, end and class of each, and of those that were found the score.
    Of classes over time there are ``runs`` of frames in which neither answer nor truth changes: the
    number of the video, start, end, answer, truth (-1: none) and the answer's mean probability.
    Of moments with boxes there are ``boxes``: the number of the moment, its second, left, top,
    right and bottom as shares, the score of each class, and 1 for each that is true of the true
    box that it overlaps most, by more than half. A true box that no other one overlaps so has
    scores of 0.

    Args:
        path: The file, with the suffix ``.npz``. Its folder is created.
        activation: What the file says of its ``scores``, by which 0 and 1 are classes, labels or
            values: ``'softmax'``, ``'sigmoid'`` or ``'none'``. Default: it says nothing.
        **kwargs: Arguments of MMEngine's ``BaseMetric``, ``collect_device`` and ``prefix``.
    """

    default_prefix = ""

    def __init__(self, path: str, activation: str = "", **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.path, self.activation = Path(path).with_suffix(".npz"), activation

    def process(self, data_batch: Sequence, data_samples: Sequence[Mapping]) -> None:
        """Store the answers and the labels of each sample."""
        for sample in data_samples:
            row = self.row_of(sample)
            if row is None:  # parts, of which videos have many
                wrong = "the model has none; use .pkl, or mmvidformer demo --json"
                raise UserError(f"{self.path} has a row of scores for each video, but {wrong}")
            self.results.append(row)

    @staticmethod
    def row_of(sample: Mapping) -> dict[str, Any] | None:
        """Return what the file has of a sample; None if it has no place for its answers."""
        row = {"bad_videos": "bad_video" in sample}
        if "video_path" in sample:
            row["videos"] = sample["video_path"]
        if "segments" in (spans := sample.get("pred_instances", ())) and "spans" in sample:
            columns = [*spans["segments"].T, spans["labels"], spans["scores"]]
            row["found"] = np.stack([column.float().cpu().numpy() for column in columns], axis=1)
            return row | {"true": np.asarray(sample["spans"], float).reshape(-1, 3)}
        if "bboxes" in spans and ("gt_instances" in sample or row["bad_videos"]):
            return row | {"boxes": _boxes_of(sample)}
        if "background" in sample:  # of classes over time; a bad video has no steps
            return row | {"runs": np.zeros((0, 5)) if row["bad_videos"] else _runs_of(sample)}
        if "pred_score" not in sample or "step" in sample:
            return None
        scores = sample["pred_score"]
        named = {"scores": scores}
        if isinstance(scores, Mapping):
            named = {f"scores_{task}": of_task for task, of_task in scores.items()}
        labels = sample["gt_label"].cpu().numpy()
        row["labels"] = labels[0] if len(labels) == 1 else labels
        return row | {name: array.float().cpu().numpy() for name, array in named.items()}

    def arrays_of(self, results: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
        """Return what the file has, by name."""
        arrays = {}
        for name in results[0]:
            rows = [result[name] for result in results]
            if name in SPANS:
                rows = [np.insert(spans, 0, i, axis=1) for i, spans in enumerate(rows)]
            arrays[name] = np.concatenate(rows) if name in SPANS else np.stack(rows)
        names = (self.dataset_meta or {}).get("classes")
        if isinstance(names, list | tuple):
            arrays["classes"] = np.array(names, dtype=str)
        if self.activation:
            arrays["activation"] = np.array(self.activation)
        return arrays

    def compute_metrics(self, results: list[dict]) -> dict:
        """Write the file; there are no results."""
        with write_atomically(self.path) as part, part.open("wb") as file:
            np.savez(file, **self.arrays_of(results))
        return {}


def _runs_of(sample: Mapping) -> np.ndarray:
    predicted, scores, truth = answers_by_frame(sample)
    changes = np.diff(np.stack([predicted, truth]), axis=1).any(axis=0)
    starts = np.append(0, np.flatnonzero(changes) + 1)
    ends = np.append(starts[1:], len(truth))
    means = np.add.reduceat(scores, starts) / (ends - starts)
    times = FrameTimes(sample["avg_fps"])
    seconds = times.seconds(starts), times.seconds(ends)
    return np.stack([*seconds, predicted[starts], truth[starts], means], axis=1)


def _boxes_of(sample: Mapping) -> np.ndarray:
    from torchvision.ops import box_iou  # takes seconds to import

    boxes, scores = (sample["pred_instances"][name].float().cpu() for name in ("bboxes", "scores"))
    scores = scores[:, 1:]
    if "bad_video" in sample:
        return np.zeros((0, 5 + 2 * scores.shape[1]))
    (height, width), true = sample["img_shape"], sample["gt_instances"]
    corners = true["bboxes"].float().cpu() / torch.tensor([width, height, width, height])
    labels = true["labels"][:, -scores.shape[1] :].float().cpu()
    # Number 0 is none of the true boxes.
    best = F.pad(box_iou(boxes, corners), (1, 0), value=OVERLAP).argmax(dim=1)
    is_missed = torch.isin(torch.arange(len(labels)) + 1, best, invert=True)
    boxes = torch.cat([boxes, corners[is_missed]])
    scores = torch.cat([scores, torch.zeros_like(labels[is_missed])])
    labels = torch.cat([F.pad(labels, (0, 0, 1, 0))[best], labels[is_missed]])
    rows = torch.cat([boxes, scores, labels], dim=1)
    return F.pad(rows, (1, 0), value=sample["timestamp"]).numpy()
