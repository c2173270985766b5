"""Results of benchmarks are written over nothing that they read."""

import re
from argparse import ArgumentParser
from pathlib import Path

import pytest

from benchmarks.outputs import parse_with_results, with_suffixes

FOLDER = Path(__file__).parents[2] / "benchmarks"
# Their folder is their own, which they make or go on with.
OF_A_FOLDER = {"gpu_check.py", "real_videos.py"}


def parse(results, *argv: object):
    parser = ArgumentParser()
    parser.add_argument("videos", nargs="*")
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--out", type=Path)
    return parse_with_results(parser, [*map(str, argv)], results)


@pytest.mark.parametrize("force", [[], ["--force"]])
@pytest.mark.parametrize("argv", [["a.csv"], ["b.csv", "a.csv"], ["--rows", "a.csv"]])
def test_what_is_read_is_not_written_over(argv, force, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.csv", "b.csv"):
        Path(name).write_text(name)
    for results, out in ((with_suffixes(""), "a.csv"), (with_suffixes(".png", ".csv"), "a")):
        with pytest.raises(SystemExit, match="2"):
            parse(results, *argv, "--out", out, *force)
        assert "a result would be written over a.csv, which is read" in capsys.readouterr().err
    assert Path("a.csv").read_text() == "a.csv"


def test_results_that_are_there_need_force(tmp_path, capsys) -> None:
    (tmp_path / "a.csv").touch()
    results, out = with_suffixes(".csv"), ["--out", tmp_path / "a"]
    with pytest.raises(SystemExit, match="2"):
        parse(results, *out)
    assert "exists already; --force replaces it" in capsys.readouterr().err
    assert parse(results, *out, "--force").out == tmp_path / "a"
    assert parse(results).out is None


def test_all_benchmarks_ask() -> None:
    def has_out(text: str) -> bool:
        return re.search(r'add_argument\(\s*"(--out|out)"', text) is not None

    texts = {path.name: path.read_text() for path in FOLDER.glob("*.py")}
    with_out = {name for name, text in texts.items() if has_out(text)} - OF_A_FOLDER
    assert len(with_out) > 15
    assert with_out <= {name for name, text in texts.items() if "parse_with_results" in text}
