"""The stress tools, on a few cases."""

import csv
import json
import sys

import pytest

pytestmark = pytest.mark.slow


def test_killed_runs_resume(run, tmp_path) -> None:
    out = tmp_path / "kills.csv"
    command = [sys.executable, "-W", "ignore", "-m", "stress.kill_and_resume"]
    process = run(*command, "--kills", 3, "--epochs", 2, "--minutes", 5, "--out", out)
    log = process.communicate(timeout=600)[0]
    assert process.returncode == 0, log
    figures = json.loads(log[log.index("{") :])
    assert figures["kills"] >= 3 and figures["faults"] == []
    assert figures["most_steps_lost"] <= figures["save_interval"]
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert sum(row["killed"] == "True" for row in rows) == figures["kills"]
    assert rows[-1]["done"] == "16" and rows[-1]["killed"] == "False"


def test_killed_labels_are_the_same_rows(run, tmp_path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    command = [sys.executable, "-W", "ignore", "-m", "stress.kill_labels"]
    process = run(*command, "--videos", 20, "--kills", 3, "--kills-per-run", 3)
    log = process.communicate(timeout=600)[0]
    assert process.returncode == 0, log
    assert "3 kills, 0 runs with other rows" in log and "DIFFERENT" not in log


def test_hostile_videos_end_no_labels(run, tmp_path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    command = [sys.executable, "-W", "ignore", "-m", "stress.hostile_videos"]
    process = run(*command, "--videos", 30)
    log = process.communicate(timeout=600)[0]
    assert process.returncode == 0, log
    assert "rows of 20 of 20 good videos" in log and "NOTHING" not in log


def test_hostile_files_run_nothing(run, tmp_path) -> None:
    out = tmp_path / "hostile.csv"
    command = [sys.executable, "-W", "ignore", "-m", "stress.hostile_files"]
    process = run(*command, "--only", "--resume FILE", "--out", out)
    log = process.communicate(timeout=600)[0]
    assert process.returncode == 0, log
    assert "tries; in 0 a payload ran, or another file or address was reached" in log
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert {row["reached"] for row in rows} == {"no"} and len(rows) == 21
    pickles = [row for row in rows if "torch file, os.system" in row["file"]]
    assert all(row["saw"].startswith("refused") for row in pickles)
    bases = [row["saw"] for row in rows if row["file"].startswith("base: ")]
    assert len(bases) == 7 and all(saw.startswith("error: ") for saw in bases)


def test_bad_and_odd_videos_are_read_or_reported(run, tools, tmp_path) -> None:
    out = tmp_path / "odd.csv"
    command = [sys.executable, "-W", "ignore", "-m", "stress.odd_videos", "--short"]
    options = ["--only", "text", "one_frame", "--decoders", "pyav", "--out", out]
    process = run(*command, *options)
    log = process.communicate(timeout=600)[0]
    assert process.returncode == 0, log
    assert "8 runs, 0 faults" in log
    with out.open() as file:
        rows = list(csv.DictReader(file))
    text = [row for row in rows if row["kind"] == "text"]
    assert {row["outcome"] for row in text} == {"run ended", "reported"}
    assert all("damaged, cut off, or no video" in row["reason"] for row in text)
    assert {row["outcome"] for row in rows if row["kind"] == "one_frame"} == {"read"}


def test_killed_preparation_resumes(run, tmp_path) -> None:
    pytest.importorskip("av", minversion="18")  # which writes rotation tags
    out = tmp_path / "prepared.json"
    command = [sys.executable, "-W", "ignore", "-m", "stress.prepare_videos"]
    process = run(*command, "--videos", 10, "--kills", 1, "--out", out)
    log = process.communicate(timeout=600)[0]
    assert process.returncode == 0, log
    figures = json.loads(out.read_text())
    assert figures["faults"] == []
    assert 5 <= figures["complete_at_last_kill"] < 10
