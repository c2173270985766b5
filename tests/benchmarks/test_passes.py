"""The table of what passes save: its counts, not its times."""

import json
import subprocess

import pytest

from benchmarks import passes

TINY = dict(arch=dict(embed_dims=16, depth=1, num_heads=2), img_size=112, clip_len=8)


def test_counts_of_the_passes(monkeypatch: pytest.MonkeyPatch, tmp_path, capsys) -> None:
    monkeypatch.setattr(passes, "SIZE", TINY)
    cases = {case.name: case for case in passes.list_cases() if case.counted}
    counts = {
        name: [passes.counts_of(run) for run in (case.plain, case.fast)]
        for name, case in cases.items()
        if name in ("prefix_only", "regrouped_once", "recompute, activations", "shared_frames")
    }
    assert len(counts) == 4

    def numbers(name: str, column: str) -> list[float]:
        return [float(row[column]) for row in counts[name]]

    for name, column in (
        ("prefix_only", "GFLOP"),
        ("regrouped_once", "operators"),
        ("shared_frames", "operators"),
    ):
        plain, fast = numbers(name, column)
        assert fast < plain, name
    assert numbers("regrouped_once", "GFLOP")[0] == numbers("regrouped_once", "GFLOP")[1] > 0


def test_the_least_times_of_rounds_and_checkouts(
    monkeypatch: pytest.MonkeyPatch, tmp_path, capsys
) -> None:
    outputs = iter(["5.0", "9.0", "4.0", "8.0"])

    def run(command: list[str], env: dict, **options: object) -> subprocess.CompletedProcess:
        row = {"pass": "a", "way": "plain", "ms": next(outputs)}
        return subprocess.CompletedProcess(command, 0, stdout=json.dumps([row]))

    monkeypatch.setattr(passes.subprocess, "run", run)
    table = tmp_path / "passes.csv"
    passes.main(["--before", str(tmp_path), "--rounds", "2", "--out", str(table)])
    assert table.read_text().splitlines()[1:] == ["a,plain,,,,4.0", "a,before: plain,,,,8.0"]
    with pytest.raises(SystemExit):
        passes.main(["--out", str(table)])
