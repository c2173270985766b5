"""Running the rows of a table, and the table of results."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from mmengine.config import Config

from lab.papers import runs
from lab.papers.rows import Miniature, PublishedRow, Table, read_paper
from lab.papers.runs import measure, training_part
from lab.papers.summary import interval, size_cells, tabulate
from mmvidformer.config import load_config
from mmvidformer.config.rows import Options

FIGURES = {"top1": 70, "params": 0.8}
ROWS = {
    "a": PublishedRow("p/t/a", "vivit_fe_motion", title="A", published=FIGURES, miniature={}),
    "b": PublishedRow("p/t/b", title="B", published={"top1": 60.5}, missing="no code"),
}
TABLE = Table("p/t", "Title", ROWS, miniature=Miniature("timesformer_motion", "data/motion_plain"))


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands that were run; they write what training and testing would."""
    calls = []

    def run(log: Path, *arguments: object) -> None:
        calls.append([str(argument) for argument in arguments])
        folder = log.parent
        if arguments[0] == "train":
            (folder / Path(arguments[1]).name).write_text("# As a run writes it.")
            (folder / "last_checkpoint").write_text("epoch_9.pth")
        else:
            metrics = {"acc/top1": 0.75}
            (folder / "test_1x1_score.json").write_text(json.dumps({"metrics": metrics}))

    monkeypatch.setattr(runs, "_run", run)
    return calls


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Folder of a run."""
    return tmp_path / "a" / "seed_3"


def start(folder: Path, miniature: bool = False, procs: int = 1, **common: object) -> dict:
    return measure(
        TABLE, ROWS["a"], 3, folder, miniature=miniature, procs=procs, common=common
    )  # fmt: skip


@pytest.mark.parametrize("procs", [1, 2])
def test_a_row_is_trained_and_tested_once(commands, procs: int, folder: Path) -> None:
    assert start(folder, procs=procs) == {"acc/top1": 0.75}
    config = str(folder.with_suffix(".py"))
    place = ["--work-dir", str(folder), *(["--procs", "2"] if procs == 2 else [])]
    assert commands == [
        ["train", config, "--seed", "3", "--resume", *place],
        ["test", config, "epoch_9.pth", *place],
    ]
    assert start(folder, procs=procs) == {"acc/top1": 0.75}
    assert len(commands) == 2


def test_rows_that_differ_in_tests_only_are_trained_once(commands, tmp_path: Path) -> None:
    def rows(miniature: bool) -> dict[str, Options]:
        return {
            row.name.rpartition("/")[2]: table.recipe(row, miniature)
            for row in table.rows.values()
            if row.config and "::" not in row.config  # not those of MMAction2
        }

    table = read_paper("timesformer").tables["figure6"]
    for miniature in (False, True):
        parts = [training_part(load_config(*recipe)) for recipe in rows(miniature).values()]
        assert len(parts) == 12 and sum(one not in parts[:i] for i, one in enumerate(parts)) == 3
    for name in ("base_1", "base_3", "l_1"):
        folder = tmp_path / name / "seed_0"
        measure(table, table.rows[name], 0, folder, miniature=True, procs=1, common={})
    assert [command[0] for command in commands] == ["train", "test", "test", "train", "test"]
    assert commands[2][1:3] == [str(tmp_path / "base_3" / "seed_0.py"), "epoch_9.pth"]
    # Another seed is another run.
    folder = tmp_path / "base_3" / "seed_1"
    measure(table, table.rows["base_3"], 1, folder, miniature=True, procs=1, common={})
    assert [command[0] for command in commands[5:]] == ["train", "test"]


def test_the_miniature_and_common_overrides(commands, folder: Path) -> None:
    start(folder, miniature=True, randomness={"seed": 7})
    text = folder.with_suffix(".py").read_text()
    assert "TimeSformer" in text and "seed=7" in text


def rate_of_the_run(folder: Path, procs: int) -> float:
    """Learning rate with which MMEngine trains a run's config."""
    cfg = Config.fromfile(folder.with_suffix(".py"))
    scale, rate = cfg.auto_scale_lr, cfg.optim_wrapper.optimizer.lr
    factor = procs * cfg.train_dataloader.batch_size / scale.base_batch_size
    return rate * factor if scale.enable else rate


