"""The table of published checkpoints."""

import re
from pathlib import Path

import pytest

from mmvidformer import get_config, list_models
from mmvidformer.checkpoints import FORMATS, published
from mmvidformer.checkpoints.download import STARTS
from mmvidformer.checkpoints.labels import read_labels


def test_names_and_addresses_are_unique() -> None:
    rows = published.rows()
    assert len(rows) == 71
    for key in ("name", "address"):
        assert len({getattr(row, key) for row in rows}) == len(rows)


@pytest.mark.parametrize("row", published.rows(), ids=lambda row: row.name)
def test_rows_fit_what_is_shipped(row: published.Published) -> None:
    assert row.format in FORMATS
    assert row.address.startswith((*STARTS, "timm:", "package:"))
    assert re.fullmatch(r"[0-9a-f]*", row.sha256)
    assert bool(row.check) <= {"input", "logits"}.issubset(row.check)
    assert row.name not in list_models() or row.name == row.config
    if row.config:
        cfg = get_config(row.config)
        if row.classes:
            assert len(read_labels(row.classes)) == cfg.model.cls_head.num_classes
        if row.pixels and row.format == "scenic":
            mean, std = row.pixels
            given = cfg.model.data_preprocessor
            assert (given.mean, given.std) == ([mean] * 3, [std] * 3)


def test_rows_are_found_by_name_and_address() -> None:
    row = published.row_of("published://timesformer_b_k400")
    assert row.license == "CC-BY-NC-4.0" and row.address.endswith("K400.pyth?dl=1")
    assert published.row_of(row.address) is row
    assert published.row_of("https://example.org/a.pth") is None
    with pytest.raises(KeyError, match="did you mean timesformer_b_k400"):
        published.row_of("published://timesformer_b_k40")


def test_rows_with_the_same_weights() -> None:
    """The official TimeSformer and its copy on the hub; all others have one source."""
    pairs = {row.name: other for row in published.rows() if (other := published.same_weights(row))}
    assert len(pairs) == 12
    assert pairs["timesformer_b_k400"].name == "timesformer-base-finetuned-k400"
    for name, other in pairs.items():
        row = published.by_name()[name]
        assert (row.config, row.classes) == (other.config, other.classes)
        assert {row.address[:5], other.address[:5]} == {"hf://", "https"}


def test_the_page_says_how_many_hashes_are_known() -> None:
    page = (Path(__file__).parents[2] / "docs" / "checkpoints.md").read_text()
    found = re.search(r"of (\d+) of the (\d+) published checkpoints, (\d+) digits of the SHA", page)
    known = [row.sha256 for row in published.rows() if row.sha256]
    assert [int(number) for number in found.groups()] == [len(known), len(published.rows()), 8]
    assert {len(sha256) for sha256 in known} == {8}
