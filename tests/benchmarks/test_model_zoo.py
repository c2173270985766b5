"""The model zoo's page and metafile are up to date."""

from pathlib import Path

import pytest
import yaml

import mmvidformer
from benchmarks import model_zoo
from mmvidformer.config.rows import Row

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def counts() -> dict[str, dict]:
    models = yaml.safe_load((ROOT / "configs" / "metafile.yml").read_text())["Models"]
    return {model["Name"]: model["Metadata"] for model in models}


def test_files_are_up_to_date(counts) -> None:
    """If this fails, run python -m benchmarks.model_zoo."""
    assert sorted(counts) == mmvidformer.list_models()
    for path, text in model_zoo.build().items():
        assert path.read_text() == text, path


FAST = {"vivit_fe_motion", "timesformer_b_k400", "feature_fixation_sthv2", "horst_early_motion"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in FAST else pytest.mark.slow)
        for name in mmvidformer.list_models()
    ],
)
def test_counts_of_the_metafile(name: str, counts) -> None:
    assert model_zoo.metadata(mmvidformer.get_config(name)) == counts[name]


def test_the_first_sentence_describes_a_config() -> None:
    head = "ViViT-B/16x2, Kinetics-400 (30 fps). Paper Table 2: top-1 78.8."
    assert model_zoo.first_sentence(head) == "ViViT-B/16x2, Kinetics-400 (30 fps)"
    assert model_zoo.first_sentence("Small, a | b.") == "Small, a / b"


def test_results_name_the_table() -> None:
    rows = [
        Row("vivit/table2/a", "A", published={"top1": 78.8, "params": 1.0}),
        Row("vivit/table6/a", "A", published={"top1": 80, "top5": 94.5}),
        Row("vivit/table7/a", "A", published={"macs": 5}),
    ]
    assert model_zoo.results(rows) == "table2: top1 78.8; table6: top1 80, top5 94.5"


def test_a_config_of_no_family_is_refused() -> None:
    with pytest.raises(ValueError, match="must start with vivit_.*got 'swin_k400'"):
        model_zoo.read_entry("swin_k400", "# Swin.\n", mmvidformer.get_config("vivit_fe_k400"))
