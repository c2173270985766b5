"""Random compositions, and a sample: built, run, compiled, exported and explained."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from mmvidformer.apis.attention_rollout import rollout
from mmvidformer.apis.complexity import count_macs
from mmvidformer.layers import KERNELS, Attention, Places
from mmvidformer.models import VideoTransformer
from mmvidformer.models.fast.inference import optimize_for_inference
from mmvidformer.models.fast.recompute import recompute
from tests.layers.dense import attend
from tests.layers.pairs import joined, split
from tests.models.tiny import ARCH, SIZE, STEM, needs_one_graph, perturb, same_examples

KINDS = [
    *("joint", "space", "time", "width", "height", "local", "strided"),
    *("causal_time", "causal_joint"),
    dict(type="window", size=(2, 2, 2)),
    dict(type="window", size=(2, 2, 2), shift=(1, 1, 1)),
    dict(type="window", size=(2, 9, 9)),
    dict(type="window", size=(2, 1, 1)),
]
ALL = [*KINDS, ("time", "space"), ("width", "height")]
IN_FRAMES = [
    "joint",
    "space",
    "width",
    "height",
    "local",
    "strided",
    ("width", "height"),
    *KINDS[9:11],
]
OVER_FRAMES = ["joint", "time", "causal_time", "strided", *KINDS[11:]]
STEMS = [
    STEM,
    dict(tubelet=(2, 4, 8)),
    dict(tubelet=(1, 8, 8), stride=(1, 7, 7), padding=(0, 4, 4), norm=True),
]
POSITIONS = [
    *("none", "space", "time", "space_time", "joint", dict(type="joint", fixed=True)),
    dict(type="joint", fixed="flat"),
]


def sublayers(patterns: list) -> st.SearchStrategy:
    return st.fixed_dictionaries(
        dict(
            pattern=st.sampled_from(patterns),
            kernel=st.sampled_from(["softmax", "linear", *sorted(set(KERNELS) - {"recurrence"})]),
            fixation=st.sampled_from([None, None, "qkv_shared", "qk"]),
            shifts=st.sampled_from([(), (), ("temporal",), ("spatial",), ("spatial", "temporal")]),
            fc=st.booleans(),
            zero_init=st.booleans(),
            shift_last=st.booleans(),
        ),
        optional=dict(cls=st.sampled_from(["mean", "global", "skip"])),
    ).map(
        lambda row: {
            **row,
            "shift_last": row["shift_last"] and bool(row["shifts"] and row["fixation"]),
        }
    )


@st.composite
def compositions(draw) -> dict:
    """Encoders in a row. Most patterns suit the axes that their tokens have."""
    encoders, pooled = [], False
    for _ in range(draw(st.integers(1, 2))):
        frames = draw(st.sampled_from(["together", "together", "pool", "average"]))
        cls = draw(st.sampled_from([None, None, "mean", "global"]))
        suited = IN_FRAMES if frames != "together" else OVER_FRAMES if pooled else ALL
        patterns = draw(st.sampled_from([suited, suited, suited, ALL]))
        row = st.fixed_dictionaries(
            dict(
                depth=st.integers(1, 2),
                embed_dims=st.sampled_from([16, 32]),
                block=st.lists(sublayers(patterns), min_size=1, max_size=3),
                parallel=st.booleans(),
                positions=st.sampled_from(POSITIONS),
                rope=st.sampled_from([None] * 6 + ["axial", "vjepa2", "dinov3", "eva02"]),
                registers=st.sampled_from([0, 2] if cls else [0]),
                mlp=st.one_of(
                    st.fixed_dictionaries(
                        dict(
                            type=st.just("mlp"),
                            act=st.sampled_from(["gelu", "gelu_tanh", "quick_gelu"]),
                            depthwise=st.sampled_from([False, False, not cls]),
                        )
                    ),
                    st.fixed_dictionaries(dict(type=st.just("swiglu"), norm=st.booleans())),
                ),
                norm_pre=st.booleans(),
                qkv_bias=st.sampled_from([True, False, "qv"]),
                qk_norm=st.sampled_from([None, "rms"]),
                layer_scale=st.sampled_from([None, 0.5]),
                norm=st.sampled_from(["layer", "rms", dict(type="rms", eps=1e-3)]),
                drop_path_rule=st.sampled_from(["clip", "group", "unscaled"]),
            )
        )
        drawn = draw(row)
        drawn["parallel"] &= len(drawn["block"]) > 1
        if cls is None:  # so that no sub-layer may name a role
            drawn["block"] = [{**one, "cls": "skip"} for one in drawn["block"]]
        encoders.append(dict(frames=frames, cls=cls, **drawn))
        pooled = pooled or frames == "pool"
    return dict(
        stem=draw(st.sampled_from(STEMS)),
        encoders=encoders,
        init=draw(st.sampled_from(["timm", "flax"])),
        fc_norm=draw(st.sampled_from([None, "layer"])),
    )


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


def draw(count: int) -> list[dict]:
    """Random compositions, the same ones in each run."""
    drawn = []

    @same_examples(count)
    @given(options=compositions())
    def run(options: dict) -> None:
        drawn.append(options)

    run()
    return drawn


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
