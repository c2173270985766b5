"""Code of README and docs: Python runs, and commands name what exists."""

import argparse
import ast
import importlib
import importlib.util
import re
import runpy
import sys
from functools import cache
from pathlib import Path

import pytest
import torch

import mmvidformer
from lab.__main__ import LAB
from mmvidformer.__main__ import MMVIDFORMER
from tests.docs.blocks import Block, inline_commands, is_shell, read_blocks, split_commands

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "AGENTS.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = {str(page.relative_to(ROOT)): read_blocks(page, ROOT) for page in PAGES}

# Blocks that need a file or variables that the page does not make: (page, text of the block).
STATIC = [
    ("README.md", "Recognizer("),
    ("docs/export.md", "onnxruntime.InferenceSession"),
    ("docs/export.md", "session.get_inputs"),
    ("docs/export.md", "make_graph("),
    ("docs/export.md", "tritonclient"),
    ("docs/export.md", "openvino"),
    ("docs/horst.md", "kitchen.mp4"),
    ("docs/camera_motion.md", "Recognizer("),
    ("docs/classify.md", "Recognizer("),
    ("docs/visualization.md", "rollout(backbone.eval(), clip)"),
    ("docs/visualization.md", "attention_matrices(backbone.eval(), clip"),
    ("docs/checkpoints.md", "read_model("),
    ("docs/checkpoints.md", "Recognizer("),
    ("docs/label.md", "read_parquet"),
    ("docs/python.md", "pretrained=True"),
    ("docs/serve.md", "urlopen("),
    ("docs/web.md", "gradio_client"),  # run by tests/web
    ("docs/python.md", "import mteb"),
    ("docs/tasks.md", "Recognizer("),
]
# Packages that the tests may lack: a block that imports one is left out then.
UNTESTED = ("mteb", "tritonclient", "openvino")
# Models of full size: run on the meta device, which computes shapes alone.
SHAPES = [
    ("docs/timesformer.md", 'TimeSformer("b"'),
    ("docs/vivit.md", 'ViViT("b"'),
    ("docs/feature_fixation.md", "FeatureFixationTransformer("),
    ("docs/horst.md", "Horst(128"),
]
# Scripts of MMAction2's users: the command whose options they pass on.
PASS_ON = {
    "tools/train.py": "mmvidformer.cli.train",
    "tools/test.py": "mmvidformer.cli.test",
    "tools/dist_train.sh": "mmvidformer.cli.train",
    "tools/dist_test.sh": "mmvidformer.cli.test",
    "tools/slurm_train.sh": "mmvidformer.cli.train",
    "tools/slurm_test.sh": "mmvidformer.cli.test",
}


def marked(block: Block, table: list[tuple[str, str]]) -> bool:
    return any(block.page == page and text in block.text for page, text in table)


def python_blocks(page: str) -> list[Block]:
    return [block for block in BLOCKS[page] if block.language == "python"]


def shell_blocks(page: Path) -> list[Block]:
    name = str(page.relative_to(ROOT))
    return [b for b in BLOCKS[name] if is_shell(b)] + inline_commands(page, ROOT)


