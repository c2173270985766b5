"""Random compositions: the plain model against each pass, with its outputs and gradients."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_mask, flex_attention

from mmvidformer.models import VideoTransformer
from mmvidformer.models.fast import flex, folded_fc
from mmvidformer.models.fast.compiled_blocks import compile_blocks
from mmvidformer.models.fast.folded_fc import fold_fc
from mmvidformer.models.fast.inference import optimize_for_inference
from mmvidformer.models.fast.int8 import round_to_int8
from mmvidformer.models.fast.kept_rows import compute_kept_rows
from mmvidformer.models.fast.onednn import multiply_in_onednn
from mmvidformer.models.fast.prefix_only import compute_prefix_only
from mmvidformer.models.fast.recompute import copy_again, recompute
from mmvidformer.models.fast.regrouped_once import regroup_once
from mmvidformer.models.fast.run_lengths import find_runs, share_computed
from mmvidformer.models.fast.run_rules import rule_of
from mmvidformer.models.fast.token_dropping import draw_tokens
from mmvidformer.models.fast.training import optimize_for_training
from mmvidformer.models.single_frames import encode_frames, encodes_frames, forward_frames
from tests.models.compositions import draw
from tests.models.tiny import ARCH, perturb

PASSES: dict[str, Callable[[nn.Module], None]] = {
    "folded fc": fold_fc,
    "kept rows": compute_kept_rows,
    "prefix only": compute_prefix_only,
    "regrouped once": regroup_once,
    "copied again": copy_again,
    "activations again": lambda model: recompute(model, "activations"),
    "all, blocks again": lambda model: [optimize_for_training(model), recompute(model, True)],
    "all": optimize_for_training,
    "twice": lambda model: [optimize_for_training(model) for _ in range(2)],
}


def build(options: dict) -> tuple[VideoTransformer, Tensor] | None:
    """A model with stochastic depth, and clips; None if the parts do not fit.

    It has no dropout, and no kernel that draws numbers in training: fewer are drawn
    where less is computed.
    """
    rows = [row for encoder in options["encoders"] for row in encoder["block"]]
    if any(row["kernel"] in ("lara", "orthoformer", "performer") for row in rows):
        return None
    length = options["stem"]["tubelet"][0]
    for encoder in options["encoders"]:
        encoder |= dict(drop_path_rate=0.6, depth=2)
    torch.manual_seed(0)
    try:
        model = VideoTransformer(arch=ARCH, clip_len=4 * length, img_size=32, **options)
    except (ValueError, KeyError):
        return None
    return perturb(model).double(), torch.randn(3, 3, 4 * length, 32, 32, dtype=torch.float64)


def step(model: nn.Module, clip: Tensor) -> list[Tensor]:
    """Output and gradients, for the same draws each time."""
    torch.manual_seed(1)
    clip = clip.clone().requires_grad_()
    out = model(clip)
    out.square().sum().backward()
    return [out.detach(), clip.grad, *(parameter.grad for parameter in model.parameters())]


@pytest.mark.parametrize("count", [20, pytest.param(500, marks=pytest.mark.slow)])
def test_passes_change_neither_outputs_nor_gradients(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folded_fc, "LEAST_SAVED", -(10**9))
    built = [pair for options in draw(count) if (pair := build(options))]
    assert len(built) > count / 10
    for model, clip in built:
        model.train()
        expected, names = step(copy.deepcopy(model), clip), list(model.state_dict())
        with torch.no_grad():
            answer = copy.deepcopy(model).eval()(clip)
        for apply in PASSES.values():
            fast = copy.deepcopy(model)
            apply(fast)
            fast = copy.deepcopy(fast)
            assert list(fast.state_dict()) == names
            torch.testing.assert_close(step(fast, clip), expected, rtol=1e-7, atol=1e-8)
            with torch.no_grad():
                torch.testing.assert_close(fast.eval()(clip), answer)
        with torch.no_grad():
            torch.testing.assert_close(optimize_for_inference(fast)(clip), answer)


def gradients(model: nn.Module, out: Tensor) -> list[Tensor]:
    """The output, and the gradients of the weights."""
    model.zero_grad()
    out.square().sum().backward()
    return [out.detach(), *(parameter.grad.clone() for parameter in model.parameters())]


def joint(options: dict) -> dict:
    """With attention of all tokens, to which several may be one; the other parts stay."""
    for encoder in options["encoders"]:
        encoder |= dict(frames="together", positions="space", rope=None)
        encoder["mlp"].pop("depthwise", None)
        for row in encoder["block"]:
            row |= dict(pattern="joint", shifts=(), shift_last=False)
    return options


def in_frames(options: dict) -> dict:
    """With a first encoder that sees frames; the other parts stay."""
    first, *others = options["encoders"]
    first |= dict(frames="pool" if others else "average")
    for row in first["block"]:
        row |= dict(pattern="space", shifts=(), shift_last=False)
    return options


def build_all(count: int, suit: Callable[[dict], dict]) -> list[tuple[VideoTransformer, Tensor]]:
    return [pair for options in draw(count) if (pair := build(suit(options)))]


@pytest.mark.parametrize("count", [20, pytest.param(500, marks=pytest.mark.slow)])
def test_run_lengths_change_neither_outputs_nor_gradients(count: int) -> None:
    """Of a clip that moves, one of which a quarter moves, and one that stands still."""
    compared = 0
    for model, clip in build_all(count, joint):
        rule = rule_of(model)
        if rule.conflicts or rule.inexact:
            continue
        length = model.embed.tubelet[0]
        clip[1, :, :, :24] = clip[1, :, :length, :24].repeat(1, 4, 1, 1)
        clip[2] = clip[2, :, :length].repeat(1, 4, 1, 1)
        expected = gradients(model.eval(), model(clip))
        model.static = 0.0
        assert share_computed(find_runs(model, clip, 0.0)) < 0.7
        torch.testing.assert_close(gradients(model, model(clip)), expected)
        compared += 1
    assert compared > count / 10


@pytest.mark.parametrize("count", [20, pytest.param(500, marks=pytest.mark.slow)])
def test_dropped_tokens_are_as_those_that_a_caller_leaves_out(count: int) -> None:
    compared = 0
    for model, clip in build_all(count, joint):
        if any(conflict.rules_out == "places" for conflict in model.conflicts):
            continue
        answer = model.eval()(clip)
        torch.manual_seed(1)
        kept = draw_tokens(model, clip, 0.5)
        expected = gradients(model.train(), model(clip, kept=kept))
        model.token_keep = 0.5
        torch.manual_seed(1)
        torch.testing.assert_close(gradients(model, model(clip)), expected)
        torch.testing.assert_close(model.eval()(clip), answer)
        compared += 1
    assert compared > count / 10


@pytest.mark.parametrize("count", [20, pytest.param(500, marks=pytest.mark.slow)])
def test_shared_frames_change_neither_outputs_nor_gradients(count: int) -> None:
    compared = 0
    for model, clip in build_all(count, in_frames):
        if not encodes_frames(model):
            continue
        expected = gradients(model.eval(), model(clip))
        found = forward_frames(model, encode_frames(model, clip))
        torch.testing.assert_close(gradients(model, found), expected)
        compared += 1
    assert compared > count / 10


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="built without oneDNN")
@pytest.mark.parametrize("count", [20, pytest.param(500, marks=pytest.mark.slow)])
def test_products_in_onednn_and_8_bits(count: int) -> None:
    """oneDNN's differ by rounding, in outputs and gradients; those of 8 bits answer alike."""
    for model, clip in build_all(count, lambda options: options):
        model, clip = model.float().eval(), clip.float()
        expected = gradients(model, model(clip))
        fast = copy.deepcopy(model)
        multiply_in_onednn(fast)
        for found, value in zip(gradients(fast, fast(clip)), expected, strict=True):
            assert (found - value).norm() <= 1e-4 * value.norm() + 1e-6
        round_to_int8(model)
        with torch.no_grad():
            found = model(clip)
        assert 0 < (found - expected[0]).norm() < 0.2 * expected[0].norm()


