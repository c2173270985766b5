from pathlib import Path

import pytest

from mmvidformer import get_config, list_models
from mmvidformer.apis.complexity import count
from mmvidformer.config import load_config
from mmvidformer.models.feature_fixation import ARCH


def analytic(scheme: str, depth: int, dim: int, t: int, n: int, temporal: int = 0) -> int:
    """Compute ViViT's MACs by hand: t time tokens, n tokens per frame, 2 x 16 x 16 tubelets."""
    patches = t * n * 1536 * dim
    if scheme == "spacetime":
        s = t * n + 1
        return patches + depth * (12 * dim**2 * s + 2 * s**2 * dim)
    if scheme == "factorized_encoder":
        over_frames = temporal * (12 * dim**2 * (t + 1) + 2 * (t + 1) ** 2 * dim)
        over_space = depth * (12 * dim**2 * t * (n + 1) + 2 * t * (n + 1) ** 2 * dim)
        return patches + over_space + over_frames
    if scheme == "factorized_self_attention":
        return patches + depth * (16 * dim**2 * t * n + 2 * t * n**2 * dim + 2 * n * t**2 * dim)
    return patches + depth * (12 * dim**2 * t * n + t * n**2 * dim + n * t**2 * dim)


@pytest.mark.parametrize(
    "name, options",
    [
        ("vivit_st_k400", {}),
        ("vivit_fe_k400", {}),
        ("vivit_fsa_k400", {}),
        ("vivit_fdp_k400", {}),
        ("vivit_l_fe_k400", {}),
        ("vivit_fe_k400", {"model.backbone.temporal_depth": 0}),
    ],
)
def test_vivit_counts_match_the_formula(name: str, options: dict) -> None:
    """Those of the paper are compared with the rows of its tables, in test_papers."""
    cfg = load_config(name, options)
    large = cfg.model.backbone.arch == "l"
    depth, dim = (24, 1024) if large else (12, 768)
    backbone = cfg.model.backbone
    temporal_depth = backbone.get("temporal_depth", 4)
    by_hand = analytic(backbone.scheme, depth, dim, 16, 196, temporal_depth)
    assert count(cfg).macs == by_hand + dim * 400


def divided(layers: int, dim: int, t: int, n: int) -> int:
    """Compute the MACs of divided attention by hand, with one projection of the class token."""
    time = t * n * 5 * dim**2 + 2 * n * t**2 * dim
    space = (t * n + 1) * 4 * dim**2 + 2 * t * (n + 1) ** 2 * dim
    return t * n * 768 * dim + layers * (time + space + (t * n + 1) * 8 * dim**2)


@pytest.mark.parametrize(
    ("name", "frames", "places", "published"),
    [
        ("timesformer_b_k400", 8, 14**2, 195.83),
        ("timesformer_hr_k400", 16, 28**2, 1702.69),
        ("timesformer_l_k400", 96, 14**2, 2379.86),
    ],
)
def test_timesformer_counts_match_the_formula_and_the_official_code(
    name: str, frames: int, places: int, published: float
) -> None:
    """Times three crops they are the 0.59, 5.11 and 7.14 x 10^12 of the paper's Table 5."""
    size = count(get_config(name))
    assert size.macs == divided(12, 768, frames, places) + 768 * 400
    # The official code projects a copy of the class token for each frame.
    official = size.macs + 12 * (frames - 1) * 4 * 768**2 - 768 * 400
    assert official / 1e9 == pytest.approx(published, abs=0.006)


@pytest.mark.parametrize(
    ("attention", "millions"),
    [
        ("space_only", 85.93),
        ("joint_space_time", 85.94),
        ("divided_space_time", 121.39),
        ("sparse_local_global", 121.39),
        ("axial", 156.85),
    ],
)
def test_timesformer_parameters_of_table_1(attention: str, millions: float) -> None:
    """They only match with the 174 classes of Something-Something."""
    cfg = load_config("timesformer_b_sthv2", {"model.backbone.scheme": attention})
    assert count(cfg).parameters / 1e6 == pytest.approx(millions, abs=0.01)


