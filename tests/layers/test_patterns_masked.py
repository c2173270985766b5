"""Patterns with masks and options against dense attention that is masked pair by pair."""

import re
from itertools import product

import pytest
import torch
from torch import Tensor
from torchvision.models.video.swin_transformer import ShiftedWindowAttention3d

from mmvidformer.layers import KERNELS, PATTERNS, Attention
from mmvidformer.layers.masks import Causal
from mmvidformer.models.fast.prefix_only import can_attend_alone, mix
from mmvidformer.models.fast.wrapping import wrap
from tests.layers.dense import Place, attend
from tests.layers.masked_patterns import DIM, HEADS, SPECS, build
from tests.layers.pairs import run
from tests.models.tiny import needs_one_graph

EXACT = {"atol": 1e-10, "rtol": 1e-10}

# Windows divide the first; the others have borders, axes that are shorter than a window, or both.
GRIDS = [(4, 6, 4), (3, 5, 3), (5, 2, 7), (1, 4, 1), (2, 1, 3), (1, 1, 1)]


def compare_gradients(ours: Tensor, theirs: Tensor, inputs: list[Tensor]) -> None:
    weight = torch.randn_like(theirs)
    for a, b in zip(
        torch.autograd.grad((ours * weight).sum(), inputs, retain_graph=True),
        torch.autograd.grad((theirs * weight).sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(a, b, **EXACT)


def joined(grid: Tensor, cls: Tensor | None) -> Tensor:
    """Tokens of a grid behind their class token, if there is one."""
    tokens = grid.flatten(1, 3)
    return tokens if cls is None else torch.cat([cls, tokens], 1)


def can(case: str, cls: str, kernel: str) -> bool:
    return not (case.startswith("causal") and cls in ("mean", "global")) and not (
        (case.startswith("shifted") or "past" in case) and kernel == "linear"
    )


CASES = [
    case
    for case in product(SPECS, ["none", "skip", "mean", "global"], ["softmax", "linear"])
    if can(*case)
]


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize(("case", "cls", "kernel"), CASES)
def test_pattern_is_attention_masked_pair_by_pair(
    case: str, cls: str, kernel: str, grid: Place
) -> None:
    spec = SPECS[case]
    attn = build(spec, "skip" if cls == "none" else cls, kernel)
    x = torch.randn(2, *grid, DIM, dtype=torch.float64, requires_grad=True)
    token = torch.randn(2, 1, DIM, dtype=torch.float64, requires_grad=True)
    token = None if cls == "none" else token
    out, update = run(attn, x, token)
    ours, theirs = joined(out, update), joined(*attend(attn, x, token))
    torch.testing.assert_close(ours, theirs, **EXACT)
    inputs = [x, *attn.parameters(), *([token] if cls in ("mean", "global") else [])]
    compare_gradients(ours, theirs, inputs)
    if update is not None and can_attend_alone(attn):  # without queries of the grid
        wrap(attn, "mix", mix)
        torch.testing.assert_close(run(attn, x, token, prefix_only=True)[1], update, **EXACT)


@pytest.mark.parametrize("shift", [(0, 0, 0), (1, 2, 1), (0, 1, 1)], ids=str)
@pytest.mark.parametrize("grid", [(4, 6, 4), (2, 6, 4), (4, 3, 2)], ids=str)
def test_windows_are_those_of_torchvision_if_they_divide_the_grid(
    grid: Place, shift: Place
) -> None:
    torch.manual_seed(0)
    attn = Attention(DIM, HEADS, [{"type": "window", "size": (2, 3, 2), "shift": shift}]).double()
    swin = ShiftedWindowAttention3d(DIM, [2, 3, 2], list(shift), HEADS).double()
    swin.load_state_dict(attn.state_dict(), strict=False)
    torch.nn.init.zeros_(swin.relative_position_bias_table)
    x = torch.randn(2, *grid, DIM, dtype=torch.float64)
    torch.testing.assert_close(run(attn, x)[0], swin(x), **EXACT)


@pytest.mark.parametrize("kernel", ["softmax", "linear", "cosformer"])
@pytest.mark.parametrize("name", ["causal_time", "causal_joint"])
def test_later_frames_change_nothing(name: str, kernel: str) -> None:
    attn = build({"type": name}, kernel=kernel)
    x = torch.randn(1, 4, 2, 3, DIM, dtype=torch.float64)
    other = torch.cat([x[:, :2], torch.randn_like(x[:, 2:])], 1)
    a, b = run(attn, x)[0], run(attn, other)[0]
    torch.testing.assert_close(a[:, :2], b[:, :2], atol=0, rtol=0)
    assert not torch.equal(a[:, 2:], b[:, 2:])


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("name", ["softmax", "linear", "cosformer"])
def test_causal_kernels_mask_later_steps(name: str, step: int) -> None:
    """One query at a time, which sees only the keys up to its step."""
    torch.manual_seed(0)
    kernel = KERNELS.build(name, head_dim=4).double()
    inputs = [torch.randn(2, 3, 6, 4, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    q, k, v = kernel.feature_map(*inputs) if kernel.feature_map else inputs
    rows = []
    for i in range(6):
        keep = torch.arange(6) // step <= i // step
        if name == "softmax":
            rows.append(kernel(q[:, :, i : i + 1], k[:, :, keep], v[:, :, keep]))
        else:  # zero keys have no weight, and places in the sequence stay
            rows.append(kernel(q, k * keep[:, None], v)[:, :, i : i + 1])
    out, slow = kernel(q, k, v, Causal(step)), torch.cat(rows, 2)
    torch.testing.assert_close(out, slow, **EXACT)
    compare_gradients(out, slow, inputs)


@pytest.mark.parametrize("kernel", ["performer", "linformer", "cosformer"])
@pytest.mark.parametrize("case", ["window", "frames", "places"])
def test_padding_has_no_effect_on_other_kernels(case: str, kernel: str) -> None:
    """Values of a large constant give that constant only if no zeros of padding are mixed in."""
    options = {"type": kernel, **({"length": 12, "rank": 4} if kernel == "linformer" else {})}
    pattern = PATTERNS.build(SPECS[case])
    module = KERNELS.build(options, head_dim=4).double().eval()
    torch.manual_seed(0)
    q, k = torch.rand(2, 1, 3, 5, 3, 2, 4, dtype=torch.float64) + 0.1
    v = torch.full_like(q, 1e3)
    out = module(*(pattern.group(x) for x in (q, k, v)), pattern.mask(k))
    out = pattern.ungroup(out, (3, 5, 3))
    assert out.shape == v.shape
    if kernel != "linformer":  # whose mixtures of values do not sum to one
        torch.testing.assert_close(out, v)


COMPILED = [("shifted", "mean"), ("frames", "global"), ("causal_time", None)]
SLOW = [
    *product(["shifted", "frames", "places"], [None, "mean", "global"]),
    ("causal_joint", None),
]


@pytest.mark.parametrize(
    ("case", "cls"),
    COMPILED + [pytest.param(*one, marks=pytest.mark.slow) for one in SLOW if one not in COMPILED],
)
@needs_one_graph
def test_patterns_compile_without_graph_breaks(case: str, cls: str | None) -> None:
    attn = build(SPECS[case], cls or "skip")
    x, token = torch.randn(1, 3, 5, 3, DIM).double(), torch.randn(1, 1, DIM).double()
    torch.compiler.reset()
    compiled = torch.compile(attn, fullgraph=True, backend="aot_eager")
    for a, b in zip(run(compiled, x, token), run(attn, x, token), strict=True):
        torch.testing.assert_close(a, b, **EXACT)


@pytest.mark.parametrize(
    ("spec", "error", "match"),
    [
        ("diagonal", KeyError, "no pattern named 'diagonal'; choose from causal_joint"),
        ({"size": 2}, KeyError, "no pattern named None"),
        ({"type": "joint", "size": 2}, ValueError, "pattern joint has no option size.*none"),
        ({"type": "window", "sise": 2}, ValueError, "window has no option sise.*: size, shift"),
        ({"type": "window", "size": 7}, ValueError, r"size must be three integers.*got 7"),
        ({"type": "window", "size": (2, 7)}, ValueError, r"three integers.*got \(2, 7\)"),
        ({"type": "window", "size": (2, 0, 7)}, ValueError, r"of at least 1, got \(2, 0, 7\)"),
        ({"type": "window", "size": "277"}, ValueError, "three integers"),
        (
            {"type": "window", "size": (2, 7, 7), "shift": (1, 7, 3)},
            ValueError,
            r"less than its size \(2, 7, 7\), got \(1, 7, 3\)",
        ),
        ({"type": "window", "shift": (-1, 0, 0)}, ValueError, "shift must be.*at least 0"),
    ],
)
def test_wrong_options_are_named_in_one_line(spec: dict, error: type, match: str) -> None:
    with pytest.raises(error, match=match) as caught:
        PATTERNS.build(spec)
    assert "\n" not in str(caught.value)


def test_options_may_be_lists_as_on_the_command_line() -> None:
    spec = {"type": "window", "size": [2, 7, 7], "shift": [1, 3, 3]}
    as_tuples = {"type": "window", "size": (2, 7, 7), "shift": (1, 3, 3)}
    assert PATTERNS.build(spec) == PATTERNS.build(as_tuples)
    assert hash(PATTERNS.build(spec)) == hash(PATTERNS.build(as_tuples))
    assert PATTERNS.build("window") == PATTERNS.build({"type": "window", "size": (8, 7, 7)})
    assert spec == {"type": "window", "size": [2, 7, 7], "shift": [1, 3, 3]}


@pytest.mark.parametrize(
    ("case", "kwargs", "match"),
    [
        (
            "shifted",
            {"kernel": "linear"},
            "kernel 'linear' cannot mask pairs.*use kernel softmax, capped",
        ),
        (
            "window",
            {"kernel": "lara"},
            "kernel 'lara' cannot ignore padding.*use kernel softmax, lin",
        ),
        ("places", {"kernel": "orthoformer"}, "kernel 'orthoformer' cannot ignore padding"),
        (
            "local",
            {"kernel": "lara"},
            "kernel 'lara' cannot mask keys that are not queries, as .*'lo",
        ),
        ("local", {"kernel": "cosformer"}, "use kernel softmax, linear, capped, linformer, ort"),
        (
            "causal_time",
            {"kernel": "performer", "cls": "skip"},
            "later frames.*capped, recurrence, cosformer$",
        ),
        ("causal_time", {}, "'causal_time'.*needs cls='sink' or 'skip', got cls='mean'"),
        (
            "causal_joint",
            {"kernel": "linear", "cls": "sink"},
            "keep the keys of earlier frames, as cls='sink' needs; use kernel softmax, capped",
        ),
        ("shifted", {"cls": "sink"}, "sees later frames: cls must be 'mean' or 'global'"),
        ("causal_joint", {"cls": "global"}, "needs cls='sink' or 'skip', got cls='global'"),
        (
            "causal_time, past 2",
            {"kernel": "linear", "cls": "skip"},
            "kernel 'linear' cannot mask frames of the distant past.*use kernel softmax, capped",
        ),
        ("causal_time", {"cls": "skip", "shifts": ["spatial", "temporal"]}, "no later frames"),
    ],
)
def test_what_a_pattern_cannot_have_is_refused_when_built(
    case: str, kwargs: dict, match: str
) -> None:
    with pytest.raises(ValueError, match=re.compile(match)) as caught:
        Attention(16, HEADS, ["space", SPECS.get(case, case)], **kwargs)
    assert "\n" not in str(caught.value)


def test_shifts_within_a_frame_suit_causal_patterns() -> None:
    attn = Attention(64, HEADS, ["causal_time"], cls="skip", shifts=["spatial"]).double()
    x = torch.randn(1, 3, 3, 3, 64, dtype=torch.float64)
    other = torch.cat([x[:, :2], torch.randn_like(x[:, 2:])], 1)
    torch.testing.assert_close(run(attn, x)[0][:, :2], run(attn, other)[0][:, :2], atol=0, rtol=0)


@pytest.mark.parametrize("name", ["performer", "linformer", "orthoformer", "lara"])
def test_other_kernels_refuse_causal_masks(name: str) -> None:
    kernel = KERNELS.build(
        {"type": name, **({"length": 4} if name == "linformer" else {})}, head_dim=4
    )
    with pytest.raises(ValueError, match=r"takes .*mask.*got Causal\(step=1, past=None\)"):
        kernel(*torch.randn(3, 1, 1, 4, 4), Causal())


@pytest.mark.parametrize("name", ["linear", "cosformer"])
def test_sums_over_all_frames_refuse_a_bounded_past(name: str) -> None:
    with pytest.raises(ValueError, match=r"got Causal\(step=1, past=2\)"):
        KERNELS.build(name, head_dim=4)(*torch.rand(3, 1, 1, 4, 4), Causal(past=2))
