"""The design page lists the subpackages and their rules of import."""

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
