"""The notebooks run as they are, without magics and in any folder."""

import ast
import importlib
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
# What has to be so at the end.
RESULTS = {
    "classify.ipynb": (
        "assert prediction.top(1)[0][1] == 'pan left'\nassert len(strips[0].frames) == 8\n"
        # The video's zoom out is slow: 0.056, where 0.05 is static.
        "assert len({segment.label for segment in list_segments(windows)}) >= 8"
    ),
    # Chance is a quarter.
    "finetune.ipynb": "assert right > len(tested) / 2 and prediction.top(1)[0][1] == 'up'",
}
# What each code cell shows.
TEXT, PICTURE = "stream", "display_data"
SHOWN = {
    "classify.ipynb": ([], [TEXT], [TEXT], [TEXT, PICTURE], [PICTURE]),
    "finetune.ipynb": ([TEXT], [PICTURE], [TEXT], [TEXT], [PICTURE], [TEXT], [TEXT]),
}
MOST_BYTES = 300_000


def code_cells(name: str) -> list[dict]:
    cells = json.loads((NOTEBOOKS / name).read_text())["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def test_all_notebooks_are_listed() -> None:
    assert {path.name for path in NOTEBOOKS.iterdir()} == {*RESULTS}


@pytest.mark.parametrize("name", RESULTS)
def test_stored_outputs(name: str) -> None:
    """A notebook shows all that it prints and draws, is small, and names no folder of a machine."""
    code = code_cells(name)
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [cell["outputs"] for cell in code]
    assert tuple([output["output_type"] for output in shown] for shown in outputs) == SHOWN[name]
    printed = "".join(line for shown in outputs for one in shown for line in one.get("text", []))
    assert not re.search(r"(?<![\w./])/\w", printed)
    assert (NOTEBOOKS / name).stat().st_size < MOST_BYTES


@pytest.mark.parametrize("name", RESULTS)
def test_what_a_notebook_imports_is_there(name: str) -> None:
    """The whole of one is run by slow tests alone."""
    code = "\n".join("".join(cell["source"]) for cell in code_cells(name))
    imports = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.ImportFrom)]
    names = [(node.module, alias.name) for node in imports for alias in node.names]
    assert any(module.startswith("mmvidformer") for module, _ in names)
    assert all(hasattr(importlib.import_module(module), name) for module, name in names), names


@pytest.mark.parametrize(
    "name", ["classify.ipynb", pytest.param("finetune.ipynb", marks=pytest.mark.slow)]
)
def test_notebook_runs(name: str, run: Callable, tmp_path: Path) -> None:
    code = code_cells(name)
    text = "\n".join("".join(cell["source"]) for cell in code)
    (tmp_path / "notebook.py").write_text(f"{text}\n{RESULTS[name]}\n")
    process = run(sys.executable, tmp_path / "notebook.py", MPLBACKEND="agg", TMPDIR=tmp_path)
    printed = process.communicate(timeout=600)[0]
    assert process.returncode == 0, printed
