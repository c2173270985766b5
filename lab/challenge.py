"""Submissions to EPIC-Kitchens' challenge of anticipation, as a metric of a config."""

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from mmengine.evaluator import BaseMetric

from mmvidformer.errors import UserError
from mmvidformer.registry import METRICS
from mmvidformer.storage.atomic import write_atomically

STEPS = 4  # of 0.25 s before the action, by the rules of the challenge
TOP_ACTIONS = 100


@METRICS.register_module()
class ChallengeJson(BaseMetric):
    """Write the scores at 1 s before each action as a submission to EPIC-Kitchens' challenge.

    For each narration id these are the scores of all verbs, all nouns, and the 100 best actions.
    Segments that the dataset skips get zeros, as in RULSTM, and so do those that cannot be read.
    Labels are not needed. Data samples need a ``narration_id`` and a ``pred_score`` as for
    ``mmvidformer.AnticipationMetric``, with times 0.25 s apart, and the dataset's ``metainfo``
    needs ``actions`` and ``discarded``.

    Args:
        out_file: File to write. With the suffix ``.zip`` an archive that contains ``test.json``,
            ready for upload.
        version: ``'0.2'`` for EPIC-Kitchens-100, ``'0.1'`` for -55.
        supervision: Levels of pretraining, training labels and training data, 0 to 5. Default:
            those of RULSTM, pretrained on ImageNet.
        **kwargs: Arguments of MMEngine's ``BaseMetric``, ``collect_device`` and ``prefix``.

    Raises:
        UserError: If scores are not finite, which JSON cannot hold; names the segment.
    """

    default_prefix = ""

    def __init__(
        self,
        out_file: str,
        version: str = "0.2",
        supervision: tuple[int, int, int] = (1, 4, 3),
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self.out_file = Path(out_file)
        levels = dict(zip(("sls_pt", "sls_tl", "sls_td"), supervision, strict=True))
        self.header = {"version": version, "challenge": "action_anticipation", **levels}

    def worst(self, sample: Mapping) -> dict:
        """Return a sample whose scores are zeros."""
        zeros = {task: torch.zeros_like(scores) for task, scores in sample["pred_score"].items()}
        return {**sample, "pred_score": zeros}

    def process(self, data_batch: Sequence, data_samples: Sequence[Mapping]) -> None:
        """Store all scores of verbs and nouns, and the best of the actions."""
        for sample in data_samples:
            name, entry = sample["narration_id"], {}
            for task in ("verb", "noun", "action"):
                scores = sample["pred_score"][task][-STEPS].float().cpu()
                if not scores.isfinite().all():
                    raise UserError(f"{name}: {task} scores are not all finite")
                kept = min(TOP_ACTIONS, len(scores)) if task == "action" else len(scores)
                best = scores.topk(kept)
                entry[task] = dict(zip(best.indices.tolist(), best.values.tolist(), strict=True))
            self.results.append((name, entry))

    def compute_metrics(self, results: list[tuple[str, dict]]) -> dict[str, int]:
        """Write the file; the result is the number of its segments."""
        pairs, discarded = self.dataset_meta["actions"], self.dataset_meta["discarded"]
        zeros = {task: dict.fromkeys(scores, 0.0) for task, scores in results[0][1].items()}
        entries = dict(results) | {segment["narration_id"]: zeros for segment in discarded}
        for name, entry in entries.items():
            actions = {"{},{}".format(*pairs[i]): score for i, score in entry["action"].items()}
            entries[name] = {**entry, "action": actions}
        text = json.dumps({**self.header, "results": entries})
        with write_atomically(self.out_file) as part:
            if self.out_file.suffix == ".zip":
                with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
                    archive.writestr("test.json", text)
            else:
                part.write_text(text)
        return {"segments": len(entries)}
