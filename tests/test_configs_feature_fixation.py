"""The configs and rows of feature fixation are those of its paper's tables."""

from collections.abc import Iterator

import pytest
import torch
from mmengine.optim import build_optim_wrapper
from mmengine.registry import DefaultScope

from mmvidformer import get_config
from mmvidformer.registry import MODELS
from tests.tiny_configs import sampler


@pytest.fixture(autouse=True)
def scope() -> Iterator[None]:
    with DefaultScope.overwrite_default_scope("mmaction"):
        yield


def test_feature_fixation_recipes() -> None:
    """The released settings, and Table 10 where it differs."""
    rows = {  # rate, decay, epochs, batch, Nesterov, smoothing, mixup, divisor, distance
        "sthv2": (0.03, 1e-4, 35, 32, True, 0.0, None, 4, 1),
        "k400": (0.035, 1e-5, 40, 32, True, 0.3, 0.4, 8, 1),
        "k600": (0.035, 1e-5, 40, 32, True, 0.3, 0.4, 8, 1),
        "paper_sthv2": (0.035, 4e-4, 35, 32, True, 0.0, None, 4, 1),
        "paper_k400": (0.035, 4e-4, 35, 32, True, 0.3, 0.4, 8, 4),
        "paper_k600": (0.035, 4e-4, 35, 32, True, 0.3, 0.4, 8, 4),
    }
    classes = {"sthv2": 174, "k400": 400, "k600": 600}
    for name, (rate, decay, epochs, batch, nesterov, smoothing, mixup, *shifts) in rows.items():
        dataset = name.removeprefix("paper_")
        row = f"feature_fixation/table10/{dataset}"
        cfg = get_config(row if dataset != name else f"feature_fixation_{name}")
        optimizer = cfg.optim_wrapper.optimizer
        assert (optimizer.type, optimizer.lr, optimizer.momentum) == ("SGD", rate, 0.9), name
        assert (optimizer.weight_decay, optimizer.nesterov) == (decay, nesterov), name
        assert cfg.train_cfg.max_epochs == epochs, name
        assert cfg.train_dataloader.batch_size * 8 == cfg.auto_scale_lr.base_batch_size == batch
        head, blending = cfg.model.cls_head, cfg.model.data_preprocessor.get("blending")
        assert head.get("label_smooth_eps", 0.0) == smoothing, name
        assert (blending and (blending.alpha, blending.num_classes)) == (
            mixup and (mixup, classes[dataset])
        ), name
        assert (head.num_classes, head.dropout_ratio) == (classes[dataset], 0.5)
        spared = list(cfg.optim_wrapper.paramwise_cfg.custom_keys)
        assert spared == [f"cls_head.{key}.bias" for key in ("norm", "fc_hidden", "fc_cls")]
        temporal, spatial = (cfg.model.backbone.shifts[key] for key in ("temporal", "spatial"))
        assert [temporal.divisor, spatial.distance] == shifts, name
        assert temporal.get("segment") == (None if dataset == "sthv2" else 8)
        names = [t.type.rpartition(".")[2] for t in cfg.model.data_preprocessor.augment]
        assert names[0] == "ClipAutoAugment"
        assert ("ClipFlip" in names) == (dataset != "sthv2")
        assert ("RandomErasing" in names) == (dataset == "sthv2")
        assert ("ClipMultiScaleCrop" in names) == (name in ("k400", "k600"))
        assert sampler(cfg.test_pipeline).num_clips == (2 if dataset == "sthv2" else 4)
        kind = "SegmentFrames" if dataset == "sthv2" else "SpanFrames"
        assert sampler(cfg.train_pipeline).type == f"mmvidformer.{kind}"
    for variant, frames, size in (("s", 8, 224), ("h", 32, 224), ("hr", 16, 336)):
        backbone = get_config(f"feature_fixation/table7/{variant}").model.backbone
        assert (backbone.clip_len, backbone.img_size) == (frames, size)


