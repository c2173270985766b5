"""Look-ups by name, and what is built from names and options."""

import pytest

from mmvidformer.lookup import Registry, look_up


def plain(width: int, scale: float = 1.0) -> tuple:
    return width, scale


def strict(width: int, size: int, count: int = 1) -> tuple:
    return width, size, count


def open_ended(width: int, **options: object) -> tuple:
    return width, options


TABLE = Registry("part", {"plain": plain, "strict": strict, "open": open_ended, "value": 3}, object)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("plain", (8, 1.0)),
        (dict(type="plain", scale=2), (8, 2)),
        (dict(type="open", anything=1), (8, {"anything": 1})),
    ],
)
def test_functions_get_options(choice: str | dict, expected: tuple) -> None:
    assert TABLE.build(choice, width=8) == expected


def test_values_are_returned() -> None:
    assert TABLE.build("value") == look_up(TABLE, "value", "part") == 3


@pytest.mark.parametrize(
    ("choice", "error", "message"),
    [
        (
            "plane",
            KeyError,
            "no part named 'plane'; did you mean plain. choose from open, plain, strict, value",
        ),
        (dict(scale=2), KeyError, "no part named None"),
        (
            dict(type="plain", scael=2),
            ValueError,
            "^part plain has no option scael; .*are: scale$",
        ),
        (dict(type="plain", width=2), ValueError, "has no option width"),  # it is given
        (
            dict(type="strict", count=2),
            ValueError,
            "strict needs the option size; .*: size, count$",
        ),
        (
            dict(type="value", scale=2),
            ValueError,
            "part value has no option scale; .*are: none$",
        ),
    ],
)
def test_what_is_wrong_is_named(choice: str | dict, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        TABLE.build(choice, **({} if "value" in str(choice) else {"width": 8}))


def test_options_of_a_choice_are_kept() -> None:
    choice = dict(type="plain", scale=2)
    TABLE.build(choice, width=8)
    assert choice == dict(type="plain", scale=2)


def test_entries_are_registered_once() -> None:
    table = Registry("part", {}, object)

    def define() -> type:
        @table.register("new")
        class New:
            def __init__(self, width: int = 1) -> None:
                self.width = width

        return New

    define()
    again = define()  # as in a cell of a notebook that is run twice
    assert type(table.build(dict(type="new", width=3))) is again
    with pytest.raises(KeyError, match="there is another part named 'new'; choose another name"):
        table.register("new")(plain)
