"""The command ``mmvidformer``."""

import sys
from pathlib import Path

import pytest

from mmvidformer import list_models
from mmvidformer.__main__ import SCRIPTS, main
from mmvidformer.lookup import config_folder

TOOLS = config_folder().parent / "tools"


def paths(scripts: dict) -> list[str]:
    lists = [paths(value) if isinstance(value, dict) else [value] for value in scripts.values()]
    return [path for one in lists for path in one]


def test_each_script_is_a_command() -> None:
    there = {str(path.relative_to(TOOLS)) for path in TOOLS.rglob("*.py")}
    # Some are not in the wheel.
    there -= {"analysis/memory.py", "benchmark_data.py", "verify_published.py"}
    assert sorted(paths(SCRIPTS)) == sorted(there)


@pytest.mark.parametrize(
    "arguments, group, status",
    [([], None, 2), (["--help"], None, 0), (["data"], "data", 2), (["plot", "-h"], "plot", 0)],
)
def test_the_commands_are_listed_with_titles(arguments, group, status, capsys) -> None:
    assert main(arguments) == status
    usage, _, *rows, _, _ = capsys.readouterr().out.splitlines()
    assert usage == f"usage: mmvidformer{f' {group}' if group else ''} COMMAND [arguments]"
    commands = SCRIPTS[group] if group else SCRIPTS
    assert [row.split()[0] for row in rows] == list(commands)
    assert all(len(row.split()) > 2 and len(row) < 100 for row in rows)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["trian"], "no command named 'trian'; choose from convert, count"),
        (["data", "chekc"], "no command named 'chekc'; choose from check"),
        (["count", "vivit_fe"], "no shipped config named 'vivit_fe'; did you mean"),
    ],
)
def test_mistakes_are_named(arguments: list[str], message: str, capsys, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["mmvidformer"])
    assert main(arguments) == 2
    assert f"error: {message}" in capsys.readouterr().err


def test_a_script_runs_under_the_name_of_the_command(capsys, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["mmvidformer", "count", "vivit_fe_k400"])
    assert main() == 0
    assert "vivit_fe_k400" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["paper", "--help"])
    assert "usage: mmvidformer paper" in capsys.readouterr().out


def test_models_are_listed_with_their_published_weights(capsys, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["mmvidformer"])
    assert main(["models", "timesformer_*_k400", "--pretrained"]) == 0
    rows = [line.split("│")[1:-1] for line in capsys.readouterr().out.splitlines()]
    rows = [[cell.strip() for cell in row] for row in rows if row]
    names = [row[0] for row in rows]
    assert names == list_models("timesformer_*_k400", pretrained=True)
    row = rows[names.index("timesformer_b_k400")]
    assert row[1:] == [
        "8x224x224", "121.6", "195.6", "top-1 77.9, top-5 93.2 with 1 x 3 views", "CC-BY-NC-4.0",
    ]  # fmt: skip
    assert main(["models", "diving"]) == 0
    assert "timesformer_b_diving48" in capsys.readouterr().out
    assert main(["models", "resnet"]) == 1
    assert capsys.readouterr().err == "error: no name has 'resnet' in it\n"
