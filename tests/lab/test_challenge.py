import json
import zipfile
from pathlib import Path

import pytest
import torch
from mmaction.structures import ActionDataSample

from lab.challenge import ChallengeJson
from mmvidformer.tasks.evaluator import BadVideoEvaluator

PAIRS = [(v, n) for v in range(12) for n in range(10)]
META = {"actions": PAIRS, "discarded": [{"narration_id": "P01_02_0", "gt_label": None}]}


def sample(name: str, seed: int) -> dict:
    generator = torch.Generator().manual_seed(seed)
    counts = {"verb": 12, "noun": 10, "action": 120}
    scores = {task: torch.randn(8, n, generator=generator) for task, n in counts.items()}
    return {"narration_id": name, "pred_score": scores}


def write(path: Path, samples: list[dict], meta: dict = META, **kwargs) -> dict:
    metric = ChallengeJson(str(path), **kwargs)
    metric.dataset_meta = meta
    metric.process(None, samples)
    return metric.evaluate(len(samples))


def test_submission_holds_the_scores_one_second_before(tmp_path: Path) -> None:
    samples = [sample("P01_01_0", 0), sample("P01_01_1", 1)]
    assert write(tmp_path / "new" / "a.json", samples) == {"segments": 3}
    found = json.loads((tmp_path / "new" / "a.json").read_text())
    results = found.pop("results")
    assert found == {
        "version": "0.2", "challenge": "action_anticipation",
        "sls_pt": 1, "sls_tl": 4, "sls_td": 3,
    }  # fmt: skip
    assert list(results) == ["P01_01_0", "P01_01_1", "P01_02_0"]
    for given in samples:
        entry = results[given["narration_id"]]
        scores = {task: s[4].tolist() for task, s in given["pred_score"].items()}  # 1 s before
        assert entry["verb"] == {str(i): s for i, s in enumerate(scores["verb"])}
        assert entry["noun"] == {str(i): s for i, s in enumerate(scores["noun"])}
        best = sorted(range(120), key=lambda i: -scores["action"][i])[:100]
        assert entry["action"] == {f"{i // 10},{i % 10}": scores["action"][i] for i in best}
    empty = results["P01_02_0"]
    assert {task: len(s) for task, s in empty.items()} == {"verb": 12, "noun": 10, "action": 100}
    assert {score for scores in empty.values() for score in scores.values()} == {0.0}


def test_a_segment_that_cannot_be_read_gets_zeros(tmp_path: Path) -> None:
    """Whether it has a label or not, and though other scores that are not finite are refused."""
    for number, label in enumerate([torch.tensor([1, 2, 3]), None]):
        bad = ActionDataSample(pred_score=sample("P01_01_1", 1)["pred_score"])
        bad.set_metainfo(dict(narration_id="P01_01_1", bad_video="cut off", bad_path="b.mp4"))
        if label is not None:
            bad.set_gt_label(label)
        path = tmp_path / f"{number}.json"
        evaluator = BadVideoEvaluator(ChallengeJson(str(path)))
        evaluator.dataset_meta = META
        evaluator.process([bad, sample("P01_01_0", 0)])
        assert evaluator.evaluate(2) == {"segments": 3, "bad_videos": 1}
        entry = json.loads(path.read_text())["results"]["P01_01_1"]
        assert {task: len(s) for task, s in entry.items()} == dict(verb=12, noun=10, action=100)
        assert {score for scores in entry.values() for score in scores.values()} == {0.0}


def test_another_version_and_supervision(tmp_path: Path) -> None:
    given = sample("7", 0)
    write(tmp_path / "a.json", [given], version="0.1", supervision=(2, 3, 4))
    found = json.loads((tmp_path / "a.json").read_text())
    assert (found["version"], found["sls_pt"], found["sls_tl"], found["sls_td"]) == ("0.1", 2, 3, 4)
    assert found["results"]["7"]["noun"]["3"] == given["pred_score"]["noun"][4, 3].item()


def test_archive_for_upload(tmp_path: Path) -> None:
    write(tmp_path / "a.json", [sample("7", 0)])
    write(tmp_path / "a.zip", [sample("7", 0)])
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert archive.namelist() == ["test.json"]
        assert archive.read("test.json") == (tmp_path / "a.json").read_bytes()


def test_scores_must_be_finite(tmp_path: Path) -> None:
    bad = sample("P01_01_5", 0)
    bad["pred_score"]["noun"][4, 2] = float("nan")
    with pytest.raises(ValueError, match="P01_01_5: noun scores are not all finite"):
        write(tmp_path / "a.json", [bad])


def test_no_warning_about_a_missing_prefix(monkeypatch) -> None:
    lines = []
    monkeypatch.setattr("mmengine.evaluator.metric.print_log", lambda text, **_: lines.append(text))
    assert ChallengeJson("a.json").prefix == ""
    assert lines == []