# Rows of the paper's tables 3 to 6, 9 and 11: patterns, kernel, gates, shifts.
DEFAULT, BOTH = "qkv_shared, concat", ("spatial", "temporal")
FIXATION_ROWS = {
    "table3/linear": ("time space", "LinearKernel", None, ()),
    "table3/ss": ("time space", "LinearKernel", None, ("spatial",)),
    "table3/ts": ("time space", "LinearKernel", None, ("temporal",)),
    "table3/ss_ts": ("time space", "LinearKernel", None, BOTH),
    "table3/ff": ("time space", "LinearKernel", DEFAULT, ()),
    "table4/separate": ("time space", "LinearKernel", "separate, concat", BOTH),
    "table4/qk": ("time space", "LinearKernel", "qk, concat", BOTH),
    "table4/qk_shared": (
        "time space",
        "LinearKernel",
        "qk_shared, concat",
        BOTH,
    ),
    "table4/qkv": ("time space", "LinearKernel", "qkv, concat", BOTH),
    "section5_3/add": ("time space", "LinearKernel", "qkv_shared, add", BOTH),
    "section5_3/multiply": (
        "time space",
        "LinearKernel",
        "qkv_shared, multiply",
        BOTH,
    ),
    "section5_3/gates_first": ("time space", "LinearKernel", DEFAULT, BOTH),
    "table6/joint": ("joint", "LinearKernel", DEFAULT, BOTH),
    "table6/windowed": ("space", "LinearKernel", DEFAULT, BOTH),
    "table1/ours_text": (
        "space time",
        "LinearKernel",
        f"{DEFAULT}, joint_heads=True",
        ("temporal", "spatial") * 2,
    ),
    "section4_1/equation_4": (
        "time space",
        "LinearKernel",
        "separate, concat, joint_heads=True",
        BOTH,
    ),
    "section4_1/footnote_3": ("time space", "LinearKernel", DEFAULT, BOTH),
    "table5/identity": ("time space", "LinearKernel", DEFAULT, BOTH),
    "figure2/separate": ("time space", "LinearKernel", "separate, concat", ()),
    "figure2/softmax": ("time space", "SoftmaxKernel", None, ()),
    "table8/softmax_16x224": ("time space", "SoftmaxKernel", DEFAULT, BOTH),
    "table8/orthoformer_96x336": ("time space", "OrthoformerKernel", DEFAULT, BOTH),
    "table1/linformer": ("time space", "LinformerKernel", None, ()),
    "table1/orthoformer": ("time space", "OrthoformerKernel", None, ()),
    "table1/lara": ("time space", "LaraKernel", None, ()),
    "table1/performer": ("time space", "PerformerKernel", None, ()),
    "table1/cosformer": ("time space", "CosformerKernel", None, ()),
    "table9/performer_na_ff": ("time space", "PerformerKernel", DEFAULT, BOTH),
    "table9/cosformer_na_ff": ("time space", "CosformerKernel", DEFAULT, BOTH),
    "table9/xvit": ("space", "SoftmaxKernel", None, ("temporal",)),
    "table9/xvit_ff": ("space", "SoftmaxKernel", DEFAULT, ("temporal",)),
    "table9/performer_na": ("time space", "PerformerKernel", None, BOTH),
    "table9/performer_ff": ("time space", "PerformerKernel", DEFAULT, ()),
    "table9/linear_trans_na": ("time space", "LinearKernel", None, BOTH),
    "table9/linear_trans_ff": ("time space", "LinearKernel", DEFAULT, ()),
    "table9/cosformer_na": ("time space", "CosformerKernel", None, BOTH),
    "table9/cosformer_ff": ("time space", "CosformerKernel", DEFAULT, ()),
}


@pytest.mark.parametrize("name", FIXATION_ROWS)
def test_ablations_of_feature_fixation_are_the_rows_of_the_tables(name: str) -> None:
    with torch.device("meta"):
        model = MODELS.build(get_config(f"feature_fixation/{name}").model.backbone)
    sublayers = model.encoders[0].blocks[0].sublayers
    attentions = [sublayer.attn for sublayer in sublayers.values()]
    kernel = {type(attention.kernel).__name__ for attention in attentions}
    gates = {attention.prepare["fixation"].extra_repr() if "fixation" in attention.prepare else None
             for attention in attentions}  # fmt: skip
    found = [
        "temporal" if part.offsets[0][0] else "spatial"
        for attention in attentions
        for key, part in attention.prepare.items()
        if key.startswith("shift")
    ]
    patterns, *rest = FIXATION_ROWS[name]
    assert " ".join(sublayers) == patterns
    assert (kernel, gates, tuple(found)) == ({rest[0]}, {rest[1]}, rest[2])


@pytest.mark.parametrize(
    ("name", "feature", "last"),
    [
        ("table5/identity", "identity", False),
        ("section4_1/footnote_3", "relu", True),
        ("table5/relu", "relu", False),
    ],
)
def test_kernels_of_the_rows(name: str, feature: str, last: bool) -> None:
    with torch.device("meta"):
        model = MODELS.build(get_config(f"feature_fixation/{name}").model.backbone)
    kernel = next(iter(model.encoders[0].blocks[0].sublayers.values())).attn.kernel
    found = kernel.last_map if last else kernel.feature_map
    assert found.name == feature and (kernel.feature_map is None) == last


