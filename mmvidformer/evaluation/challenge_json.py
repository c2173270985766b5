"""The file that the EPIC-Kitchens anticipation challenges take."""

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from mmengine.evaluator import BaseMetric

from mmvidformer.registry import METRICS


@METRICS.register_module()
class ChallengeJson(BaseMetric):
    """Write the scores at one anticipation time as a challenge submission.

    The file has ``version``, ``challenge``, the supervision levels ``sls_pt``, ``sls_tl``,
    ``sls_td``, and ``results``: for each narration id the scores of all verbs, of all nouns, and of
    the best actions, ``{"verb": {"0": 1.2, ...}, "noun": {...}, "action": {"0,1": 3.4, ...}}``
    with actions as ``verb,noun``. Segments that the dataset has left out get zeros, as RULSTM gives
    them. Labels are not needed. Samples need a ``narration_id`` and ``pred_score`` as for
    ``mmvidformer.AnticipationMetric``, and the dataset's ``metainfo`` ``actions`` and
    ``discarded``.

    Args:
        out_file: File to write; with the suffix ``.zip`` an archive that holds ``test.json``, as it
            is uploaded.
        version: ``'0.2'`` for EPIC-Kitchens-100, ``'0.1'`` for -55.
        supervision: The levels of pretraining, training labels and training data, 0 to 5; default:
            those of RULSTM, pretrained on ImageNet.
        anticipation_time: Seconds before the action, a multiple of ``time_step``.
        time_step: Seconds from an anticipation time to the next.
        top_actions: Actions to write; the challenge takes exactly 100.
        collect_device: Where results of several processes meet, ``'cpu'`` or ``'gpu'``.

    Raises:
        ValueError: If an argument is out of range, scores have no row for the time, or are NaN or
            infinite, which JSON has no number for; the message names the segment.
        KeyError: If a sample or the dataset lacks what is needed.
    """

    def __init__(
        self,
        out_file: str,
        version: str = "0.2",
        supervision: tuple[int, int, int] = (1, 4, 3),
        anticipation_time: float = 1.0,
        time_step: float = 0.25,
        top_actions: int = 100,
        collect_device: str = "cpu",
    ) -> None:
        super().__init__(collect_device=collect_device)
        if len(supervision) != 3 or not all(0 <= level <= 5 for level in supervision):
            raise ValueError(f"supervision must be three levels from 0 to 5, got {supervision}")
        steps = anticipation_time / time_step
        if steps < 1 or steps != round(steps):
            raise ValueError(
                f"anticipation_time must be a multiple of {time_step} s, got {anticipation_time}"
            )
        self.out_file = Path(out_file)
        self.version = version
        self.supervision = tuple(supervision)
        self.steps = round(steps)
        self.top_actions = top_actions

    def process(self, data_batch: Sequence, data_samples: Sequence[Mapping]) -> None:
        """Keep all scores of verbs and nouns, and the best of the actions."""
        for sample in data_samples:
            if "narration_id" not in sample:
                raise KeyError(
                    "ChallengeJson needs the narration_id of each sample; "
                    "give PackActionInputs meta_keys=('narration_id',)"
                )
            scores, name = {}, sample["narration_id"]
            for task in ("verb", "noun", "action"):
                rows = sample["pred_score"][task]
                if rows.dim() != 2 or len(rows) < self.steps:
                    raise ValueError(
                        f"{name}: expected {task} scores (times, classes) with at least "
                        f"{self.steps} times, got {tuple(rows.shape)}"
                    )
                scores[task] = rows[-self.steps].float().cpu()
                if not scores[task].isfinite().all():
                    raise ValueError(f"{name}: {task} scores are not all finite")
            best = scores["action"].topk(min(self.top_actions, len(scores["action"])))
            self.results.append(
                {
                    "narration_id": name,
                    "verb": scores["verb"].numpy(),
                    "noun": scores["noun"].numpy(),
                    "actions": best.indices.tolist(),
                    "action": best.values.numpy(),
                }
            )

    def compute_metrics(self, results: list[dict]) -> dict[str, int]:
        """Write the file; the number of its segments is the result."""
        if not {"actions", "discarded"} <= set(self.dataset_meta or {}):
            raise KeyError(
                "ChallengeJson needs 'actions' and 'discarded' of the dataset's metainfo; "
                "mmvidformer.AnticipationDataset has them"
            )
        first = results[0]
        zeros = {task: np.zeros(len(first[task])) for task in ("verb", "noun", "action")}
        left_out = [
            {**first, **zeros, "narration_id": segment["narration_id"]}
            for segment in self.dataset_meta["discarded"]
        ]
        segments = {r["narration_id"]: self._entry(r) for r in results + left_out}
        submission = {
            "version": self.version,
            "challenge": "action_anticipation",
            **dict(zip(("sls_pt", "sls_tl", "sls_td"), self.supervision, strict=True)),
            "results": segments,
        }
        self.out_file.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(submission)
        if self.out_file.suffix == ".zip":
            with zipfile.ZipFile(self.out_file, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("test.json", text)
        else:
            self.out_file.write_text(text)
        return {"segments": len(segments)}

    def _entry(self, result: dict) -> dict[str, dict[str, float]]:
        pairs = self.dataset_meta["actions"]
        return {
            "verb": {str(i): float(score) for i, score in enumerate(result["verb"])},
            "noun": {str(i): float(score) for i, score in enumerate(result["noun"])},
            "action": {
                "{},{}".format(*pairs[i]): float(score)
                for i, score in zip(result["actions"], result["action"], strict=True)
            },
        }
