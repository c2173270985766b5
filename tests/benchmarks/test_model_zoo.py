"""The model zoo's page and metafile are up to date."""

import re
from pathlib import Path

import pytest
import yaml

import mmvidformer
from benchmarks import model_zoo

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


def test_the_page_lists_configs_of_full_size_and_those_with_weights(counts) -> None:
    listed = set(re.findall(r"(?m)^\| `(\w+)` \|", (ROOT / "docs" / "model_zoo.md").read_text()))
    small = {name for name in counts if name.endswith("_motion")}
    assert listed == counts.keys() - small | {"camera_motion"}


def test_a_config_of_no_family_is_refused() -> None:
    with pytest.raises(ValueError, match="must start with vivit_.*got 'swin_k400'"):
        model_zoo.family_of("swin_k400")
