"""The command ``paper``: what it lists, shows, runs and skips."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from lab import paper as paper_command
from lab.papers import run_rows, runs
from lab.papers.rows import PublishedRow, Table, list_rows

TEXT = """\
title: An example
tables:
  table1:
    title: Its table
    config: vivit_fe_motion
    note: All are small.
    start: a secret model
    miniature:
      config: timesformer_motion
      data: data/videos --preset plain
      metrics: {top1: acc/top1}
    rows:
      model_1: {published: {top1: 50, params: 0.8}}
      model_2: {note: Wider., published: {top1: 60}, miniature: It has no small form}
      model_3: {missing: Its weights are not public}
"""


@pytest.fixture
def paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The tool in a folder with a file of rows; runs write their metrics at once."""
    monkeypatch.chdir(tmp_path)
    Path("rows.yml").write_text(TEXT)
    tool = paper_command
    monkeypatch.setattr(tool, "calls", [], raising=False)

    def measure(
        table: Table, row: PublishedRow, seed: int, folder: Path, **settings: object
    ) -> None:
        tool.calls.append((row.name, seed, settings))
        folder.mkdir(parents=True)
        metrics = {"acc/top1": 0.5 + 0.1 * seed}
        (folder / "test_1x1_score.json").write_text(json.dumps({"metrics": metrics}))

    monkeypatch.setattr(run_rows, "measure", measure)
    monkeypatch.setattr(run_rows, "generate", lambda table: tool.calls.append("videos"))
    return tool


def test_list(paper, capsys) -> None:
    paper.main(["list", "rows.yml"])
    *_, line, _, total = capsys.readouterr().out.splitlines()
    cells = [cell.strip() for cell in line.strip("│ ").split("│")]
    assert cells == ["rows", "table1", "Its table", "3", "2", "1"]
    assert total == "2 of 3 rows can be run, 1 in miniature."


def test_list_says_that_no_row_was_run_at_full_size(paper, capsys) -> None:
    paper.main(["list", "horst", "vivit"])
    *_, total, status = capsys.readouterr().out.splitlines()
    rows = list_rows(["horst", "vivit"])
    runnable = [row for row in rows if row.runnable]
    assert total.startswith(f"{len(runnable)} of {len(rows)} rows can be run, ")
    assert status == "This project has run none of them at full size."


def test_show_has_published_figures_sizes_and_remarks(paper, capsys) -> None:
    paper.main(["show", "rows.yml", "table1"])
    out = capsys.readouterr().out
    assert "0.82 (0.8)" in out
    assert out.splitlines()[-3:] == [
        "rows/table1: All are small. Published figures started from a secret model.",
        "rows/table1/model_2: Wider.",
        "rows/table1/model_3: cannot be run: Its weights are not public",
    ]
    assert not Path("work_dirs").exists()


def test_run_writes_the_table(paper, capsys) -> None:
    paper.main(["run", "rows.yml", "table1", "--seeds", "0", "1", "--procs", "2"])
    settings = dict(miniature=False, procs=2, common={})
    names = ["rows/table1/model_1", "rows/table1/model_2"]
    assert paper.calls == [(name, seed, settings) for seed in (0, 1) for name in names]
    assert "skipped: rows/table1/model_3 cannot be run" in capsys.readouterr().out
    folder = Path("work_dirs/papers/full/rows/table1")
    assert "model_1,model 1,50,55.0 ± 63.5," in (folder / "table.csv").read_text()
    assert (folder / "table.md").read_text().splitlines()[:4] == [
        "rows/table1: Its table",
        "",
        "| row |  | top1 | top1 (here) | M params (paper) | G MACs (paper) |",
        "| --- | --- | --- | --- | --- | --- |",
    ]


def test_run_scales_the_learning_rate_to_the_batch(make_config, main_of, tmp_path, monkeypatch):
    """One process of the two that the recipe's batch of 8 needs: half the rate of 0.5.

    The commands run here; ``test_runs.py`` starts them in processes.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runs, "_run", lambda _, name, *words: main_of(name)([*map(str, words)]))
    config = make_config("row", train_cfg=dict(max_epochs=1), auto_scale_lr=dict(base_batch_size=8))
    table = {"title": "Tiny", "config": str(config), "rows": {"half": {}}}
    Path("tiny.yml").write_text(json.dumps({"title": "Tiny", "tables": {"t": table}}))
    paper_command.main(["run", "tiny.yml", "t"])
    run = tmp_path / "work_dirs" / "papers" / "full" / "tiny" / "t" / "half" / "seed_0"
    trained = torch.load(run / "epoch_1.pth", weights_only=True)
    assert trained["optimizer"]["param_groups"][0]["initial_lr"] == 0.25


def test_run_says_first_where_rows_start(paper, capsys) -> None:
    run = ["run", "rows.yml", "table1", "--row", "model_1", "model_2"]
    paper.main(run)
    other = "random weights; the published figure from a secret model"
    wanted = [f"rows/table1/model_{n} starts from {other}" for n in (1, 2)]
    assert capsys.readouterr().out.splitlines()[:2] == wanted
    assert [call[2]["common"] for call in paper.calls] == [{}, {}]

    paper.calls.clear()
    shutil.rmtree("work_dirs")
    Path("best.pth").touch()
    paper.main([*run, "--start", "best.pth", "--cfg-options", "train_cfg.max_epochs=2"])
    assert "model_2 starts from best.pth; the published" in capsys.readouterr().out
    common = {"train_cfg.max_epochs": 2, "load_from": None, "model.backbone.init_from": "best.pth"}
    assert [call[2]["common"] for call in paper.calls] == [common, common]


def test_a_miniature_says_where_it_starts(paper, capsys) -> None:
    paper.main(["run", "rows.yml", "table1", "--row", "model_1", "--miniature"])
    assert "rows/table1/model_1 starts from random weights\n" in capsys.readouterr().out


def test_a_miniature_generates_its_videos_first(paper) -> None:
    paper.main(["run", "rows.yml", "table1", "--miniature", "--cfg-options", "a.b=1"])
    settings = dict(miniature=True, procs=1, common={"a.b": 1})
    assert paper.calls == ["videos", ("rows/table1/model_1", 0, settings)]
    folder = Path("work_dirs/papers/miniature/rows/table1")
    assert (folder / "table.csv").is_file()
    assert "small models on generated videos" in (folder / "table.md").read_text()


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        (["table2"], KeyError, "no table of rows.yml named 'table2'; choose from table1"),
        (["table1", "--row", "model 9"], KeyError, "no row of rows/table1 named 'model_9'"),
        (["table1", "--row", "model 3"], ValueError, "Its weights are not public"),
        (["table1", "--row", "model 2", "--miniature"], ValueError, "It has no small form"),
    ],
)
def test_mistakes_are_named(paper, arguments: list[str], error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        paper.main(["run", "rows.yml", *arguments])
    assert paper.calls == []
