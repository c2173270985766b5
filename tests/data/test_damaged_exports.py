"""Exports with parts of other types."""

import json
from pathlib import Path

import pytest

from mmvidformer.data.importers import open_annotations
from mmvidformer.errors import UserError
from tests.data.exports import (
    KINETICS_JSON,
    MINIMAL,
    RECTANGLE,
    VIA,
    choose,
    damage,
    paths_in,
    task_of,
    timeline,
)


@pytest.mark.parametrize(
    ("part", "value", "error"),
    [
        (("result",), 5, "result must be a list of objects, got 5"),
        (("result", 0, "value", "ranges", 0, "end"), "x", "end must be a number, got x"),
        (("result", 0, "value", "timelinelabels"), [1], "timelinelabels must be a list of texts"),
        (("result", 1, "value", "sequence", 1, "width"), None, "width must be a number, got None"),
        (("result", 1, "value"), [], r"value must be an object, got \[\]"),
    ],
)
def test_a_field_of_another_type_is_named(part, value, error, folder: Path) -> None:
    task = task_of(timeline(1, 6), RECTANGLE)
    (folder / "a.json").write_text(json.dumps(damage(task, ("annotations", 0, *part), value)))
    with pytest.raises(UserError, match=f"a.json, task 1: {error}"):
        open_annotations(folder / "a.json")


@pytest.mark.parametrize(
    "content",
    [[task_of(RECTANGLE, timeline(1, 6), choose("a", id="r1"))], [MINIMAL], VIA, KINETICS_JSON],
    ids=["label-studio", "minimal", "via", "kinetics"],
)
def test_damaged_exports_are_mistakes_of_users(content: object, folder: Path) -> None:
    """Whatever part is of another type: it is named in a line, or not needed."""
    refused = 0
    for path in paths_in(content):
        for part in (None, "x", -1, [], {}):
            (folder / "a.json").write_text(json.dumps(damage(content, path, part)))
            try:
                open_annotations(folder / "a.json")
            except UserError as error:
                assert "\n" not in str(error)
                refused += 1
    assert refused > 10
