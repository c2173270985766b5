"""The rule of the claims, by values, and the table of reports/claims.md that follows from it."""

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
        ([[0.0, 0.0, 0.0]], "undecided"),
        ([[0.08, 0.10, 0.12], [0.08, 0.10, 0.12]], "shown"),
        ([[0.08, 0.10, 0.12], [0.0, 0.0, 0.0]], "undecided"),
        ([[0.08, 0.10, 0.12], [-0.08, -0.10, -0.12]], "contradicted"),
        ([[0.01, 0.09, 0.05, 0.09, 0.01]], "shown"),  # 5.00 ± 4.97 of five seeds
        ([[0.08, 0.10, 0.12], None], "undecided"),  # both rows of a pair come near 100%
        ([[-0.08, -0.10, -0.12], None], "contradicted"),
        ([None], "undecided"),
    ],
)
def test_the_rule(pairs: Sequence[Sequence[float] | None], word: str, load: Callable) -> None:
    assert load("claims").verdict(pairs) == word


def test_the_seeds_that_both_rows_have_decide(load: Callable) -> None:
    """The intervals of the means overlap, 60 ± 50 and 50 ± 50; the difference is 10 ± 4."""
    claims = load("claims")
    first = claims.Measured({"seed 0": 0.4, "seed 1": 0.6, "seed 2": 0.8}, 3)
    second = claims.Measured({"seed 0": 0.31, "seed 1": 0.48, "seed 2": 0.71, "seed 3": 0.99}, 4)
    values = claims.differences(first, second)
    assert values == pytest.approx([0.09, 0.12, 0.09])
    rows = {"a": first, "b": second}
    claim = {"claim": "c", "paper": "p", "pairs": {"a − b": ["a", "b"]}}
    (*_, line) = claims.table([claim], rows).splitlines()
    assert line == "| c | p | a − b: 10.0 ± 4.3 | 7 | **shown** |"
    (*_, line) = claims.table([{**claim, "by construction": True}], rows).splitlines()
    assert line.endswith("| **shown**, by construction |")


def test_rows_that_both_come_near_100_decide_nothing(load: Callable) -> None:
    claims = load("claims")
    seeds = ("seed 0", "seed 1", "seed 2")
    perfect, good, poor = (
        claims.Measured(dict(zip(seeds, values, strict=True)), 1)
        for values in ([1.0, 1.0, 1.0], [0.95, 0.96, 0.94], [0.90, 0.91, 0.92])
    )
    assert claims.differences(perfect, good) is None
    assert claims.differences(good, poor) == pytest.approx([0.05, 0.05, 0.02])
    claim = {"claim": "c", "paper": "p", "pairs": {"a − b": ["a", "b"]}}
    (*_, line) = claims.table([claim], {"a": perfect, "b": good}).splitlines()
    assert line == "| c | p | a − b: both near 100 | 2 | **undecided** |"


def test_the_page_has_the_table_of_the_files(load: Callable) -> None:
    page = load("claims").PAGE.read_text("utf-8")
    assert "<!-- claims -->" in page
    assert load("claims").fill_page(page) == page


def test_all_pairs_have_the_length_of_their_recipe(load: Callable) -> None:
    """Rows of other lengths, ``NAME, 24 epochs``, are shown but decide nothing."""
    file = load("claims").ROOT / "benchmarks" / "claims.yml"
    for claim in yaml.safe_load(file.read_text("utf-8"))["claims"]:
        for pair in claim["pairs"].values():
            assert not [row for row in pair if re.search(r"\d+ epochs", row)]


def test_all_frames_are_compared(load: Callable) -> None:
    """Each step from two to six frames, which the miniatures of Figure 5 have."""
    file = load("claims").ROOT / "benchmarks" / "claims.yml"
    claims = yaml.safe_load(file.read_text("utf-8"))["claims"]
    (frames,) = [claim for claim in claims if claim["paper"] == "TimeSformer, Figure 5"]
    assert [*frames["pairs"]] == ["3 − 2 frames", "4 − 3 frames", "6 − 4 frames"]
