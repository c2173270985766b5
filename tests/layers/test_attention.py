"""Attention compared with dense, masked attention: outputs and all gradients."""

from collections.abc import Sequence

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from mmvidformer.layers import Attention
from mmvidformer.layers.drop import Draw
from mmvidformer.models.fast.recompute import recompute
from tests.layers.dense import allowed, masked_attention
from tests.layers.pairs import project, run

GRID = (3, 4, 2)
DIM, HEADS = 16, 4


def grads(module: torch.nn.Module, loss: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(loss, list(module.parameters())))


def assert_same(attn: Attention, out: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(out, expected, atol=1e-6, rtol=1e-5)
    weight = torch.randn_like(out)
    for a, b in zip(
        grads(attn, (out * weight).sum()), grads(attn, (expected * weight).sum()), strict=True
    ):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kernel", ["softmax", "linear"])
@pytest.mark.parametrize(
    "pattern", ["height", "joint", "local", "space", "strided", "time", "width"]
)
def test_each_pattern_is_masked_attention(pattern: str, kernel: str) -> None:
    torch.manual_seed(0)
    attn = Attention(DIM, HEADS, patterns=(pattern,), kernel=kernel)
    grid = torch.randn(2, *GRID, DIM)
    out, cls = run(attn, grid)
    assert cls is None
    expected = attn.proj(masked_attention(attn, grid.flatten(1, 3), allowed(pattern, GRID)))
    assert_same(attn, out.flatten(1, 3), expected)


def test_two_patterns_share_the_heads_in_order() -> None:
    torch.manual_seed(0)
    attn = Attention(DIM, HEADS, patterns=("time", "space"))
    grid = torch.randn(2, *GRID, DIM)
    tokens = grid.flatten(1, 3)
    halves = [
        masked_attention(attn, tokens, allowed(pattern, GRID), heads)
        for pattern, heads in (("time", slice(0, 2)), ("space", slice(2, 4)))
    ]
    assert_same(attn, run(attn, grid)[0].flatten(1, 3), attn.proj(torch.cat(halves, -1)))


def test_joint_pattern_with_class_token_is_ordinary_attention() -> None:
    torch.manual_seed(0)
    attn = Attention(DIM, HEADS)
    grid, cls = torch.randn(2, *GRID, DIM), torch.randn(2, 1, DIM)
    tokens = torch.cat([cls, grid.flatten(1, 3)], 1)
    everyone = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool)
    out, cls_out = run(attn, grid, cls)
    out = torch.cat([cls_out, out.flatten(1, 3)], 1)
    assert_same(attn, out, attn.proj(masked_attention(attn, tokens, everyone)))


@pytest.mark.parametrize("dropped", [False, True])
def test_copies_of_the_class_token_are_averaged_after_stochastic_depth(dropped: bool) -> None:
    torch.manual_seed(0)
    attn = Attention(DIM, HEADS, patterns=("space",))
    grid, cls = torch.randn(2, *GRID, DIM), torch.randn(2, 1, DIM)
    factors = torch.tensor([[0.0, 2.0, 2.0], [2.0, 0.0, 0.0]]) if dropped else None
    out, cls_out = run(attn, grid, cls, None if factors is None else Draw(factors))

    everyone = torch.ones(9, 9, dtype=torch.bool)
    frames, copies = [], []
    for t in range(GRID[0]):
        frame = torch.cat([cls, grid[:, t].flatten(1, 2)], 1)
        update = attn.proj(masked_attention(attn, frame, everyone))
        update = update if factors is None else update * factors[:, t, None, None]
        copies.append(update[:, :1])
        frames.append(update[:, 1:])
    expected = torch.cat([torch.stack(copies).mean(0), *frames], 1)
    assert_same(attn, torch.cat([cls_out, out.flatten(1, 3)], 1), expected)


@pytest.mark.parametrize("kernel", ["softmax", "linear"])
@pytest.mark.parametrize("pattern", ["local", "strided"])
def test_global_class_token_attends_to_everything(pattern: str, kernel: str) -> None:
    torch.manual_seed(0)
    attn = Attention(DIM, HEADS, patterns=(pattern,), cls="global", kernel=kernel)
    grid, cls = torch.randn(2, *GRID, DIM), torch.randn(2, 1, DIM)
    everyone = F.pad(allowed(pattern, GRID), (1, 0, 1, 0), value=True)
    expected = attn.proj(masked_attention(attn, torch.cat([cls, grid.flatten(1, 3)], 1), everyone))
    out, cls_out = run(attn, grid, cls)
    assert_same(attn, torch.cat([cls_out, out.flatten(1, 3)], 1), expected)