PLAIN = {f"model.backbone.{key}": None for key in ("fixation", "shifts.temporal", "shifts.spatial")}


@pytest.mark.parametrize(
    ("kernel", "kernel_macs"),
    [  # per token and head with d = 64: two matmuls of d^2; twice as wide; two projections; a rank
        ("linear", 2 * 64**2),
        ("cosformer", 4 * 64**2),
        ("performer", 4 * 64**2),
        ("linformer", 4 * 256 * 64),
    ],
)
def test_feature_fixation_counts_match_the_formula(kernel: str, kernel_macs: int) -> None:
    tokens, dim = 16 * 17**2, 512
    size = count(
        load_config("feature_fixation_sthv2", {**PLAIN, "model.backbone.kernel": {"type": kernel}})
    )
    layers = 16 * dim**2 + 9 * 4 * dim  # two attentions, an MLP, its depthwise convolution
    sums = 2 * 512 * (kernel != "linformer")  # the normalizers in two attentions
    sums *= 1 + (kernel == "cosformer")
    by_hand = tokens * (16**2 * 3 * dim + 12 * (layers + 2 * 8 * kernel_macs + sums))
    assert size.macs == by_hand + dim * 768 + 768 * 174
    if kernel != "linformer":  # Table 1, with the layer that the official code never uses
        assert (size.parameters + 513 * 174) / 1e6 == pytest.approx(51.7, abs=0.05)


def test_counts_of_the_full_model_differ_from_the_paper() -> None:
    """The paper has 52.2M and 257.8 x 10^9; a gate from 3 d to d has less."""
    size = count(get_config("feature_fixation_sthv2"))
    plain = count(load_config("feature_fixation_sthv2", PLAIN))
    assert size.parameters - plain.parameters == 24 * (3 * 64 * 64 + 64)
    assert size.macs - plain.macs == 24 * 16 * 17**2 * 8 * 3 * 64**2


def test_view_of_the_backbones_default_size() -> None:
    cfg = get_config("timesformer_b_k400")
    del cfg.model.backbone["clip_len"], cfg.model.backbone["img_size"]
    assert count(cfg).shape == (3, 8, 224, 224)


def test_recurrent_models_need_a_shape() -> None:
    with pytest.raises(ValueError, match="RecurrentRecognizer is recurrent and has no view of one"):
        count(get_config("horst_early_motion"))


@pytest.mark.slow
def test_every_config_can_be_counted() -> None:
    """Recurrent ones are refused, since their cost depends on the length of the clip."""
    sizes = {}
    for name in list_models():
        cfg = get_config(name)
        if name.startswith(("horst_", "causal_", "levjepa_")):
            with pytest.raises(ValueError, match="is recurrent"):
                count(cfg)
            continue
        if cfg.model.backbone.arch == ARCH:
            cfg.model.backbone.arch.depth = 1  # there are many
        sizes[name] = count(cfg).parameters
    assert sizes["vivit_l_fe_ek100"] - sizes["vivit_l_fe_sthv2"] == (397 - 174) * 1025
    assert min(sizes.values()) > 100_000


def test_counts_of_another_view_match_the_formula() -> None:
    size = count(get_config("vivit_st_k400"), (3, 8, 112, 96))
    assert size.macs == analytic("spacetime", 12, 768, 4, 7 * 6) + 768 * 400


def test_the_table_of_the_tool(main_of, tmp_path: Path) -> None:
    names = ["vivit_fe_k400", "vivit/table2/model_2"]
    main_of("count")([*names, "--csv", str(tmp_path / "a.csv")])
    lines = (tmp_path / "a.csv").read_text().splitlines()
    assert lines[1:] == [f"{name},32x224x224,115.063,283.34" for name in names]
