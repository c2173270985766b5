"""The gated recurrence: its formula step by step, streams, and what it refuses."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from mmvidformer.layers import KERNELS, Attention
from mmvidformer.layers.kernels.recurrence import STEEPEST, GatedRecurrenceKernel, bounded_sqrt
from mmvidformer.layers.masks import Causal
from mmvidformer.models import VideoTransformer

HEADS, D, WIDTH = 2, 6, 3


def make(expand: int = 2) -> Any:
    torch.manual_seed(0)
    options = dict(type="recurrence", expand=expand, width=WIDTH)
    kernel = KERNELS.build(options, head_dim=D // expand, num_heads=HEADS).double()
    with torch.no_grad():
        for parameter in kernel.parameters():
            parameter.normal_()
    return kernel


def inputs(length: int = 7) -> list[Tensor]:
    torch.manual_seed(1)
    shape = 2, HEADS, length, D
    return [torch.randn(shape, dtype=torch.double, requires_grad=True) for _ in range(3)]


def compute_naively(kernel: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Each head and step on its own, by the formula of the class."""
    out = torch.zeros_like(q)
    for head in range(HEADS):
        hidden = torch.zeros_like(q[:, 0, 0])
        for t in range(q.shape[2]):
            mixed = []
            for x in (k, v):
                seen = [x[:, head, t - ago] if t >= ago else 0 for ago in range(WIDTH)]
                weights = kernel.conv_weight[:, head].flip(0)
                terms = [w * y for w, y in zip(weights, seen, strict=True)]
                mixed.append(sum(terms) + kernel.conv_bias[head])
            key, value = mixed
            opened = torch.sigmoid(key @ kernel.input_weight[head] + kernel.input_bias[head])
            gate = torch.sigmoid(key @ kernel.decay_weight[head] + kernel.decay_bias[head])
            decay = torch.exp(-8 * gate * F.softplus(kernel.decay[head]))
            root = (1 - decay**2).sqrt() if t else 1
            hidden = decay * hidden + root * opened * value
            out[:, head, t] = F.gelu(q[:, head, t], approximate="tanh") * hidden
    return out


@pytest.mark.parametrize("length", [1, 2, 7])
def test_formula_with_all_gradients(length: int) -> None:
    kernel, (q, k, v) = make(), inputs(length)
    out, expected = kernel(q, k, v, Causal()), compute_naively(kernel, q, k, v)
    torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-11)
    leaves, weight = [q, k, v, *kernel.parameters()], torch.randn_like(out)
    # A clip of one frame has no decay.
    found = torch.autograd.grad((out * weight).sum(), leaves, materialize_grads=True)
    wanted = torch.autograd.grad((expected * weight).sum(), leaves, materialize_grads=True)
    for gradient, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("steps", [[1] * 7, [2, 5], [1, 3, 3]])
@torch.no_grad()
def test_streams_equal_clips_with_a_constant_state(steps: list[int]) -> None:
    kernel, (q, k, v) = make(), inputs()
    past, outs, sizes, before = None, [], [], 0
    for part in zip(*(x.split(steps, dim=2) for x in (q, k, v)), strict=True):
        out, past = kernel.resume(*part, Causal(before=before), past)
        before += out.shape[2]
        outs.append(out)
        sizes.append([tuple(x.shape) for x in past])
    torch.testing.assert_close(torch.cat(outs, dim=2), kernel(q, k, v, Causal()))
    short = (2, HEADS, WIDTH - 1, D)
    assert sizes == [[short, short, (2, HEADS, 1, D)]] * len(steps)


@torch.no_grad()
def test_values_are_linear_and_sums_are_in_single_precision() -> None:
    """Rollout mixes other values with the keys of a clip; half precision rounds its inputs only."""
    kernel, (q, k, v) = make(), inputs()
    kernel.conv_bias.zero_()
    other = torch.randn_like(v)
    both = kernel(q, k, v + 2 * other, Causal())
    torch.testing.assert_close(both, kernel(q, k, v, Causal()) + 2 * kernel(q, k, other, Causal()))
    half = [x.bfloat16() for x in (q, k, v)]
    kernel = kernel.float()
    expected = kernel(*(x.float() for x in half), Causal()).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(kernel(*half, Causal()), expected)


def test_the_root_is_exact_and_its_derivative_bounded() -> None:
    x = torch.tensor([0.0, 1e-12, 1e-4, 0.25, 1.0], dtype=torch.double, requires_grad=True)
    root = bounded_sqrt(x)
    assert torch.equal(root, x.sqrt())
    root.sum().backward()
    expected = torch.tensor([STEEPEST, STEEPEST, 50.0, 1.0, 0.5], dtype=torch.double)
    torch.testing.assert_close(x.grad, expected)


def test_a_new_kernel_decays_as_it_says() -> None:
    kernel = GatedRecurrenceKernel(64, num_heads=4, min_decay=0.5)
    decay = (-F.softplus(kernel.decay)).exp()
    assert 0.499 < decay.min() < 0.55 and 0.95 < decay.max() < 0.9991


@pytest.mark.parametrize(
    ("pattern", "options", "match"),
    [
        ("time", {}, "runs over time and keeps all of the past: use pattern causal_time"),
        ("causal_joint", {}, "use pattern causal_time without past, got 'causal_joint'"),
        (dict(type="causal_time", past=4), {}, "use pattern causal_time without past, got {"),
        ("causal_time", dict(rope="axial"), "cannot use rotary positions"),
        ("causal_time", dict(qkv_bias="qv"), "has no keys apart: use"),
        ("causal_time", dict(kernel=dict(type="recurrence", expand=0)), "expand .* at least 1"),
        ("causal_time", dict(kernel=dict(type="recurrence", min_decay=1.0)), "min_decay must be"),
    ],
)
def test_what_it_cannot_do_is_refused_when_built(pattern: Any, options: dict, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        Attention(24, 4, [pattern], cls="skip", **{"kernel": "recurrence", **options})


def test_several_patterns_have_no_weights_of_some_heads() -> None:
    with pytest.raises(ValueError, match="has weights of each head: give one pattern"):
        Attention(24, 4, ["causal_time"] * 2, cls="skip", kernel="recurrence")


@torch.no_grad()
def test_a_model_runs_frame_by_frame_and_frames_have_tokens() -> None:
    torch.manual_seed(0)
    model = VideoTransformer(
        dict(embed_dims=24, depth=2, num_heads=2),
        4,
        16,
        stem=dict(tubelet=(1, 8, 8)),
        block=[
            dict(pattern="causal_time", kernel=dict(type="recurrence", expand=2), norm="rms"),
            dict(pattern="space"),
        ],
        positions="space",
        frames="token",
        pool="none",
    ).eval()
    clip = torch.randn(2, 3, 40, 16, 16)
    state, tokens = None, []
    for frames in clip.split([1, 1, 8, 30], dim=2):
        step, state = model.step(frames, state)
        tokens.append(step)
    whole = model(clip)
    assert whole.shape == (2, 40, 1, 1, 24)
    torch.testing.assert_close(torch.cat(tokens, dim=1), whole, atol=1e-5, rtol=1e-5)
    with pytest.raises(ValueError, match="frames='token' goes with neither a class token nor"):
        VideoTransformer(frames="token", cls="mean")
    with pytest.raises(ValueError, match="has no place for the token of frames='token'"):
        VideoTransformer(frames="token", block=[dict(pattern="width")], pool="none")
