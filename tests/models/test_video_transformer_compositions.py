"""Random compositions, and a sample: built, run, compiled, exported and explained."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mmvidformer.apis.attention_rollout import rollout
from mmvidformer.apis.complexity import count_macs
from mmvidformer.layers import Attention, Places
from mmvidformer.models import VideoTransformer
from mmvidformer.models.fast.inference import optimize_for_inference
from mmvidformer.models.fast.recompute import recompute
from tests.layers.dense import attend
from tests.layers.pairs import joined, split
from tests.models.compositions import draw
from tests.models.tiny import ARCH, SIZE, STEM, needs_one_graph, perturb


def features(model: nn.Module, clip: Tensor, **options: Any) -> Tensor:
    torch.manual_seed(0)  # of kernels with random features
    return model(clip, **options)


@contextmanager
def compared_with_dense_attention(model: nn.Module) -> Iterator[list]:
    """Compare each attention of a forward pass with that of all pairs of tokens."""
    compared = []

    def compare(attn: Attention, inputs: tuple, out: Tensor) -> None:
        tokens, context = inputs[:2]
        expected, _ = joined(*attend(attn, *split(tokens, context.grid)))
        torch.testing.assert_close(out, expected, atol=1e-9, rtol=1e-9)
        compared.append(attn)

    hooks = [m.register_forward_hook(compare) for m in model.modules() if isinstance(m, Attention)]
    yield compared
    for hook in hooks:
        hook.remove()
    assert len(compared) == len(hooks)


def check_composition(options: dict) -> bool:
    """Gradients, checkpointing, inference, other sizes and types; returns whether it was built."""
    torch.manual_seed(0)
    length = options["stem"]["tubelet"][0]
    try:
        model = VideoTransformer(arch=ARCH, clip_len=4 * length, img_size=32, **options)
    except (ValueError, KeyError) as error:
        assert "\n" not in str(error) and len(str(error)) < 250
        return False
    perturb(model).double()
    clip = torch.randn(2, 3, 4 * length, 32, 32, dtype=torch.float64)
    model.eval()
    out = features(model, clip)
    out.square().sum().backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    without = [name for name, grad in gradients.items() if grad is None or not grad.any()]
    assert not without

    model.zero_grad()
    recompute(model, True)
    again = features(model, clip)
    again.square().sum().backward()
    torch.testing.assert_close(again, out)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name])

    with torch.no_grad(), compared_with_dense_attention(model):
        torch.testing.assert_close(features(model, clip[:1]), out[:1])

    with torch.no_grad():
        fast = optimize_for_inference(model)
        torch.testing.assert_close(features(fast, clip), out)
        other = features(model, torch.randn(1, 3, 6 * length, 40, 32, dtype=torch.float64))
        assert other.shape == (1, model.embed_dims) and other.isfinite().all()
        check_kept_and_counted(model, clip, out)
        valid = torch.arange(4 * length) < torch.tensor([4, 2])[:, None] * length
        torch.testing.assert_close(features(model, clip, valid=valid)[:1], out[:1])
        short = features(model, clip[1:, :, : 2 * length])
        torch.testing.assert_close(features(model, clip, valid=valid)[1:], short)
        narrow = features(model.bfloat16(), clip.bfloat16())
    assert narrow.dtype == torch.bfloat16 and narrow.isfinite().all()
    return True


def check_kept_and_counted(model: Any, clip: Tensor, out: Tensor) -> None:
    """What the conflicts rule out is refused in words, and all else works."""
    uses = {conflict.rules_out for conflict in model.conflicts}
    grid, rows = model.embed.grid(clip.shape[2:]), len(clip)
    places, tokens = grid[1] * grid[2], grid[0] * grid[1] * grid[2]
    shuffled = torch.randperm(places).expand(rows, -1)
    some = Places(shuffled[:, : places // 2], grid[1:])
    in_order = Places(some.numbers.sort().values, grid[1:])
    if "places" in uses:
        check_refused(model, clip, kept=some)
    else:
        kept = features(model, clip, kept=Places(shuffled, grid[1:]))
        torch.testing.assert_close(kept, out)
        kept = features(model, clip, kept=some)
        torch.testing.assert_close(kept, features(model, clip, kept=in_order))
    any_tokens = torch.randperm(tokens).expand(rows, -1)
    if uses & {"places", "tokens"}:
        check_refused(model, clip, kept=Places(any_tokens, grid))
    else:
        torch.testing.assert_close(features(model, clip, kept=Places(any_tokens, grid)), out)
    ones = torch.ones(rows, *grid)
    if "counts" in uses:
        check_refused(model, clip, counts=ones)
        return
    torch.testing.assert_close(features(model, clip, counts=ones), out)
    if "places" not in uses:  # the same padding in all frames is as what is left out
        padding = torch.zeros(rows, places).scatter(1, in_order.numbers, 1.0)
        counts = padding.view(rows, 1, *grid[1:]).expand_as(ones)
        torch.testing.assert_close(features(model, clip, counts=counts), kept)
    if not uses & {"places", "tokens"}:  # padding is as what is left out
        numbers = any_tokens[:, : tokens // 2]
        padding = torch.zeros(rows, tokens).scatter(1, numbers, 1.0).view_as(ones)
        kept = features(model, clip, kept=Places(numbers, grid))
        torch.testing.assert_close(features(model, clip, counts=padding), kept)


def check_refused(model: nn.Module, clip: Tensor, **given: Any) -> None:
    with pytest.raises(ValueError, match="leave|tubelets do not overlap") as error:
        features(model, clip, **given)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("count", [30, pytest.param(600, marks=pytest.mark.slow)])
def test_random_compositions_are_built_or_refused(count: int) -> None:
    built = [check_composition(options) for options in draw(count)]
    assert len(built) == count
    assert 0.25 < sum(built) / count < 0.95


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "count"), [("aot_eager", 15), ("inductor", 3)])
def test_random_compositions_compile_and_export(backend: str, count: int) -> None:
    models = []
    for options in draw(300)[::5]:
        with suppress(ValueError, KeyError):
            torch.manual_seed(0)
            length = options["stem"]["tubelet"][0]
            model = VideoTransformer(arch=ARCH, clip_len=4 * length, img_size=32, **options)
            clip = torch.randn(2, 3, 4 * length, 32, 32, dtype=torch.float64)
            models.append((perturb(model).double().eval(), clip))
    assert len(models) >= count
    for model, clip in models[:count]:
        check_graphs(model, clip, backend)


def check_graphs(model: nn.Module, clip: Tensor, backend: str) -> None:
    torch.compiler.reset()
    with torch.no_grad():
        out = features(model, clip)
        compiled = torch.compile(model, fullgraph=True, backend=backend)
        torch.testing.assert_close(features(compiled, clip), out)
        exported = torch.export.export(model, (clip,)).module()
        torch.testing.assert_close(features(exported, clip), out)


SAMPLE = {
    "windows with linear attention over time": dict(
        block=[
            dict(pattern=dict(type="window", size=(2, 2, 2), shift=(1, 1, 1))),
            dict(pattern="time", kernel="linear", fixation="qkv_shared"),
        ],
        cls="mean",
    ),
    "causal": dict(
        block=[dict(pattern="causal_time"), dict(pattern="space")],
        mlp=dict(type="mlp", depthwise=True),
        norm="rms",
    ),
    "two encoders": dict(
        encoders=[
            dict(frames="pool", block=[dict(pattern=("width", "height"))], cls="global"),
            dict(embed_dims=32, block=[dict(pattern="causal_time", kernel="linear")], depth=1),
        ]
    ),
    "parts of recent models": dict(
        embed_dims=32,
        block=[dict(pattern="space"), dict(pattern="time", kernel="linear", rope=False)],
        **dict(cls="mean", registers=2, rope="axial", qk_norm="layer", qkv_bias="qv"),
        **dict(layer_scale=0.5, norm_pre=True, fc_norm="layer"),
        mlp=dict(type="swiglu", norm=True),
        positions=dict(type="joint", fixed="flat"),
    ),
}


@pytest.mark.parametrize(
    "name",
    [name if name == "causal" else pytest.param(name, marks=pytest.mark.slow) for name in SAMPLE],
)
@needs_one_graph
def test_compositions_compile_and_export(name: str) -> None:
    torch.manual_seed(0)
    model = VideoTransformer(**SIZE, stem=STEM, **SAMPLE[name])
    perturb(model).eval()
    check_graphs(model, torch.randn(2, 3, 4, 16, 16), "aot_eager")


@pytest.mark.parametrize("name", SAMPLE)
def test_compositions_are_explained_and_counted(name: str) -> None:
    torch.manual_seed(0)
    model = VideoTransformer(**SIZE, stem=STEM, **SAMPLE[name]).eval()
    clip = torch.randn(2, 3, 4, 16, 16)
    shares = rollout(model, clip)
    total = shares.tokens.sum(dim=(1, 2, 3)) + shares.cls
    torch.testing.assert_close(total, torch.ones(2), atol=1e-5, rtol=0)
    tokens, width = 4 * 2 * 2, 16
    assert count_macs(model, clip[:1]) > tokens * width * 3 * 64  # more than the stem's