@pytest.mark.parametrize(
    ("pattern", "seen"),
    [
        ("causal_joint", range(GRID[0])),
        (dict(type="causal_joint", past=2), range(GRID[0] - 2, GRID[0])),
        (dict(type="causal_time", past=2), range(GRID[0] - 2, GRID[0])),
        ("space", [GRID[0] - 1]),
    ],
)
def test_a_sink_reads_what_the_last_frame_sees(pattern: str | dict, seen: Sequence[int]) -> None:
    torch.manual_seed(0)
    attn = Attention(DIM, HEADS, patterns=(pattern,), cls="sink")
    grid, cls = torch.randn(2, *GRID, DIM), torch.randn(2, 2, DIM)
    out, cls_out = run(attn, grid, cls)
    tokens = torch.cat([cls, grid[:, [*seen]].flatten(1, 3)], 1)
    everyone = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool)
    assert_same(attn, cls_out, attn.proj(masked_attention(attn, tokens, everyone))[:, :2])
    attn.cls = "skip"
    torch.testing.assert_close(out, run(attn, grid)[0])


@pytest.mark.parametrize("kernel", ["softmax", "linear"])
def test_copies_of_the_class_token_ignore_keys_outside_the_grid(kernel: str) -> None:
    torch.manual_seed(0)
    attn = Attention(DIM, HEADS, patterns=("local",), kernel=kernel)
    grid, cls = torch.randn(2, *GRID, DIM), torch.randn(2, 1, DIM)
    everyone = F.pad(allowed("local", GRID), (1, 0, 1, 0), value=True)
    tokens = torch.cat([cls, grid.flatten(1, 3)], 1)
    expected = masked_attention(attn, tokens, everyone)
    copies = []
    for window in allowed("local", GRID).unflatten(0, GRID)[0].flatten(0, 1):  # one per place
        mask = everyone.clone()
        mask[0, 1:] = window
        copies.append(masked_attention(attn, tokens, mask)[:, :1])
    expected[:, :1] = torch.stack(copies).mean(0)
    out, cls_out = run(attn, grid, cls)
    torch.testing.assert_close(cls_out, attn.proj(expected)[:, :1], atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(out.flatten(1, 3), attn.proj(expected)[:, 1:], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("fixation", [None, "qkv_shared"])
def test_prepared_tokens_are_not_copied(fixation: str | None) -> None:
    """Values that nothing changes are the memory that the projection wrote."""
    attn = Attention(DIM, HEADS, patterns=("space",), kernel="linear", fixation=fixation)
    outputs = []
    attn.qkv.register_forward_hook(lambda _, inputs, output: outputs.append(output))
    (_, _, v), (_, _, v_cls) = project(attn, torch.randn(1, *GRID, DIM), torch.randn(1, 1, DIM))
    for values in (v, v_cls):
        assert values.untyped_storage().data_ptr() == outputs[0].untyped_storage().data_ptr()


def test_skipped_class_token_is_not_attended_to() -> None:
    attn = Attention(DIM, HEADS, patterns=("time",), cls="skip")
    grid = torch.randn(2, *GRID, DIM)
    out, cls_out = run(attn, grid, torch.randn(2, 1, DIM))
    assert cls_out is None
    torch.testing.assert_close(out, run(attn, grid)[0])


@pytest.mark.parametrize(
    ("kwargs", "error", "match"),
    [
        ({"num_heads": 3}, ValueError, r"dim \(16\).*num_heads \(3\)"),
        ({"num_heads": 1, "patterns": ("time", "space")}, ValueError, r"num_heads \(1\)"),
        ({"num_heads": 2, "patterns": ()}, ValueError, "number of patterns"),
        ({"num_heads": 2, "patterns": ("diagonal",)}, KeyError, "diagonal.*joint"),
        ({"num_heads": 2, "kernel": "hard"}, KeyError, "hard.*softmax"),
        ({"num_heads": 2, "cls": "maybe"}, ValueError, "maybe"),
    ],
)
def test_wrong_arguments_are_named(kwargs: dict, error: type, match: str) -> None:
    with pytest.raises(error, match=match):
        Attention(16, **kwargs)


@pytest.mark.parametrize("kernel", ["linear", "performer", "lara"])
@pytest.mark.parametrize("cls", ["mean", "skip"])
def test_linear_attention_is_recomputed(kernel: str, cls: str) -> None:
    results, sizes = [], []
    for again in (False, "activations"):
        torch.manual_seed(0)
        options = {"kernel": kernel, "fixation": "qkv_shared", "shifts": ["spatial"]}
        attn = Attention(32, 2, ("time",), cls, **options).train()
        recompute(attn, again)
        grid = torch.randn(1, 4, 4, 4, 32, requires_grad=True)
        kept: dict[int, int] = {}

        def keep(tensor: torch.Tensor, kept: dict[int, int] = kept) -> torch.Tensor:
            storage = tensor.untyped_storage()
            kept[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            outs = [x for x in run(attn, grid, torch.randn(1, 1, 32)) if x is not None]
        loss = sum(x.square().sum() for x in outs)
        leaves = [grid, *attn.parameters()]
        results.append([*outs, *torch.autograd.grad(loss, leaves, allow_unused=True)])
        count = grid.numel() + (32 if cls == "mean" else 0)
        sizes.append(sum(size == 4 * count for size in kept.values()))
    for recomputed, plain in zip(*results[::-1], strict=True):
        torch.testing.assert_close(recomputed, plain)
    # The input and that of the output projection; with a class token, the latter is a view.
    assert sizes[1] <= 2 < sizes[0]
