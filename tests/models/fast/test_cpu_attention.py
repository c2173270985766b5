"""Softmax attention in bfloat16 on a CPU: by matrix products, a part of the scores at a time."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

import mmvidformer
from mmvidformer.layers.kernels import SoftmaxKernel
from mmvidformer.models import VideoTransformer
from mmvidformer.models.fast import cpu_attention, onednn

D = 4
CLOSE = dict(atol=0.01, rtol=0.01)


@pytest.fixture
def kernel() -> SoftmaxKernel:
    kernel = SoftmaxKernel(D).eval()
    cpu_attention.attend_on_cpu(kernel, int8=False)
    return kernel


@pytest.mark.parametrize("parts", [1, 4])
def test_scores_are_joined_only_if_there_are_parts(
    parts: int, kernel: SoftmaxKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.randn(2, 3, 8, D, dtype=torch.bfloat16)
    monkeypatch.setattr(cpu_attention, "SCORES", 64 // parts)
    joined, cat = [], torch.cat
    monkeypatch.setattr(torch, "cat", lambda x, dim: (joined.append(len(x)), cat(x, dim))[1])
    with torch.no_grad():
        out = kernel(x, x, x)
    assert joined == ([] if parts == 1 else [parts])
    scores = (x.float() @ x.float().transpose(-1, -2) * D**-0.5).softmax(dim=-1)
    torch.testing.assert_close(out.float(), scores @ x.float(), atol=0.05, rtol=0.05)


def record_heads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of heads of all clips that are attended to at once."""
    heads, attend = [], cpu_attention._attend_in_rows

    def record(q: Tensor, *others: Tensor) -> list[Tensor]:
        heads.append(q.shape[:-2].numel())
        return attend(q, *others)

    monkeypatch.setattr(cpu_attention, "_attend_in_rows", record)
    return heads


@pytest.mark.parametrize("hides", [False, True], ids=["all", "mask"])
@pytest.mark.parametrize(
    ("queries", "scores", "parts"),
    [(8, 32, [4, 4, 4, 3]), (3, 32, [4, 4, 4, 3]), (3, 64, [8, 7]), (1, 10**6, [15])],
)
def test_many_scores_are_computed_some_heads_at_a_time(
    queries: int,
    scores: int,
    parts: list[int],
    hides: bool,
    kernel: SoftmaxKernel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    q, x = (torch.randn(3, 5, n, D, dtype=torch.bfloat16) for n in (queries, 8))
    mask = torch.arange(8)[None] < 6 if hides else None
    monkeypatch.setattr(cpu_attention, "SCORES", scores)
    heads = record_heads(monkeypatch)
    with torch.no_grad():
        expected = kernel(q, x, x, mask)
        monkeypatch.setattr(cpu_attention, "MANY", 15 * 8 * min(queries, scores // 8))
        found = kernel(q, x, x, mask)
        plain = SoftmaxKernel(D).eval()(q, x, x, mask)
    assert heads == [15, *parts]
    torch.testing.assert_close(found, expected, **CLOSE)
    torch.testing.assert_close(found, plain, atol=0.02, rtol=0.02)


@torch.no_grad()
def test_graphs_have_one_operator_for_all_heads(
    kernel: SoftmaxKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.randn(2, 3, 8, D, dtype=torch.bfloat16)
    monkeypatch.setattr(cpu_attention, "MANY", 0)
    monkeypatch.setattr(cpu_attention, "SCORES", 64)
    clips = torch.export.Dim("clips", min=2, max=64)
    program = torch.export.export(kernel, (x, x, x), dynamic_shapes=[{0: clips}] * 3)
    names = [str(node.target) for node in program.graph.nodes]
    assert sum("matmul" in name for name in names) == 2
    heads = record_heads(monkeypatch)
    expected = kernel(x, x, x)
    assert heads == [4, 2]
    torch.testing.assert_close(program.module()(x, x, x), expected, **CLOSE)


PAIRS, WEIGHTS = torch.ones(6, 6).tril().bool(), torch.ones(1, 6)


@pytest.mark.parametrize(
    ("dtype", "mask", "grad", "by_products"),
    [
        (torch.bfloat16, None, False, True),
        (torch.bfloat16, torch.arange(6)[None] < 4, False, True),
        (torch.bfloat16, None, True, False),
        (torch.bfloat16, PAIRS, False, False),
        (torch.bfloat16, WEIGHTS, False, False),
        (torch.float32, None, False, False),
    ],
)
def test_the_rest_runs_as_before(
    dtype: torch.dtype,
    mask: Tensor | None,
    grad: bool,
    by_products: bool,
    kernel: SoftmaxKernel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heads = record_heads(monkeypatch)
    q, k, v = torch.randn(3, 2, 2, 6, D).to(dtype)
    with torch.set_grad_enabled(grad):
        found, expected = (attend(q, k, v, mask) for attend in (kernel, SoftmaxKernel(D).eval()))
    assert bool(heads) is by_products
    exact = dict(atol=0, rtol=0)
    torch.testing.assert_close(found, expected, **(CLOSE if by_products else exact))


@torch.no_grad()
@pytest.mark.parametrize("has", [True, False])
def test_models_of_8_bits_attend_in_bfloat16_to_many_keys(has: bool, monkeypatch) -> None:
    monkeypatch.setattr(cpu_attention, "multiplies_bfloat16", lambda: has)
    monkeypatch.setattr(cpu_attention, "LEAST_KEYS", 8)
    kernel, types = SoftmaxKernel(8).eval(), []
    q, x = torch.randn(1, 2, 3, 8), torch.randn(1, 2, 8, 8)

    def run(q: Tensor, *others: Any) -> Tensor:
        types.append(q.dtype)
        return kernel(q, *others)

    attend = partial(cpu_attention.attend_in_bfloat16, kernel, run)
    out = attend(q, x, x)
    assert out.dtype == torch.float32
    torch.testing.assert_close(out, kernel(q, x, x), atol=2e-2, rtol=2e-2)
    attend(q, x[..., :7, :], x[..., :7, :])
    attend(q, x, x, torch.arange(8)[None] < 5)
    with torch.enable_grad():
        attend(q, x, x)
    assert types == [torch.bfloat16 if has else torch.float32, *[torch.float32] * 3]


@torch.no_grad()
@pytest.mark.skipif(not onednn.onednn_types(), reason="PyTorch was built without oneDNN")
def test_only_8_bits_attend_in_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_attention, "multiplies_bfloat16", lambda: True)
    monkeypatch.setattr(cpu_attention, "LEAST_KEYS", 4)
    heads = record_heads(monkeypatch)
    arch = dict(embed_dims=32, depth=1, num_heads=2)
    model = VideoTransformer(arch=arch, img_size=32, clip_len=4, block=[dict(pattern="joint")])
    clip = torch.randn(1, 3, 4, 32, 32)
    for int8 in (False, True):
        mmvidformer.optimize_for_inference(model, int8=int8)(clip)
        assert bool(heads) is int8
