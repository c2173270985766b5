"""The published figures of the rows against those that the papers print, in both directions.

``printed_numbers.yml`` was typed in from the papers' texts and the official READMEs, not from the
row files.
"""

from math import prod
from pathlib import Path

import pytest
import yaml

from lab.papers.rows import find_published, list_rows
from mmvidformer import get_config
from mmvidformer.config.rows import list_papers
from mmvidformer.engine.pipelines import get_views

PRINTED = yaml.safe_load(
    Path(__file__).with_suffix("").with_name("printed_numbers.yml").read_text()
)

# Rows with figures that the papers print in another of their tables, and that table's row.
REPEATED = {
    "vivit/section3_3/space_time": "vivit/table2/model_3",
    "vivit/figure6/st_16x4": "vivit/table1/central_frame",
    "vivit/figure6/st_16x2": "vivit/table2/model_1",
    "vivit/figure6/fe_16x2": "vivit/table2/model_2",
    "vivit/figure6/fsa_16x2": "vivit/table2/model_3",
    "vivit/figure6/fdp_16x2": "vivit/table2/model_4",
    "vivit/figure7/frames_128": "vivit/table5a/l_fe_1x1",
    "vivit/supplementary/blocks_0": "vivit/table2/average",
    "vivit/supplementary/blocks_4": "vivit/table2/model_2",
    "vivit/figure7_arxiv/b_16x4": "vivit/table1/central_frame",
    "vivit/figure7_arxiv/b_16x2": "vivit/table2/model_1",
    "vivit/figure7_arxiv/l_16x2": "vivit/table4/crop_224",
    "vivit/table7/k400": "vivit/table2/model_2",
    "vivit/table7/k600": "vivit/table5b/l_fe",
    "timesformer/figure4/k400_100": "timesformer/table3/in1k_k400",
    "timesformer/figure4/sthv2_100": "timesformer/table3/in1k_sthv2",
    "feature_fixation/section5_3/default": "feature_fixation/table3/ss_ts_ff",
    "feature_fixation/table10/sthv2": "feature_fixation/table1/ours",
    "feature_fixation/table10/k400": "feature_fixation/table2_k400/ours",
    "feature_fixation/table10/k600": "feature_fixation/table2_k600/ours",
    "feature_fixation/figure4_sthv2/views_2": "feature_fixation/table7/default",
    "feature_fixation/figure4_k400/views_4": "feature_fixation/table2_k400/ours",
    "horst/heads/heads_1": "horst/table2/spatial_temporal_4",
}
# Figures of MMAction2's model zoo.
ELSEWHERE = ("timesformer/mmaction2/",)


def printed() -> dict[tuple[str, str], float]:
    """Printed numbers by row and column."""
    found = {}
    for paper, tables in PRINTED.items():
        for table, rows in tables.items():
            columns = rows["columns"]
            for row in rows.keys() - {"columns"}:
                cells = zip(columns, rows[row], strict=True)
                name = f"{paper}/{table}/{row}"
                found |= {(name, key): number for key, number in cells if number is not None}
    return found


NUMBERS = printed()
FIGURES = {(row.name, key): number for row in list_rows() for key, number in row.published.items()}


def of_a_view(row: str, key: str) -> bool:
    """Whether a number is what one view shares in the printed TFLOPs of all views."""
    return key == "macs" and (row, "tflops") in FIGURES


def test_each_printed_number_is_in_its_row() -> None:
    assert set(PRINTED) == set(list_papers())
    assert len(NUMBERS) > 500
    wrong = {key: (number, FIGURES.get(key)) for key, number in NUMBERS.items()}
    assert not {key: pair for key, pair in wrong.items() if pair[0] != pair[1]}


def test_each_figure_of_a_row_is_printed() -> None:
    source = {**NUMBERS}
    for name, original in REPEATED.items():
        for key in find_published(name).published:
            source.setdefault((name, key), NUMBERS.get((original, key)))
    wrong = {
        (name, key): (number, source.get((name, key)))
        for (name, key), number in FIGURES.items()
        if not name.startswith(ELSEWHERE) and not of_a_view(name, key)
    }
    assert not {key: pair for key, pair in wrong.items() if pair[0] != pair[1]}


@pytest.mark.parametrize("name", sorted({name for name, key in FIGURES if of_a_view(name, key)}))
def test_printed_tflops_are_those_of_all_views(name: str) -> None:
    row = find_published(name)
    views = {"vivit/table5a/l_fe_jft": 3, "vivit/table5a/h_jft": 12}.get(name)
    views = views or prod(get_views(get_config(name)))
    tflops = row.published["macs"] * views / 1000
    assert tflops == pytest.approx(row.published["tflops"], abs=0.005)