@pytest.mark.parametrize(
    ("procs", "steps", "factor"),
    [(2, 1, 1), (1, 1, 0.5), (8, 1, 4), (1, 2, 1), (1, 4, 2), (2, 2, 2)],
)
def test_the_learning_rate_follows_the_batch(
    commands, procs: int, steps: int, factor: float, folder: Path, capsys
) -> None:
    """The recipe has 16 clips: 2 processes of 8. ``steps`` batches make an optimizer's step."""
    rate = load_config("vivit_fe_motion").optim_wrapper.optimizer.lr
    start(folder, procs=procs, **{"optim_wrapper.accumulative_counts": steps})
    assert rate_of_the_run(folder, procs) == pytest.approx(factor * rate)
    clips = 8 * procs * steps
    message = f"p/t/a: the learning rate is scaled by {clips} / 16, the batch here / the recipe's\n"
    assert capsys.readouterr().out == ("" if factor == 1 else message)


def test_a_recipe_for_no_batch_is_not_scaled(commands, folder: Path, capsys) -> None:
    start(folder, **{"auto_scale_lr": None})
    assert Config.fromfile(folder.with_suffix(".py")).auto_scale_lr is None
    assert capsys.readouterr().out == ""


def test_a_folder_with_other_settings_is_refused(commands, folder: Path) -> None:
    start(folder)
    before = folder.with_suffix(".py").read_text()
    with pytest.raises(ValueError, match="has a run with other settings; use another --work-dir"):
        start(folder, randomness={"seed": 7})
    with pytest.raises(ValueError, match="other settings"):
        start(folder, procs=2)
    assert folder.with_suffix(".py").read_text() == before


def test_a_run_that_has_nothing_yet_may_begin_with_other_settings(commands, folder: Path) -> None:
    start(folder)
    for name in ("last_checkpoint", "test_1x1_score.json"):
        (folder / name).unlink()
    start(folder, randomness={"seed": 7})
    assert Config.fromfile(folder.with_suffix(".py")).randomness.seed == 7


def test_a_command_that_fails_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ChildProcessError, match=r"trains vivit failed: error: no command named .trains.*log"
    ):
        runs._run(tmp_path / "x.log", "trains", "vivit")


@pytest.mark.parametrize(
    "values, text",
    [
        ([], ""),
        ([0.5], "50.0"),
        ([0.5, 0.6, 0.7], "60.0 ± 24.8"),
        ([-0.0001, 0.0, -0.0001], "0.0 ± 0.0"),
    ],
)
def test_interval(values: list[float], text: str) -> None:
    """4.303 (t of two degrees of freedom) x 10 / sqrt(3)."""
    assert interval(values) == text


def test_the_table_has_what_was_measured_beside_the_published() -> None:
    measured = {"p/t/a": [{"acc/top1": 0.5}], "p/t/b": []}
    columns, lines = tabulate(list(ROWS.values()), measured, TABLE.metrics, sizes=False)
    assert columns == ["row", "", "top1", "top1 (here)"]
    assert lines == [["a", "A", "70", "50.0"], ["b", "B", "60.5", ""]]


def test_sizes_beside_the_published() -> None:
    cells = size_cells(ROWS["a"])
    assert cells[0] == "0.82 (0.8)" and cells[1] == "0.08"
    assert size_cells(ROWS["b"]) == ["", ""]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not end it")
def test_a_command_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    script = tmp_path / "sleep.sh"
    script.write_text("#!/bin/sh\necho $$ > pid\nexec sleep 60\n")
    script.chmod(0o700)
    code = (
        "import sys; from pathlib import Path; from lab.papers import runs\n"
        f"sys.executable = {str(script)!r}; runs._run(Path('log'), 'train')"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, cwd=tmp_path, env=environment) as parent:
        pid = tmp_path / "pid"
        wait_for(lambda: parent.poll() is not None or (pid.exists() and pid.read_text()))
        assert parent.returncode is None, "it ended before its command began"
        parent.kill()
    child = Path("/proc", pid.read_text().strip(), "stat")
    wait_for(lambda: not child.exists() or child.read_text().split()[2] == "Z")


def wait_for(condition: Callable[[], object]) -> None:
    """Wait for at most ten minutes."""
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.1)
    raise TimeoutError
