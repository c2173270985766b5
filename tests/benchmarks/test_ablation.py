"""The ablation table: which runs are started or skipped, and the numbers."""

import json
import sys
from pathlib import Path

import pytest

ROWS = ["--row", "with time", "a.b=1", "--row", "without", "--seeds", "0", "3", "--procs", "2"]


@pytest.fixture
def ablation(load, monkeypatch, tmp_path):
    """Run the command with scripts that only record their arguments, and return those."""
    module = load("ablation")

    def start(*arguments: str) -> list[list[str]]:
        calls = []

        def run(script: str, *options: object, log: Path) -> None:
            calls.append([script, *map(str, options)])
            folder = log.parent
            (folder / "last_checkpoint").write_text(str(folder / "epoch_9.pth"))
            if script == "dist_test.sh":
                right = 0.75 if folder.parent.name == "with_time" else 0.5
                right += 0.01 * int(folder.name[-1])
                result = {"metrics": {"acc/top1": right, "acc/top5": 0.9}}
                (folder / "test_4x3_score.json").write_text(json.dumps(result))

        monkeypatch.setattr(module, "run", run)
        monkeypatch.setattr(
            sys, "argv",
            ["ablation.py", "c.py", *arguments, "--views", "4x3",
             "--work-dir", str(tmp_path / "runs"), "--out", str(tmp_path / "table.md")],
        )  # fmt: skip
        module.main()
        return calls

    return start


def test_each_row_is_trained_and_tested_once_per_seed(ablation, tmp_path, capsys):
    calls = ablation(*ROWS)
    folder = str(tmp_path / "runs" / "with_time" / "seed_3")
    common = ["--work-dir", folder, "--cfg-options", "a.b=1"]
    assert ["dist_train.sh", "c.py", "2", "--seed", "3", "--resume", *common] in calls
    checkpoint = f"{folder}/epoch_9.pth"
    assert ["dist_test.sh", "c.py", checkpoint, "2", "--views", "4x3", *common] in calls
    assert len(calls) == 2 * 2 * 2
    lines = (tmp_path / "table.md").read_text().splitlines()
    assert lines[2:] == [
        "| with time | 76.5 | 3.0 | 75.0 | 78.0 |",
        "| without | 51.5 | 3.0 | 50.0 | 53.0 |",
    ]
    assert (tmp_path / "table.csv").read_text().splitlines()[1] == "with time,0.75,0.78"
    assert "| without |" in capsys.readouterr().out
    assert ablation(*ROWS) == []
    more = ablation(*ROWS, "--row", "third")
    assert [call[0] for call in more] == ["dist_train.sh", "dist_test.sh"] * 2


def test_common_overrides_and_several_metrics(ablation, tmp_path):
    calls = ablation(*ROWS, "--common", "d=4", "e=5", "--metric", "acc/top1", "acc/top5")
    assert calls[0][-3:] == ["d=4", "e=5", "a.b=1"]
    assert calls[2][-2:] == ["d=4", "e=5"]
    lines = (tmp_path / "table.md").read_text().splitlines()
    assert lines[2:4] == [
        "| with time: acc/top1 | 76.5 | 3.0 | 75.0 | 78.0 |",
        "| with time: acc/top5 | 90.0 | 0.0 | 90.0 | 90.0 |",
    ]


def test_runs_with_other_settings_are_refused(ablation):
    ablation(*ROWS)
    with pytest.raises(ValueError, match=r"a\.b=1.*not with.*a\.b=2.*--work-dir"):
        ablation("--row", "with time", "a.b=2", *ROWS[5:])


def test_names_of_rows_must_differ(ablation, capsys):
    with pytest.raises(SystemExit):
        ablation("--row", "a b", "--row", "a_b")
    assert "names of rows must differ" in capsys.readouterr().err
