from pathlib import Path

import pytest

from benchmarks.published import PUBLISHED
from mmvidformer import get_config, list_models
from mmvidformer.analysis.complexity import count
from mmvidformer.analysis.papers import misfits
from mmvidformer.papers import find_row


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
    "name", ["table2/model_1", "table2/model_2", "table2/model_3", "table2/model_4",
             "table2/average", "figure7/frames_32"],
)  # fmt: skip
def test_counts_match_the_formula_and_the_paper(name: str) -> None:
    cfg = get_config(f"vivit/{name}")
    large = cfg.model.backbone.arch == "l"
    depth, dim = (24, 1024) if large else (12, 768)
    size = count(cfg)
    by_hand = analytic(
        cfg.model.backbone.scheme, depth, dim, 16, 196, cfg.model.backbone.temporal_depth
    )
    assert size.macs == by_hand + dim * 400
    assert misfits(find_row(f"vivit/{name}"), size) == []


def divided(layers: int, dim: int, t: int, n: int) -> int:
    """Compute the MACs of divided attention by hand, with one projection of the class token."""
    time = t * n * 5 * dim**2 + 2 * n * t**2 * dim
    space = (t * n + 1) * 4 * dim**2 + 2 * t * (n + 1) ** 2 * dim
    return t * n * 768 * dim + layers * (time + space + (t * n + 1) * 8 * dim**2)


@pytest.mark.parametrize(
    ("name", "frames", "places"),
    [
        ("timesformer_b_k400", 8, 14**2),
        ("timesformer_hr_k400", 16, 28**2),
        ("timesformer_l_k400", 96, 14**2),
    ],
)
def test_timesformer_counts_match_the_formula_and_the_official_code(
    name: str, frames: int, places: int
) -> None:
    size = count(get_config(name))
    assert size.macs == divided(12, 768, frames, places) + 768 * 400
    assert size.macs / 1e9 == pytest.approx(PUBLISHED[name].macs, rel=0.005)
    # The official code projects a copy of the class token for each frame.
    official = size.macs + 12 * (frames - 1) * 4 * 768**2 - 768 * 400
    assert official / 1e9 == pytest.approx(PUBLISHED[name].macs, abs=0.006)


@pytest.mark.parametrize(
    ("name", "millions"),
    [
        ("timesformer_space_only_sthv2", 85.93),
        ("timesformer_joint_sthv2", 85.94),
        ("timesformer_b_sthv2", 121.39),
        ("timesformer_local_global_sthv2", 121.39),
        ("timesformer_axial_sthv2", 156.85),
    ],
)
def test_timesformer_parameters_of_table_1(name: str, millions: float) -> None:
    parameters = count(get_config(name)).parameters / 1e6
    assert parameters == pytest.approx(millions, abs=0.01)
    assert parameters == pytest.approx(PUBLISHED[name].parameters, abs=0.06)


@pytest.mark.parametrize(
    ("row", "kernel_macs"),
    [  # per token and head with d = 64: two matmuls of d^2; twice as wide; two projections; a rank
        ("linear_trans", 2 * 64**2),
        ("cosformer", 4 * 64**2),
        ("performer", 4 * 64**2),
        ("linformer", 4 * 256 * 64),
    ],
)
def test_feature_fixation_counts_match_the_formula_and_the_paper(
    row: str, kernel_macs: int
) -> None:
    name, tokens, dim = f"feature_fixation/table1/{row}", 16 * 17**2, 512
    size, published = count(get_config(name)), find_row(name).published
    layers = 16 * dim**2 + 9 * 4 * dim  # two attentions, an MLP, its depthwise convolution
    sums = 2 * 512 * (row != "linformer")  # the normalizers in two attentions
    sums *= 1 + (row == "cosformer")
    by_hand = tokens * (16**2 * 3 * dim + 12 * (layers + 2 * 8 * kernel_macs + sums))
    assert size.macs == by_hand + dim * 768 + 768 * 174
    assert size.macs / 1e9 == pytest.approx(published["macs"], rel=0.005)
    assert size.parameters / 1e6 == pytest.approx(published["params"], abs=0.1)
    if row != "linformer":  # exactly, with the layer that the official code never uses
        assert (size.parameters + 513 * 174) / 1e6 == pytest.approx(published["params"], abs=0.05)


def test_counts_of_the_full_model_differ_from_the_paper() -> None:
    """The paper has 52.2M and 257.8 x 10^9; a gate from 3 d to d has less."""
    size = count(get_config("feature_fixation_sthv2"))
    plain = count(get_config("feature_fixation/table3/linear"))
    assert size.parameters - plain.parameters == 24 * (3 * 64 * 64 + 64)
    assert size.macs - plain.macs == 24 * 16 * 17**2 * 8 * 3 * 64**2
    assert size.parameters / 1e6 == pytest.approx(52.2 - 0.28, abs=0.01)


def test_view_of_the_backbones_default_size() -> None:
    cfg = get_config("timesformer_b_k400")
    del cfg.model.backbone["clip_len"], cfg.model.backbone["img_size"]
    assert count(cfg).shape == (3, 8, 224, 224)


@pytest.mark.slow
def test_every_config_can_be_counted() -> None:
    """Recurrent ones are refused, since their cost depends on the length of the clip."""
    sizes = {}
    for name in list_models():
        cfg = get_config(name)
        if name.startswith(("horst_", "causal_")):
            with pytest.raises(ValueError, match="is recurrent"):
                count(cfg)
            continue
        if cfg.model.backbone.arch == "b" and name.startswith("feature_fixation"):
            cfg.model.backbone.arch = dict(embed_dims=512, depth=1, num_heads=8)  # there are many
        sizes[name] = count(cfg).parameters
    assert sizes["vivit_l_fe_ek100"] - sizes["vivit_l_fe_sthv2"] == (397 - 174) * 1025
    assert min(sizes.values()) > 100_000


def test_counts_of_another_view_match_the_formula() -> None:
    size = count(get_config("vivit_st_k400"), (3, 8, 112, 96))
    assert size.macs == analytic("spacetime", 12, 768, 4, 7 * 6) + 768 * 400


def test_comparison_with_a_paper(main_of, tmp_path: Path) -> None:
    name = "vivit_fe_k400"
    main_of("analysis/complexity")([name, "--csv", str(tmp_path / "a.csv")])
    lines = (tmp_path / "a.csv").read_text().splitlines()
    assert lines[1] == f"{name},32x224x224,115.063,283.34"
    row = find_row("vivit/table2/model_2")
    assert misfits(row, count(get_config(name))) == []
    (found,) = misfits(row, count(get_config(name), (3, 16, 224, 224)))
    assert found.startswith("vivit/table2/model_2: macs 14") and found.endswith("published 284.4")
