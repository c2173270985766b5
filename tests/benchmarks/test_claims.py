"""The rule of the claims, by values, and the table of docs/papers.md that follows from it."""

import re
from collections.abc import Callable, Sequence

import pytest
import yaml


@pytest.mark.parametrize(
    "pairs, word",
    [
        ([[0.08, 0.10, 0.12]], "shown"),  # 10.0 ± 5.0
        ([[0.03, 0.05, 0.07]], "shown"),  # 5.00 ± 4.97
        ([[0.02, 0.04, 0.06]], "undecided"),  # 4.00 ± 4.97
        ([[-0.02, -0.04, -0.06]], "undecided"),
        ([[-0.03, -0.05, -0.07]], "contradicted"),
        ([[0.0, 0.0, 0.0]], "equal"),
        ([[-0.008, 0.0, 0.008]], "equal"),  # 0.0 ± 1.99
        ([[-0.0081, 0.0, 0.0081]], "undecided"),  # 0.0 ± 2.01
        ([[0.08, 0.10, 0.12], [0.08, 0.10, 0.12]], "shown"),
        ([[0.08, 0.10, 0.12], [0.0, 0.0, 0.0]], "undecided"),
        ([[0.08, 0.10, 0.12], [-0.08, -0.10, -0.12]], "contradicted"),
        ([[0.01, 0.09, 0.05, 0.09, 0.01]], "shown"),  # 5.00 ± 4.97 of five seeds
    ],
)
def test_the_rule(pairs: Sequence[Sequence[float]], word: str, load: Callable) -> None:
    assert load("claims").verdict(pairs) == word


def test_the_seeds_that_both_rows_have_decide(load: Callable) -> None:
    """The intervals of the means overlap, 60 ± 50 and 50 ± 50; the difference is 10 ± 4."""
    claims = load("claims")
    first = claims.Measured({"seed 0": 0.4, "seed 1": 0.6, "seed 2": 0.8}, 3)
    second = claims.Measured({"seed 0": 0.31, "seed 1": 0.48, "seed 2": 0.71, "seed 3": 0.99}, 4)
    values = claims.differences(first, second)
    assert values == pytest.approx([0.09, 0.12, 0.09])
    rows = {"a": first, "b": second}
    (*_, line) = claims.table(
        [{"claim": "c", "paper": "p", "was": "undecided", "pairs": {"a − b": ["a", "b"]}}], rows
    ).splitlines()
    assert line == "| c | p | a − b: 10.0 ± 4.3 | 7 | **shown** (was undecided) |"


def test_the_page_has_the_table_of_the_files(load: Callable) -> None:
    page = load("claims").PAGE.read_text("utf-8")
    assert "<!-- claims -->" in page
    assert load("claims").fill_page(page) == page


def test_pairs_have_the_same_budget(load: Callable) -> None:
    file = load("claims").ROOT / "benchmarks" / "claims.yml"
    for claim in yaml.safe_load(file.read_text("utf-8"))["claims"]:
        for first, second in claim["pairs"].values():
            assert re.findall(r"\d+ epochs", first) == re.findall(r"\d+ epochs", second)