def for_flex(options: dict) -> dict:
    """With attention that FlexAttention computes; the other parts stay."""
    patterns = ("causal_joint", dict(type="causal_joint", past=2), "local", "joint")
    for encoder in options["encoders"]:
        for number, row in enumerate(encoder["block"]):
            pattern = patterns[(len(row["shifts"]) + number) % 4]
            kernel = dict(type="capped", cap=0.5) if pattern == "joint" else "softmax"
            row |= dict(pattern=pattern, kernel=kernel, shifts=(), shift_last=False)
    return options


def attend_by_formula(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    """What FlexAttention's documentation says: on a CPU it has no gradients itself."""
    change, blocks = options["score_mod"], options["block_mask"]
    scores = q @ k.transpose(-1, -2) * options["scale"]
    scores = scores if change is None else change(scores)
    if blocks is not None:
        seen = create_mask(blocks.mask_mod, None, None, q.shape[-2], k.shape[-2], "cpu")
        scores = scores.masked_fill(~seen, -torch.inf)
    return scores.softmax(-1) @ v


@pytest.mark.parametrize("count", [8, pytest.param(500, marks=pytest.mark.slow)])
def test_flex_attention_changes_neither_outputs_nor_gradients(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uncompiled, on the CPU, where it computes all scores."""
    calls = []

    def record(*inputs: Tensor, **options: Any) -> Tensor:
        calls.append(options)
        return (attend_by_formula if torch.is_grad_enabled() else flex_attention)(
            *inputs, **options
        )

    monkeypatch.setattr(flex, "DEVICES", {"cpu"})
    monkeypatch.setattr(flex, "compiles", lambda device: True)
    monkeypatch.setattr(flex, "_compiled", lambda: record)
    monkeypatch.setattr(flex, "LEAST_TOKENS", 1)
    monkeypatch.setattr(flex, "LEAST_WIDTH", 1)
    compared = 0
    for model, clip in build_all(count, for_flex):
        model, clip = model.float().eval(), clip.float()
        expected = gradients(model, model(clip))
        flex.attend_in_flex(model)
        calls.clear()
        with torch.no_grad():
            torch.testing.assert_close(model(clip), expected[0], rtol=1e-4, atol=1e-5)
        for found, value in zip(gradients(model, model(clip)), expected, strict=True):
            assert (found - value).norm() <= 1e-4 * value.norm() + 1e-6
        compared += bool(calls)
    assert compared > count / 10


@pytest.mark.slow
def test_compiled_blocks_change_neither_outputs_nor_gradients() -> None:
    for model, clip in build_all(60, lambda options: options)[:6]:
        torch.compiler.reset()
        expected = gradients(model.eval(), model(clip))
        compile_blocks(model, backend="aot_eager")
        torch.testing.assert_close(gradients(model, model(clip)), expected)
