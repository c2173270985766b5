"""FlexAttention against the plain kernels, as the commands apply it."""

import logging
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import flex_attention

from mmvidformer.models import VideoTransformer
from mmvidformer.models.fast import flex
from mmvidformer.models.fast.inference import optimize_for_inference
from mmvidformer.models.fast.training import optimize_for_training
from tests.models.tiny import perturb

ARCH = dict(embed_dims=32, depth=2, num_heads=2, mlp_ratio=2)
SIZE = dict(arch=ARCH, img_size=48, clip_len=5, stem=dict(tubelet=(1, 8, 8)))
CLIP = (2, 3, 5, 48, 40)
CAPPED = dict(type="capped", cap=0.5)
CASES = {
    "capped": dict(block=[dict(pattern="joint", kernel=CAPPED)], cls="mean"),
    "causal": dict(block=[dict(pattern="causal_joint")], pool="none"),
    "causal, capped": dict(block=[dict(pattern="causal_joint", kernel=CAPPED)], pool="none"),
    "causal, past": dict(block=[dict(pattern=dict(type="causal_joint", past=2))], pool="none"),
    "local": dict(block=[dict(pattern="local")]),
    "local, class token": dict(block=[dict(pattern="local")], cls="global", registers=2),
}
OTHERS = {
    "short sequences": dict(block=[dict(pattern="space", kernel=CAPPED)]),
    "narrow heads": dict(CASES["capped"], arch={**ARCH, "num_heads": 4}),
    "fused": dict(block=[dict(pattern="joint")]),
}


def build(options: dict) -> VideoTransformer:
    torch.manual_seed(0)
    return perturb(VideoTransformer(**{**SIZE, **options}))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, ...]]]:
    """Shapes of the queries; FlexAttention runs on the CPU, where it computes all scores."""
    shapes: list[tuple[int, ...]] = []

    def record(q: Tensor, *args: Tensor, **options: object) -> Tensor:
        shapes.append(q.shape)
        return flex_attention(q, *args, **options)

    monkeypatch.setattr(flex, "DEVICES", {"cpu"})
    monkeypatch.setattr(flex, "compiles", lambda device: True)
    monkeypatch.setattr(flex, "_compiled", lambda: record)
    yield shapes


@torch.no_grad()
def compare(model: VideoTransformer, change: Callable[[nn.Module], None]) -> None:
    clip = torch.randn(CLIP)
    expected = model.eval()(clip)
    fast = optimize_for_inference(model)
    torch.testing.assert_close(fast(clip), expected)
    change(model)
    torch.testing.assert_close(model(clip), expected)


@pytest.mark.parametrize("name", CASES)
def test_outputs_are_those_of_the_plain_kernels(name: str, calls: list) -> None:
    compare(build(CASES[name]), optimize_for_training)
    blocks = ARCH["depth"] - ("cls" in CASES[name])  # the last one attends from the class token
    assert len(calls) == 2 * blocks


@pytest.mark.parametrize("name", OTHERS)
def test_other_attention_runs_as_before(name: str, calls: list) -> None:
    compare(build(OTHERS[name]), optimize_for_training)
    assert not calls


def test_a_cpu_has_no_use_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flex, "_compiled", lambda: pytest.fail("it ran"))
    compare(build(CASES["capped"]), optimize_for_training)


def test_where_it_does_not_compile_attention_runs_as_before(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: Tensor, **options: object) -> Tensor:
        raise RuntimeError("Failed to find C compiler\nand more")

    monkeypatch.setattr(flex, "DEVICES", {"cpu"})
    monkeypatch.setattr(flex, "_compiled", lambda: fail)
    flex.compiles.cache_clear()
    with caplog.at_level(logging.WARNING, "mmvidformer"):
        compare(build(CASES["capped"]), optimize_for_training)
    flex.compiles.cache_clear()
    (record,) = caplog.records
    message = "FlexAttention is not used, as it fails on cpu: Failed to find C compiler"
    assert record.getMessage() == message


@pytest.mark.slow
@pytest.mark.parametrize("name", ["causal, capped", "local, class token"])
def test_compiled_on_a_cpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler's own loops over blocks; it has those of the forward pass alone."""
    monkeypatch.setattr(flex, "DEVICES", {"cpu"})
    monkeypatch.setattr(flex, "compiles", lambda device: True)
    compare(build(CASES[name]), optimize_for_training)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_outputs_and_gradients_on_a_gpu(name: str, dtype: torch.dtype) -> None:
    clip = torch.randn(CLIP, device="cuda")
    assert flex.compiles(clip.device)
    results = []
    for change in (lambda model: None, optimize_for_training):
        model = build(CASES[name]).cuda().train()
        change(model)
        with torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
            out = model(clip)
        out.float().square().mean().backward()
        results.append([out.float(), *(parameter.grad for parameter in model.parameters())])
    tolerance = 2e-3 if dtype == torch.float32 else 5e-2
    for fast, expected in zip(*reversed(results), strict=True):
        assert (fast - expected).norm() <= tolerance * expected.norm() + 1e-6
