"""FlexAttention against the plain kernels; on a CPU it computes all scores, without gradients."""

import copy

import pytest
import torch

from mmvidformer.models import VideoTransformer
from mmvidformer.models.fast import flex
from mmvidformer.models.fast.flex import attend_in_flex
from mmvidformer.models.fast.training import optimize_for_training
from tests.models.tiny import ARCH, perturb

SIZE = dict(arch=ARCH, img_size=48, clip_len=4, stem=dict(tubelet=(1, 8, 8)))
CAPPED = dict(type="capped", cap=0.5)
CASES = {
    "capped": dict(block=[dict(pattern="joint", kernel=CAPPED)], cls="mean"),
    "capped, divided": dict(block=[dict(pattern="time", kernel=CAPPED), dict(pattern="space")]),
    "causal": dict(block=[dict(pattern="causal_joint")], pool="none"),
    "causal, capped": dict(block=[dict(pattern="causal_joint", kernel=CAPPED)], pool="none"),
    "causal, past": dict(block=[dict(pattern=dict(type="causal_joint", past=2))], pool="none"),
    "local": dict(block=[dict(pattern="local")]),
    "local, class token": dict(block=[dict(pattern="local")], cls="global", registers=2),
}


def build(name: str) -> VideoTransformer:
    torch.manual_seed(0)
    return perturb(VideoTransformer(**SIZE, **CASES[name]))


@pytest.mark.parametrize("name", CASES)
def test_outputs_are_those_of_the_plain_kernels(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, clip = build(name).eval(), torch.randn(2, 3, 4, 48, 40)
    fast, calls = copy.deepcopy(model), []
    attend_in_flex(fast)
    flex_attention = flex.flex_attention
    monkeypatch.setattr(
        flex, "flex_attention", lambda *x, **y: (calls.append(1), flex_attention(*x, **y))[1]
    )
    with torch.no_grad():
        expected = model(clip)
        torch.testing.assert_close(fast(clip), expected, atol=0, rtol=0)  # a CPU has no use for it
        assert not calls
        monkeypatch.setattr(flex, "DEVICES", {"cpu"})
        torch.testing.assert_close(fast(clip), expected)
    assert calls


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_outputs_and_gradients_on_a_gpu(name: str, dtype: torch.dtype) -> None:
    clip = torch.randn(2, 3, 4, 48, 40, device="cuda")
    results = []
    for change in (lambda model: None, attend_in_flex, optimize_for_training):
        model = build(name).cuda().train()
        change(model)
        with torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
            out = model(clip)
        out.float().square().mean().backward()
        results.append([out.float(), *(parameter.grad for parameter in model.parameters())])
    tolerance = 2e-3 if dtype == torch.float32 else 5e-2
    for fast in results[1:]:
        for found, expected in zip(fast, results[0], strict=True):
            assert (found - expected).norm() <= tolerance * expected.norm() + 1e-6
