"""The notebooks run as they are, without magics and in any folder."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
# What has to be so at the end.
RESULTS = {
    "classify.ipynb": (
        "assert prediction.top(1)[0][1] == 'pan left'\nassert len(strips[0].frames) == 8\n"
        # The film's zoom out is slow: 0.056, where 0.05 is static.
        "assert len({segment.label for segment in list_segments(windows)}) >= 8"
    ),
    "finetune.ipynb": (
        "first, second = (results[name]['acc/top1'] for name in names)\n"
        "assert first > 0.6 > 0.5 > second"
    ),
}


def code_cells(name: str) -> list[dict]:
    cells = json.loads((NOTEBOOKS / name).read_text())["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def test_all_notebooks_are_listed() -> None:
    assert {path.name for path in NOTEBOOKS.iterdir()} == {*RESULTS}


def test_stored_outputs() -> None:
    """One notebook shows all that it prints and draws; the other's depend on shipped weights."""
    code = code_cells("finetune.ipynb")
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    kinds = [output["output_type"] for output in outputs]
    assert sorted(kinds) == ["display_data"] + ["stream"] * 4
    printed = "".join(line for output in outputs for line in output.get("text", []))
    assert all(f"{name} " in printed for name in ("vivit_fe_motion", "vivit_avgpool_motion"))
    assert all(cell["outputs"] == [] for cell in code_cells("classify.ipynb"))


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
