"""Scores of softmax attention in bfloat16 on a CPU: a part is in memory at a time."""

import pytest
import torch
from torch import Tensor

from mmvidformer.layers.kernels import SoftmaxKernel, softmax

D = 4


@pytest.mark.parametrize("parts", [1, 4])
def test_scores_are_joined_only_if_there_are_parts(
    parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, x = SoftmaxKernel(D).eval(), torch.randn(2, 3, 8, D, dtype=torch.bfloat16)
    monkeypatch.setattr(softmax, "SCORES", 64 // parts)
    joined, cat = [], torch.cat
    monkeypatch.setattr(torch, "cat", lambda x, dim: (joined.append(len(x)), cat(x, dim))[1])
    with torch.no_grad():
        out = kernel(x, x, x)
    assert joined == ([] if parts == 1 else [parts])
    scores = (x.float() @ x.float().transpose(-1, -2) * D**-0.5).softmax(dim=-1)
    torch.testing.assert_close(out.float(), scores @ x.float(), atol=0.05, rtol=0.05)


def record_heads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of heads of all clips that are attended to at once."""
    heads, attend = [], SoftmaxKernel._attend_in_rows

    def record(kernel: SoftmaxKernel, q: Tensor, *others: Tensor) -> list[Tensor]:
        heads.append(q.shape[:-2].numel())
        return attend(kernel, q, *others)

    monkeypatch.setattr(SoftmaxKernel, "_attend_in_rows", record)
    return heads


@pytest.mark.parametrize("hides", [False, True], ids=["all", "mask"])
@pytest.mark.parametrize(
    ("queries", "scores", "parts"),
    [(8, 32, [4, 4, 4, 3]), (3, 32, [4, 4, 4, 3]), (3, 64, [8, 7]), (1, 10**6, [15])],
)
def test_many_scores_are_computed_some_heads_at_a_time(
    queries: int, scores: int, parts: list[int], hides: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = SoftmaxKernel(D).eval()
    q, x = (torch.randn(3, 5, n, D, dtype=torch.bfloat16) for n in (queries, 8))
    mask = torch.arange(8)[None] < 6 if hides else None
    monkeypatch.setattr(softmax, "SCORES", scores)
    heads = record_heads(monkeypatch)
    with torch.no_grad():
        expected = kernel(q, x, x, mask)
        monkeypatch.setattr(softmax, "MANY", 15 * 8 * min(queries, scores // 8))
        found = kernel(q, x, x, mask)
    assert heads == [15, *parts]
    torch.testing.assert_close(found, expected, atol=0.01, rtol=0.01)


@torch.no_grad()
def test_graphs_have_one_operator_for_all_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, x = SoftmaxKernel(D).eval(), torch.randn(2, 3, 8, D, dtype=torch.bfloat16)
    monkeypatch.setattr(softmax, "MANY", 0)
    monkeypatch.setattr(softmax, "SCORES", 64)
    clips = torch.export.Dim("clips", min=2, max=64)
    program = torch.export.export(kernel, (x, x, x), dynamic_shapes=[{0: clips}] * 3)
    names = [str(node.target) for node in program.graph.nodes]
    assert sum("matmul" in name for name in names) == 2
    heads = record_heads(monkeypatch)
    expected = kernel(x, x, x)
    assert heads == [4, 2]
    torch.testing.assert_close(program.module()(x, x, x), expected, atol=0.01, rtol=0.01)
