"""Peak memory of calls and of training steps."""

import pytest
import torch
from mmengine.config import Config

from mmvidformer.analysis.memory import Step, estimate, measure, peak_memory
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


def test_peak_is_what_is_allocated_at_the_same_time() -> None:
    """Two tensors of 4 kB, then one after they are freed; the input does not count."""

    def call(x: torch.Tensor) -> torch.Tensor:
        first = x + 1
        second = first * 2
        del first
        del second
        return x - 1

    # The constants are tensors of a few bytes.
    assert 2 * 4096 <= peak_memory(call, torch.zeros(1024)) < 2 * 4096 + 100


def test_peak_includes_temporary_memory_of_operators() -> None:
    """A matrix multiplication copies expanded matrices first."""
    left, right = torch.rand(64, 32, 32), torch.rand(1, 32, 32).expand(64, 32, 32)
    assert peak_memory(lambda x: x.sum(), left) < 64 * 32 * 32 * 4
    assert peak_memory(lambda x: torch.bmm(x.transpose(1, 2), right), left) >= 64 * 32 * 32 * 4


@pytest.mark.parametrize(("with_cp", "precision"), [(False, "fp32"), (True, "bf16")])
def test_estimate_equals_measurement(with_cp: bool, precision: str) -> None:
    step = Step(with_cp, precision=precision, depth=2)
    # oneDNN allocates temporary memory that depends on the processor's instructions.
    with torch.backends.mkldnn.flags(enabled=False):
        estimated, measured = estimate(CFG, step), measure(CFG, step)
    assert estimated.weights == measured.weights
    assert estimated.peak == pytest.approx(measured.peak, abs=2 * RANDOM_STATE)


def test_a_checkpointed_block_keeps_its_input_and_its_gradients() -> None:
    peaks = {
        cp: [estimate(CFG, Step(cp, depth=depth)).peak for depth in (2, 3)] for cp in (False, True)
    }
    more = {cp: deeper - flatter for cp, (flatter, deeper) in peaks.items()}
    tokens = (8 * 4 * 4 + 1) * 32 * 4
    with torch.device("meta"):
        block = MODELS.build(CFG.model.backbone).encoder.blocks[0]
    gradients = 4 * sum(p.numel() for p in block.parameters())
    assert more[True] <= tokens + gradients
    assert more[False] > 3 * more[True]


def test_recurrent_models_are_refused() -> None:
    cfg = Config(dict(model=dict(neck=dict(type="mmvidformer.Horst"))))
    with pytest.raises(ValueError, match="mmvidformer.Horst is recurrent"):
        estimate(cfg, Step(False))
