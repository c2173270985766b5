"""The model zoo's page and metafile are up to date."""

from pathlib import Path

import pytest
import yaml

import mmvidformer
from benchmarks import model_zoo, zoo

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def counts() -> dict[str, dict]:
    models = yaml.safe_load((ROOT / "configs" / "metafile.yml").read_text())["Models"]
    return {model["Name"]: model["Metadata"] for model in models}


def test_files_are_up_to_date(counts) -> None:
    """If this fails, run python -m benchmarks.model_zoo."""
    assert sorted(counts) == mmvidformer.list_models()
    build = model_zoo.build
    metafile, page = build()
    assert metafile == (ROOT / "configs" / "metafile.yml").read_text()
    assert page == (ROOT / "docs" / "model_zoo.md").read_text()


@pytest.mark.parametrize(
    "name",
    ["vivit_fe_motion", "timesformer_b_k400", "feature_fixation_k400", "horst_early_motion"],
)
def test_counts_of_the_metafile(name: str, counts) -> None:
    assert zoo.metadata(mmvidformer.get_config(name)) == counts[name]


@pytest.mark.slow
def test_all_counts_of_the_metafile(counts) -> None:
    for name in mmvidformer.list_models():
        assert zoo.metadata(mmvidformer.get_config(name)) == counts[name], name


def test_comments_are_split() -> None:
    head = (
        "ViViT-B/16x2, factorized encoder (model 2), Kinetics-400. Paper Table 2: top-1 78.8 with "
        "4 x 1 views; official zoo: 78.4 with 4 x 3 (not measured here)."
    )
    assert zoo.split_head(head) == (
        "ViViT-B/16x2, factorized encoder (model 2), Kinetics-400",
        "Paper Table 2: top-1 78.8 with 4 x 1 views; official zoo: 78.4 with 4 x 3",
    )
    small = "A small net, from scratch on the motion data. More of it."
    assert zoo.split_head(small) == ("A small net, from scratch on the motion data", "")


def test_published_results_have_a_source(counts) -> None:
    for path in sorted((ROOT / "configs").glob("*.py")):
        cfg = mmvidformer.get_config(path.stem)
        entry = zoo.read_entry(path.stem, path.read_text(), cfg, (1, 1))
        head = path.read_text().split("_base_")[0]
        if "(not measured here)" in " ".join(head.replace("#", "").split()):
            assert entry.published.startswith(("Paper", "Official zoo")), path.stem


def test_a_config_of_no_family_is_refused() -> None:
    with pytest.raises(ValueError, match="must start with vivit_.*got 'swin_k400'"):
        zoo.read_entry("swin_k400", "# Swin.\n", mmvidformer.get_config("vivit_fe_k400"), (1, 1))
