"""The optimizer wrapper of each precision, and losses that stay float32."""

import pytest
import torch
from mmaction.structures import ActionDataSample
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper
from mmengine.registry import DefaultScope
from torch import nn

from mmvidformer.config.fragments import merge
from mmvidformer.engine.optim import precision
from mmvidformer.engine.optim.precision import precision_fragment
from mmvidformer.models.heads import MultiTaskHead, ZeroInitHead
from mmvidformer.models.horst.heads import AnticipationHead
from mmvidformer.models.horst.layer import HorstOutput

BF16 = "mmvidformer.Bf16OptimWrapper"
FP16 = "AmpOptimWrapper"


@pytest.mark.parametrize(
    ("device", "asked", "given", "expected"),
    [
        ("cpu", "auto", {}, {"type": BF16}),
        ("cpu", "bf16", {"type": FP16, "loss_scale": 512.0}, {"type": BF16}),
        ("cuda", "auto", {}, {"type": FP16, "dtype": "float16", "loss_scale": "dynamic"}),
        ("cuda", "bf16", {"type": FP16, "dtype": "bfloat16"}, {"type": BF16}),
        (
            "cuda",
            "fp16",
            {"type": BF16},
            {"type": FP16, "dtype": "float16", "loss_scale": "dynamic"},
        ),
        (
            "cuda",
            "fp16",
            {"type": FP16, "loss_scale": 512.0},
            {"type": FP16, "dtype": "float16", "loss_scale": 512.0},
        ),
    ],
)
def test_wrapper_of_each_device(monkeypatch, device, asked, given, expected) -> None:
    monkeypatch.setattr(precision, "get_device", lambda: device)
    cfg = Config({"optim_wrapper": {"accumulative_counts": 2, **given}})
    merge(cfg, precision_fragment(cfg, asked))
    assert cfg.optim_wrapper.to_dict() == {"accumulative_counts": 2, **expected}


def test_the_wrapper_has_a_name_in_configs() -> None:
    model = nn.Linear(2, 1)
    cfg = dict(type=BF16, optimizer=dict(type="SGD", lr=1.0))
    with DefaultScope.overwrite_default_scope("mmaction"):
        wrapper = build_optim_wrapper(model, cfg)
    assert type(wrapper) is precision.Bf16OptimWrapper
    with wrapper.optim_context(model):
        assert model(torch.ones(1, 2)).dtype == torch.bfloat16


def test_other_wrappers_are_refused() -> None:
    with pytest.raises(ValueError, match="Apex"):
        precision_fragment(Config({"optim_wrapper": {"type": "ApexOptimWrapper"}}))


def _maps(channels: int) -> HorstOutput:
    return HorstOutput(*torch.randn(3, 2, 3, channels, 2, 2))


HEADS = {
    "one label": (lambda: ZeroInitHead(num_classes=6, in_channels=4), torch.randn(2, 4), [1]),
    "tasks": (lambda: MultiTaskHead({"noun": 6, "verb": 5}, 4), torch.randn(2, 4), [1, 2]),
    "anticipation": (
        lambda: AnticipationHead({"action": 6, "verb": 5, "noun": 5}, 4),
        _maps(4),
        [1, 2, 3],
    ),
}


@pytest.mark.parametrize("name", HEADS)
def test_losses_and_scores_are_float32_under_bfloat16(name: str) -> None:
    build, feats, label = HEADS[name]
    head = build()
    samples = [ActionDataSample().set_gt_label(label) for _ in range(2)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        losses = head.loss(feats, samples)
        predicted = head.predict(feats, samples)[0].pred_score
    scores = predicted.values() if isinstance(predicted, dict) else [predicted]
    for key, value in losses.items():
        if "acc" not in key:
            assert value.dtype == torch.float32, key
    for value in scores:
        assert value.dtype == torch.float32
