"""The submission file of the EPIC-Kitchens anticipation challenges."""

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from mmengine.evaluator import BaseMetric

from mmvidformer.registry import METRICS

TIME = 1.0  # seconds before the action, by the rules of the challenge
TOP_ACTIONS = 100


@METRICS.register_module()
class ChallengeJson(BaseMetric):
    """Write the scores at 1 s before each action as a challenge submission.

    The file has ``version``, ``challenge``, the supervision levels ``sls_pt``, ``sls_tl``,
    ``sls_td``, and ``results``: for each narration id the scores of all verbs, of all nouns, and of
    the 100 best actions, ``{"verb": {"0": 1.2, ...}, "noun": {...}, "action": {"0,1": 3.4, ...}}``,
    with actions as ``verb,noun``. Segments that the dataset skips get zeros, as in RULSTM. Labels
    are not needed. Data samples need a ``narration_id`` and a ``pred_score`` as for
    ``mmvidformer.AnticipationMetric``, and the dataset's ``metainfo`` needs ``actions`` and
    ``discarded``.

    Args:
        out_file: File to write. With the suffix ``.zip`` an archive that contains ``test.json``,
            ready for upload.
        version: ``'0.2'`` for EPIC-Kitchens-100, ``'0.1'`` for -55.
        supervision: Levels of pretraining, training labels and training data, 0 to 5. Default:
            those of RULSTM, pretrained on ImageNet.
        time_step: Seconds between anticipation times.
        **kwargs: Arguments of MMEngine's ``BaseMetric``, ``collect_device`` and ``prefix``.

    Raises:
        ValueError: If an argument is out of range, or scores have no row for the time or are not
            finite, which JSON cannot hold; names the segment.
        KeyError: If a sample or the dataset lacks what is needed.
    """

    default_prefix = ""

    def __init__(
        self,
        out_file: str,
        version: str = "0.2",
        supervision: tuple[int, int, int] = (1, 4, 3),
        time_step: float = 0.25,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        if len(supervision) != 3 or not all(0 <= level <= 5 for level in supervision):
            raise ValueError(f"supervision must be three levels from 0 to 5, got {supervision}")
        if TIME / time_step != round(TIME / time_step):
            raise ValueError(f"time_step must divide {TIME:g} s, got {time_step}")
        self.out_file = Path(out_file)
        self.version = version
        self.supervision = tuple(supervision)
        self.steps = round(TIME / time_step)

    def process(self, data_batch: Sequence, data_samples: Sequence[Mapping]) -> None:
        """Store all scores of verbs and nouns, and the best of the actions."""
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
            best = scores["action"].topk(min(TOP_ACTIONS, len(scores["action"])))
            entry = {task: dict(enumerate(scores[task].tolist())) for task in ("verb", "noun")}
            entry["action"] = dict(zip(best.indices.tolist(), best.values.tolist(), strict=True))
            self.results.append((name, entry))

    def compute_metrics(self, results: list[tuple[str, dict]]) -> dict[str, int]:
        """Write the file; the result is the number of its segments."""
        if not {"actions", "discarded"} <= set(self.dataset_meta or {}):
            raise KeyError(
                "ChallengeJson needs 'actions' and 'discarded' of the dataset's metainfo, which "
                "mmvidformer.AnticipationDataset has"
            )
        zeros = {task: dict.fromkeys(scores, 0.0) for task, scores in results[0][1].items()}
        entries = dict(results)
        for segment in self.dataset_meta["discarded"]:
            entries[segment["narration_id"]] = zeros
        pairs = self.dataset_meta["actions"]
        submission = {
            "version": self.version,
            "challenge": "action_anticipation",
            **dict(zip(("sls_pt", "sls_tl", "sls_td"), self.supervision, strict=True)),
            "results": {
                name: {
                    **entry,
                    "action": {"{},{}".format(*pairs[i]): s for i, s in entry["action"].items()},
                }
                for name, entry in entries.items()
            },
        }
        self.out_file.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(submission)
        if self.out_file.suffix == ".zip":
            with zipfile.ZipFile(self.out_file, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("test.json", text)
        else:
            self.out_file.write_text(text)
        return {"segments": len(entries)}
