import json
from pathlib import Path

import pytest

from lab.plot.curves import draw_training, read_log


def write(folder: Path, *rows: dict, end: str = "") -> None:
    (folder / "vis_data").mkdir(parents=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "vis_data" / "scalars.json").write_text(text + end)


def step(number: int, loss: float, epoch: int | None = None) -> dict:
    row = dict(lr=0.1, loss=loss, top1_acc=0.5, time=1.0, iter=number, step=number)
    return row if epoch is None else dict(row, epoch=epoch)


@pytest.fixture
def resumed(tmp_path: Path) -> Path:
    """Epochs of 4 iterations; killed in the third, resumed after the second."""
    first = [step(2, 9.0, 1), step(4, 8.0, 1), {"acc/top1": 0.25, "time": 1.0, "step": 1}]
    write(tmp_path / "1", *first, step(8, 7.0, 2), step(10, 99.0, 3), end='{"lr": 0.')
    write(tmp_path / "2", step(10, 6.0, 3), step(12, 5.0, 3), {"acc/top1": 0.75, "step": 3})
    return tmp_path


def test_a_resumed_run_is_one_curve_by_epoch(resumed: Path) -> None:
    log = read_log(resumed)
    assert log.unit == "epoch"
    assert log.training["loss"] == {0.5: 9, 1: 8, 2: 7, 2.5: 6, 3: 5}
    assert log.validation == {"acc/top1": {1: 0.25, 3: 0.75}}


def test_the_newer_of_two_runs_in_a_folder_counts(resumed: Path) -> None:
    newer = [step(1, 3.0, 1), step(2, 2.0, 1), {"acc/top1": 0.5, "step": 1}]
    write(resumed / "3", *newer, step(3, 1.0, 2))
    write(resumed / "4", {"acc/top1": 0.9, "step": 0})  # of a test
    log = read_log(resumed)
    assert log.training["loss"] == {0.5: 3, 1: 2, 1.5: 1}
    assert log.validation == {"acc/top1": {1: 0.5}}


def test_runs_are_drawn_in_one_plot(resumed: Path) -> None:
    log = read_log(resumed)
    figure = draw_training({"a": log, "b": log})
    loss, rate, accuracy = figure.axes
    assert [axes.get_title() for axes in figure.axes] == ["loss", "learning rate", "acc/top1"]
    assert [line.get_label() for line in loss.lines] == ["a", "b"]
    assert rate.lines[0].get_ydata().tolist() == [0.1] * 5
    assert accuracy.lines[1].get_xydata().tolist() == [[1, 0.25], [3, 0.75]]
    assert accuracy.lines[0].get_linestyle() == "--"
    assert loss.lines[0].get_color() != loss.lines[1].get_color()
    assert loss.lines[0].get_marker() == "None"
    assert all(tick == int(tick) for tick in accuracy.get_xticks())  # no half epochs


def test_runs_that_count_iterations(resumed: Path, tmp_path: Path) -> None:
    write(tmp_path / "other" / "1", step(50, 3.0), step(100, 2.0), {"map": 0.5, "step": 100})
    log = read_log(tmp_path / "other")
    assert (log.unit, log.training["loss"]) == ("iteration", {50: 3, 100: 2})
    axes = draw_training({"a": log}).axes[2]
    assert (axes.get_title(), axes.lines[0].get_marker()) == ("map", ".")
    with pytest.raises(ValueError, match="epochs, others iterations"):
        draw_training({"a": log, "b": read_log(resumed)})


def test_folders_and_files_without_a_log_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="is it a work dir"):
        read_log(tmp_path)
    write(tmp_path / "1", {"step": 1, "acc/top1": 1.0})
    with pytest.raises(ValueError, match="no line of training"):
        read_log(tmp_path)
