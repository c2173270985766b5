"""Estimated memory of training steps."""

import copy

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope
from torch import nn

from benchmarks.memory import estimate, peak_memory, run_step
from mmvidformer.registry import MODELS

CFG = Config(
    dict(
        model=dict(
            backbone=dict(
                type="mmvidformer.TimeSformer",
                arch=dict(embed_dims=32, depth=3, num_heads=2),
                img_size=64,
                clip_len=8,
                drop_path_rate=0.0,
            ),
            cls_head=dict(type="TimeSformerHead", num_classes=5, in_channels=32),
        )
    )
)
RANDOM_STATE = 5056  # bytes that a checkpointed block keeps of the random number generator


@pytest.mark.parametrize(("with_cp", "precision"), [(False, "fp32"), (True, "bf16")])
def test_estimate_equals_measurement(with_cp: bool, precision: str) -> None:
    cfg = copy.deepcopy(CFG)
    cfg.model.backbone.arch.depth = 2
    estimated = estimate(cfg, with_cp, precision=precision)
    backbone = MODELS.build({**cfg.model.backbone, "with_cp": with_cp})
    with DefaultScope.overwrite_default_scope("mmaction"):
        model = nn.Sequential(backbone, MODELS.build(cfg.model.cls_head)).train()
    assert estimated.weights == 4 * sum(p.numel() for p in model.parameters())
    clip = torch.randn(1, 3, 8, 64, 64)
    # oneDNN allocates temporary memory that depends on the processor's instructions.
    with torch.backends.mkldnn.flags(enabled=False):
        measured = peak_memory(lambda x: run_step(model, x, precision), clip)
    assert estimated.peak == pytest.approx(measured, abs=2 * RANDOM_STATE)


def test_a_checkpointed_block_keeps_its_input_and_its_gradients() -> None:
    peaks = {False: [], True: []}
    for depth in (2, 3):
        cfg = copy.deepcopy(CFG)
        cfg.model.backbone.arch.depth = depth
        for cp in (False, True):
            peaks[cp].append(estimate(cfg, cp).peak)
    more = {cp: deeper - flatter for cp, (flatter, deeper) in peaks.items()}
    tokens = (8 * 4 * 4 + 1) * 32 * 4
    with torch.device("meta"):
        block = MODELS.build(CFG.model.backbone).encoders[0].blocks[0]
    gradients = 4 * sum(p.numel() for p in block.parameters())
    assert more[True] <= tokens + gradients
    assert more[False] > 3 * more[True]


def test_recurrent_models_are_refused() -> None:
    cfg = Config(dict(model=dict(type="mmvidformer.RecurrentRecognizer")))
    with pytest.raises(ValueError, match="RecurrentRecognizer is recurrent"):
        estimate(cfg, False)
