"""The estimate of a training step is what a step takes."""

import pytest
import torch
from mmengine.config import Config

from mmvidformer.analysis.training_memory import estimate, measure, measure_apart
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
KEPT_RANDOM_STATE = 5056  # bytes of the generator's state, which a checkpointed block keeps


@pytest.mark.parametrize(("with_cp", "precision"), [(False, "fp32"), (True, "bf16")])
def test_estimate_is_what_is_measured(with_cp: bool, precision: str) -> None:
    arguments = dict(with_cp=with_cp, precision=precision, depth=2)
    # oneDNN takes working memory that depends on the processor's instructions.
    with torch.backends.mkldnn.flags(enabled=False):
        guess, truth = estimate(CFG, **arguments), measure(CFG, **arguments)
    assert guess.weights == truth.weights
    assert guess.peak == pytest.approx(truth.peak, abs=2 * KEPT_RANDOM_STATE)


def test_a_checkpointed_block_keeps_its_input_and_has_its_gradients() -> None:
    peaks = {cp: [estimate(CFG, cp, depth=depth).peak for depth in (2, 3)] for cp in (False, True)}
    more = {cp: deeper - flatter for cp, (flatter, deeper) in peaks.items()}
    tokens = (8 * 4 * 4 + 1) * 32 * 4
    with torch.device("meta"):
        block = MODELS.build(CFG.model.backbone).encoder.blocks[0]
    gradients = 4 * sum(p.numel() for p in block.parameters())
    assert more[True] <= tokens + gradients
    assert more[False] > 3 * more[True]


def test_recurrent_models_are_refused() -> None:
    with pytest.raises(ValueError, match="recurrent"):
        estimate(Config(dict(model=dict(neck=dict(type="mmvidformer.Horst")))), False)


def test_a_process_that_fails_is_told(tmp_path) -> None:
    with pytest.raises(RuntimeError, match="failed"):
        measure_apart(str(tmp_path / "none.py"), with_cp=False)
