"""The command ``mmvidformer``."""

import os
import subprocess
import sys
import warnings
from argparse import ArgumentParser
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import mmvidformer.cli
from lab.__main__ import LAB
from mmvidformer import list_models
from mmvidformer.__main__ import COMMANDS, MMVIDFORMER, Program, main
from mmvidformer.checkpoints import published

CLI = Path(mmvidformer.cli.__file__).parent


def modules(commands: dict, *group: str) -> Iterator[str]:
    for name, title in commands.items():
        if isinstance(title, dict):
            yield from modules(title, *group, name)
        else:
            yield "/".join([*group, f"{name}.py"])


def test_each_module_with_a_main_is_a_command() -> None:
    files = [path for path in CLI.rglob("*.py") if "\ndef main(" in path.read_text()]
    names = [str(path.relative_to(CLI)) for path in files]
    assert sorted(modules(COMMANDS)) == sorted(x for x in names if not x.endswith("__init__.py"))


ALL = [
    pytest.param(program, module, id=f"{program.name} {module}")
    for program in (MMVIDFORMER, LAB)
    for module in modules(program.commands)
]


@pytest.mark.parametrize("program, module", ALL)
def test_the_help_begins_with_the_title(program: Program, module: str) -> None:
    *group, name = module.removesuffix(".py").split("/")
    title = (program.commands[group[0]] if group else program.commands)[name]
    text = import_module(".".join([program.room, *group, name])).__doc__
    usage = " ".join([program.name, *group, name])
    assert text.startswith((f"{title}.", f"{title}: {usage} "))


@pytest.mark.parametrize(
    "arguments, group, status",
    [([], None, 2), (["--help"], None, 0), (["data"], "data", 2), (["plot", "-h"], "plot", 0)],
)
def test_the_commands_are_listed_with_titles(arguments, group, status, capsys) -> None:
    assert main(arguments) == status
    usage, _, *rows, _, _ = capsys.readouterr().out.splitlines()
    assert usage == f"usage: mmvidformer{f' {group}' if group else ''} COMMAND [arguments]"
    commands = COMMANDS[group] if group else COMMANDS
    assert [row.split()[0] for row in rows] == list(commands)
    assert all(len(row.split()) > 2 and len(row) < 100 for row in rows)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["trian"], "no command named 'trian'; did you mean train? choose from convert, count"),
        (["data", "lst"], "no command named 'lst'; did you mean list? choose from check"),
        (["plto"], "no command named 'plto'; did you mean plot? choose from convert"),
        (["xyz"], "no command named 'xyz'; choose from convert"),
        (
            ["demo", "camera_moton"],
            "no shipped config named 'camera_moton'; did you mean camera_mo",
        ),
        (["count", "vivit_fe"], "no shipped config named 'vivit_fe'; did you mean"),
    ],
)
def test_mistakes_are_named(arguments: list[str], message: str, capsys, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["mmvidformer"])
    assert main(arguments) == 2
    assert f"error: {message}" in capsys.readouterr().err


def test_version(capsys) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"mmvidformer {mmvidformer.__version__}\n"


# Words that say of themselves what a value is.
NOUNS = set(
    "BY CHECKPOINT CLASSES CONFIG DATA DEVICE HOST INPUT LICENSE METRIC METRICS PORT RESUME SCHEME "
    "TASK".split()
)


@pytest.mark.parametrize("program, module", ALL)
def test_the_help_says_what_a_value_is(program: Program, module: str, monkeypatch) -> None:
    """Seconds, a file or a number, not the name of the option again; and each option has a help."""
    parsers: list[ArgumentParser] = []
    monkeypatch.setattr(ArgumentParser, "print_help", lambda self: parsers.append(self))
    words = module.removesuffix(".py").split("/")
    with pytest.raises(SystemExit):
        import_module(".".join([program.room, *words])).main(["--help"])
    for action in parsers[0]._actions:
        assert action.help, f"{action.option_strings or action.dest} has no help"
        has_value = action.option_strings and action.nargs != 0 and not action.choices
        assert not has_value or action.metavar or action.dest.upper() in NOUNS, (
            action.option_strings
        )


def test_a_command_runs_under_its_name(capsys, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["mmvidformer", "count", "vivit_fe_k400"])
    assert main() == 0
    assert "vivit_fe_k400" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["paper", "--help"], LAB)
    assert "usage: python -m lab paper" in capsys.readouterr().out


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
    assert main(["models", "videomae", "--pretrained"]) == 0
    assert "published://videomae-base" in capsys.readouterr().out
    assert main(["models", "diving"]) == 0
    assert "timesformer_b_diving48" in capsys.readouterr().out
    assert main(["models", "resnet"]) == 1
    assert capsys.readouterr().err == "error: no name has 'resnet' in it\n"


def test_weights_of_a_license(capsys) -> None:
    """Of configs, and those that no config has; whatever the case of the letters."""
    assert main(["models", "--license", "apache-2.0"]) == 0
    rows = [line.split("│")[1:-1] for line in capsys.readouterr().out.splitlines()]
    licenses = {row[0].strip(): row[-1].strip() for row in rows if row}
    assert set(licenses.values()) == {"Apache-2.0"}
    assert {"vivit_fe_k400", "published://videoprism-base-f16r288"} <= licenses.keys()
    assert len(licenses) == sum(row.license == "Apache-2.0" for row in published.rows())
    assert main(["models", "streamformer", "--license", "apache-2.0"]) == 1
    assert main(["models", "--license", "gpl"]) == 1
    assert "no weights have the license 'gpl'; there are Apache-2.0" in capsys.readouterr().err


def test_a_config_of_mmaction2_brings_no_warnings_of_packages(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["mmvidformer"])
    base = "recognition/timesformer/timesformer_divST_8xb8-8x32x1-15e_kinetics400-rgb.py"
    arch = dict(embed_dims=32, depth=1, num_heads=2)
    backbone = dict(_delete_=True, type="mmvidformer.TimeSformer", arch=arch, clip_len=8)
    model = dict(backbone=backbone, cls_head=dict(in_channels=32))
    path = tmp_path / "config.py"
    path.write_text(f'_base_ = "mmaction::{base}"\nmodel = {model}\n')
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert main(["count", str(path)]) == 0
    assert not [one for one in caught if "pkg_resources" in str(one.message)]


@pytest.mark.parametrize("command", ["check", "prepare"])
def test_commands_of_data_need_a_worker(command: str, capsys) -> None:
    with pytest.raises(SystemExit) as end:
        main(["data", command, "x", *(["y"] if command == "prepare" else []), "--workers", "0"])
    assert end.value.code == 2
    assert "--workers: must be a whole number of at least 1, got '0'" in capsys.readouterr().err


def test_an_interrupt_while_a_command_is_imported_is_a_line(monkeypatch, capsys) -> None:
    def interrupt(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mmvidformer.__main__.import_module", interrupt)
    assert main(["train", "x"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["data"], ["count", "--help"]])
def test_a_list_whose_reader_has_gone_ends_without_a_word(arguments) -> None:
    code = "import sys; sys.stdin.read(); from mmvidformer.__main__ import main; sys.exit(main())"
    streams = dict.fromkeys(["stdin", "stdout", "stderr"], subprocess.PIPE)
    buffered = os.environ | {"PYTHONUNBUFFERED": ""}
    command = [sys.executable, "-c", code, *arguments]
    with subprocess.Popen(command, env=buffered, **streams) as process:
        process.stdout.close()
        process.stdin.close()
        assert (process.stderr.read(), process.wait(600)) == (b"", 141)