@pytest.mark.parametrize("page", [page for page in BLOCKS if python_blocks(page)])
def test_python_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page share their names, as a reader would type them."""
    monkeypatch.chdir(tmp_path)  # some write files
    from mmvidformer.layers import KERNELS, MLPS, NORMS, PATTERNS, POSITIONS
    from mmvidformer.models import timesformer

    names: dict[str, object] = {"__name__": "page"}
    registries = (KERNELS, MLPS, NORMS, PATTERNS, POSITIONS)
    tables = [(table, dict(table)) for table in (*registries, timesformer.SCHEMES)]
    try:
        for block in python_blocks(page):
            code = compile(block.text, str(block), "exec")
            if marked(block, STATIC):
                if not lacks_extra(block):
                    check_imports(block)
                continue
            with torch.device("meta" if marked(block, SHAPES) else "cpu"):
                exec(code, names)
    finally:
        for table, before in tables:
            table.clear()
            table.update(before)


def lacks_extra(block: Block) -> bool:
    return any(
        f"import {extra}" in block.text and not importlib.util.find_spec(extra)
        for extra in UNTESTED
    )


def check_imports(block: Block) -> None:
    """Names that a block imports exist."""
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(node.module)
            for alias in node.names:
                assert hasattr(module, alias.name), f"{block}: {node.module} has no {alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                assert importlib.util.find_spec(alias.name), f"{block}: no module {alias.name}"


@pytest.mark.parametrize("table", [STATIC, SHAPES], ids=["static", "shapes"])
def test_tables_name_blocks(table: list[tuple[str, str]]) -> None:
    for page, text in table:
        found = [block for block in BLOCKS[page] if text in block.text]
        assert found, f"no block of {page} holds {text!r}"


@cache
def parser_of(script: str) -> argparse.ArgumentParser:
    """The parser of a command or a tool, caught as it starts to read its arguments."""

    class Caught(Exception):
        pass

    def catch(self, *arguments, **options):
        raise Caught(self)

    kind, names = argparse.ArgumentParser, ("parse_args", "parse_intermixed_args")
    saved = sys.argv, [getattr(kind, name) for name in names]
    sys.argv, kind.parse_args, kind.parse_intermixed_args = [script], catch, catch
    try:
        if script.startswith(("mmvidformer.", "lab.")):
            importlib.import_module(script).main([])
        else:
            runpy.run_path(str(ROOT / script), run_name="__main__")
    except Caught as caught:
        return caught.args[0]
    finally:
        sys.argv, (kind.parse_args, kind.parse_intermixed_args) = saved
    raise AssertionError(f"{script} reads no arguments")


def options_of(script: str, words: list[str]) -> set[str]:
    """Options of a tool, those of the subcommand among ``words`` included."""
    parsers, found = [parser_of(script)], set()
    while parsers:
        parser = parsers.pop()
        for action in parser._actions:
            found.update(action.option_strings)
            if isinstance(action, argparse._SubParsersAction):
                named = [action.choices[word] for word in words if word in action.choices]
                assert named, f"{script} needs one of {sorted(action.choices)}"
                parsers += named
    return found


def check_command(block: Block, words: list[str]) -> None:
    if words[:3] == ["python", "-m", "lab"]:
        words = ["lab", *words[3:]]
    if words[0] in ("python", "bash") and len(words) > 1 and not words[1].startswith("-"):
        words = words[1:]
    script = words[0]
    if script in ("mmvidformer", "lab"):
        _, room, commands = MMVIDFORMER if script == "mmvidformer" else LAB
        words, script = words[1:], room
        if words in ([], ["--help"]):
            return
        while isinstance(commands, dict):
            assert words[0] in commands, f"{block}: no command {words[0]}"
            script, commands, *words = f"{script}.{words[0]}", commands[words[0]], *words[1:]
        words = ["mmvidformer", *words]
    elif script.startswith("tools/"):
        assert (ROOT / script).is_file(), f"{block}: {script} does not exist"
        script = PASS_ON.get(script, script)
    else:
        return
    if not script.endswith(".sh"):
        known = options_of(script, words)
        for word in words[1:]:
            if re.match(r"--?[a-zA-Z]", word):
                option = word.split("=")[0]
                assert option in known, f"{block}: {script} has no option {option}"
    if script == "lab.paper":  # names of tables and rows
        return
    for word in words[1:]:
        if re.fullmatch(r"configs/\w+\.py", word) and "CONFIG" not in word:
            assert (ROOT / word).is_file(), f"{block}: {word} does not exist"
        elif re.match(r"(vivit|timesformer|horst|feature_fixation|camera)_\w+$", word):
            assert word in mmvidformer.list_models(), f"{block}: no config {word}"
    check_settings(block, words)


def check_settings(block: Block, words: list[str]) -> None:
    """Settings behind ``--cfg-options`` go to dictionaries that the named config has."""
    stems = [Path(word).stem for word in words[1:] if "=" not in word]
    named = [stem for stem in stems if stem in mmvidformer.list_models()]
    if not named:
        return
    cfg = mmvidformer.get_config(named[0])
    for word in words:
        match = re.fullmatch(r"([a-z_]+(?:\.[a-z_]+)+)=.*", word)
        if match is None:
            continue
        *parents, _ = match[1].split(".")
        node = cfg
        for parent in parents:
            assert parent in node, f"{block}: {named[0]} has no {parent} of {match[1]}"
            node = node[parent]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_exist(page: Path) -> None:
    for block in shell_blocks(page):
        for words in split_commands(block.text):
            check_command(block, words)


def test_commands_are_found_and_wrong_ones_are_told() -> None:
    text = "tools/dist_train.sh vivit_fe_k400 2 \\\n  --amp bf16\nX=1 python tools/test.py C W"
    words = split_commands(text)
    assert words == [
        ["tools/dist_train.sh", "vivit_fe_k400", "2", "--amp", "bf16"],
        ["python", "tools/test.py", "C", "W"],
    ]
    block = Block("page", 1, "bash", text)
    check_command(block, words[0])
    for wrong, said in (
        (["python", "tools/no.py"], "does not exist"),
        (["mmvidformer", "data", "chekc"], "no command chekc"),
        (["mmvidformer", "train", "vivit_fe_k400", "--proc", "2"], "no option --proc"),
        (["tools/dist_test.sh", "vivit_fe_k400", "w.pth", "--vews", "4x3"], "no option --vews"),
        (["python", "tools/train.py", "vivit_fe_k401"], "no config vivit_fe_k401"),
        (["python", "tools/train.py", "vivit_fe_k400", "model.bone.x=1"], "has no bone"),
    ):
        with pytest.raises(AssertionError, match=said):
            check_command(block, wrong)
    assert len(shell_blocks(ROOT / "README.md")) > 2
