"""The design page shows the subpackages with their rules of import, and code as it is."""

import ast
import re
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


def test_the_walks_name_what_is_there() -> None:
    """Files, classes, methods and functions of the walks of a request, a row and a source."""
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    walks = page.partition("## A request")[2].partition("## Subpackages")[0]
    words = {*re.findall(r"`([\w./]*\w)/?`", walks)}
    words |= {*re.findall(r"^ *([\w/]+\.py|[A-Z]\w+\.\w+)\b", walks, re.M)}
    words -= {"data/importers/NAME.py", ".txt", ".csv"}
    members: dict[str, set[str]] = {}  # methods and bases of each class, no names of a function
    files = [*(ROOT / "mmvidformer").rglob("*")]
    for path in (path for path in files if path.suffix == ".py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                names = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
                bases = {ast.unparse(base) for base in getattr(node, "bases", ())}
                members.setdefault(node.name, set()).update(names, bases)
    paths = {f"/{path.relative_to(ROOT).as_posix()}" for path in files}

    def is_there(word: str) -> bool:
        owner, _, name = word.rpartition(".")
        if owner[:1].isupper():
            return has_method(members, owner, name)
        is_path = any(path.endswith((f"/{word}", f"/{word}.py")) for path in paths)
        return is_path or name in members and (not owner or is_there(owner))

    assert len(words) > 50
    assert [word for word in sorted(words) if not is_there(word)] == []


def has_method(members: dict[str, set[str]], owner: str, name: str) -> bool:
    """Whether a class, or one that it inherits from, has a method."""
    names = members.get(owner, set())
    return name in names or any(has_method(members, base, name) for base in names & {*members})