@pytest.mark.parametrize(
    ("name", "temporal", "spatial"),
    [
        ("table11/cross_1", 2, 4),
        ("table11/cross_2", 2, 8),
        ("table11/square_1", 2, 8),
        ("table11/square_2", 2, 24),
    ],
)
def test_windows_of_table_11(name: str, temporal: int, spatial: int) -> None:
    """Folds of each shift: 2 tau frames; 4 xi places, or all others of the square."""
    with torch.device("meta"):
        model = MODELS.build(get_config(f"feature_fixation/{name}").model.backbone)
    sublayers = model.encoders[0].blocks[0].sublayers
    assert len(sublayers["space"].attn.prepare["shift0"].offsets) == temporal
    assert len(sublayers["time"].attn.prepare["shift0"].offsets) == spatial


def test_the_text_shifts_each_attention_in_time_and_then_in_space() -> None:
    """Tau of 4 and xi of 1 (Table 10): 8 frames, then 4 places."""
    with torch.device("meta"):
        model = MODELS.build(get_config("feature_fixation/table1/ours_text").model.backbone)
    for sublayer in model.encoders[0].blocks[0].sublayers.values():
        shifts = [sublayer.attn.prepare[f"shift{i}"] for i in range(2)]
        assert [part.offsets for part in shifts] == [
            tuple((frames, 0, 0) for frames in (-4, -3, -2, -1, 1, 2, 3, 4)),
            ((0, 0, -1), (0, 0, 1), (0, -1, 0), (0, 1, 0)),
        ]


def test_the_text_row_has_the_recipe_of_table_10() -> None:
    text, table_10, model = (
        get_config(f"feature_fixation/{row}")
        for row in ("table1/ours_text", "table10/sthv2", "table1/text_model")
    )
    for key in ("optim_wrapper", "param_scheduler", "train_cfg", "train_dataloader", "augment"):
        assert text[key] == table_10[key], key
    assert model.optim_wrapper == get_config("feature_fixation_sthv2").optim_wrapper
    assert model.model == text.model


SIZES = [(frames, pixels) for frames in (16, 32, 64, 96) for pixels in (224, 336, 448)]


@pytest.mark.parametrize("kernel", ["ours", "orthoformer", "softmax"])
@pytest.mark.parametrize(("frames", "pixels"), SIZES)
def test_sizes_of_table_8(kernel: str, frames: int, pixels: int) -> None:
    cfg = get_config(f"feature_fixation/table8/{kernel}_{frames}x{pixels}")
    assert (cfg.model.backbone.clip_len, cfg.model.backbone.img_size) == (frames, pixels)
    for split in ("train", "val", "test"):
        pipeline = cfg[f"{split}_dataloader"].dataset.pipeline
        assert sampler(pipeline).clip_len == frames
        if split != "train":
            assert [t.crop_size for t in pipeline if "crop_size" in t] == [pixels]
    crops = [t.size for t in cfg.model.data_preprocessor.augment if "size" in t]
    assert crops == [pixels]


def test_feature_maps_and_order_of_feature_fixation() -> None:
    for row, feature in (("table5/elu", "elu"), ("table1/linear_trans", "elu"),
                         ("table5/sigmoid", "sigmoid")):  # fmt: skip
        kernel = get_config(f"feature_fixation/{row}").model.backbone.kernel
        assert (kernel.type, kernel.feature) == ("linear", feature)
    with torch.device("meta"):
        model = MODELS.build(get_config("feature_fixation/section5_3/gates_first").model.backbone)
    assert list(model.encoders[0].blocks[0].sublayers["time"].attn.prepare)[-1] == "shift0"


def test_ladder_on_motion_is_reached_by_options() -> None:
    """As ``--cfg-options model.backbone.fixation=None ...`` reads them."""
    sizes = []
    for off in ([], ["fixation"], ["fixation", "shifts.spatial", "shifts.temporal"]):
        cfg = get_config("feature_fixation_motion")
        cfg.merge_from_dict({f"model.backbone.{key}": None for key in off})
        with torch.device("meta"):
            model = MODELS.build(cfg.model.backbone)
        prepare = [
            sublayer.attn.prepare for sublayer in model.encoders[0].blocks[0].sublayers.values()
        ]
        sizes.append([len(part) for part in prepare])
    assert sizes == [[3, 3], [2, 2], [1, 1]]
    cfg = get_config("feature_fixation_motion")
    wrapper = build_optim_wrapper(MODELS.build(cfg.model), cfg.optim_wrapper)
    fast = [g for g in wrapper.optimizer.param_groups if g["lr"] == pytest.approx(50 * 5e-4)]
    assert [tuple(p.shape) for g in fast for p in g["params"]] == [(1, 6, 1, 1, 64)]
