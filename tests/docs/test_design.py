"""The design page shows the subpackages with their rules of import, and code as it is."""

import ast
from pathlib import Path

import pytest

from benchmarks.pictures import rooms
from benchmarks.pictures.__main__ import FOLDER, PICTURES

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_up_to_date(name: str) -> None:
    """If this fails, run python -m benchmarks.pictures. ``rooms`` follows the rules of import."""
    text = (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    assert PICTURES[name]().render() == text
    assert len(text) < 60_000


def test_the_picture_has_all_rooms_above_what_they_import() -> None:
    """Lines lead from each room down to all that it may import."""
    rules = rooms.read_rules()
    assert rules.keys() == rooms.ROOMS.keys()

    def below(room: str) -> set[str]:
        lines = rooms.direct(room, rules)
        return lines.union(*map(below, lines))

    for room, imports in rules.items():
        assert imports <= below(room)
        assert room not in below(room)


def test_the_block_is_printed_as_a_whole() -> None:
    """By the numbers of its lines; the models are printed by file."""
    path = "mmvidformer/layers/block.py"
    classes = [node for node in ast.parse((ROOT / path).read_text()).body if hasattr(node, "bases")]
    page = (ROOT / "docs" / "design.md").read_text()
    assert [part.name for part in classes] == ["TransformerBlock", "AttentionSubLayer"]
    for part in classes:
        assert f'--8<-- "{path}:{part.lineno}:{part.end_lineno}"' in page
    for name in ("vivit", "timesformer", "feature_fixation"):
        assert f'--8<-- "mmvidformer/models/{name}.py"' in page
