"""The design page lists the subpackages and their rules of import."""

import ast
import re
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_rules_of_import() -> None:
    allowed = runpy.run_path(str(ROOT / "tests" / "test_architecture.py"))["ALLOWED"]
    page = (ROOT / "docs" / "design.md").read_text()
    table = page.partition("| subpackage |")[2].partition("\n\n")[0]
    rows = [line.strip("| ").split("|") for line in table.splitlines()[2:]]
    written = {row[0].strip(" `"): set(re.findall(r"`(\w+)`", row[-1])) for row in rows}
    assert written == allowed


def test_the_block_is_printed_as_a_whole() -> None:
    """By the numbers of its lines; the models are printed by file."""
    path = "mmvidformer/layers/encoder.py"
    classes = [node for node in ast.parse((ROOT / path).read_text()).body if hasattr(node, "bases")]
    (block,) = (node for node in classes if node.name == "TransformerBlock")
    page = (ROOT / "docs" / "design.md").read_text()
    assert f'--8<-- "{path}:{block.lineno}:{block.end_lineno}"' in page
    for name in ("vivit", "timesformer", "feature_fixation"):
        assert f'--8<-- "mmvidformer/models/{name}.py"' in page
