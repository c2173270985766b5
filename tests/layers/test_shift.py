"""Shifts compared with their definitions, place by place and channel by channel."""

import warnings
from collections.abc import Callable, Sequence
from functools import partial

import pytest
import torch
from torch import Tensor

from mmvidformer.layers import SHIFTS, Attention, build_shift
from tests.layers.operators import Operators
from tests.layers.pairs import project

HEADS, WIDTH = 2, 24
D = HEADS * WIDTH
Source = tuple[int, int, int] | None  # offset to the source; None for the token itself


def test_settings_are_printed() -> None:
    assert repr(build_shift("temporal")) == "Shift(2 folds of 1/4, segment=None)"


def brute_force(x: Tensor, source: Callable[[int], Source], keep: Callable[[int], bool]) -> Tensor:
    """Shift one number at a time; ``source`` returns the offset of a channel of all heads."""
    out = torch.zeros_like(x)
    size = x.shape[1:4]
    for t in range(size[0]):
        for h in range(size[1]):
            for w in range(size[2]):
                for c in range(D):
                    head, within = divmod(c, WIDTH)
                    offset = source(c) or (0, 0, 0)
                    place = [p + o for p, o in zip((t, h, w), offset, strict=True)]
                    if all(0 <= p < n for p, n in zip(place, size, strict=True)):
                        value = x[:, place[0], place[1], place[2], head, within]
                    else:
                        value = x[:, t, h, w, head, within] * float(keep(c))
                    out[:, t, h, w, head, within] = value
    return out


def folds(offsets: Sequence[tuple[int, int, int]], size: int, start: int = 0):
    def source(c: int) -> Source:
        fold = (c - start) // size
        return offsets[fold] if c >= start and fold < len(offsets) else None

    return source


NEIGHBORS = [(1, 0), (-1, 0), (0, 1), (0, -1), (-1, -1), (1, 1), (-1, 1), (1, -1)]
# Folds of the official code at distance 2: the eight neighbors, then the places in between.
BETWEEN = [
    (-2, -1), (-2, 1), (-1, -2), (1, -2), (2, -1), (2, 1), (-1, 2), (1, 2),
    (1, 0), (-1, 0), (0, 1), (0, -1), (-1, -1), (1, 1), (-1, 1), (1, -1),
]  # fmt: skip


def in_space(places: Sequence[tuple[int, int]], scale: int = 1) -> list[tuple[int, int, int]]:
    return [(0, scale * y, scale * x) for y, x in places]


def ring(xi: int) -> list[tuple[int, int]]:
    around = range(-xi, xi + 1)
    return [(y, x) for y in around for x in around if (y, x) != (0, 0)]


CROSS_2 = [(0, -1), (0, -2), (0, 1), (0, 2), (-1, 0), (-2, 0), (1, 0), (2, 0)]

# id: shift, offsets of the folds, channels per fold, first channel, folds with zeros at a border
ROWS = {
    "temporal 4": ("temporal", [(1, 0, 0), (-1, 0, 0)], D // 4, 0, 2),
    "temporal 8": (
        {"type": "temporal", "divisor": 8}, [(1, 0, 0), (-1, 0, 0)], D // 8, 0, 2),
    "spatial 1": ("spatial", in_space(NEIGHBORS), D // 16, 0, 4),
    "spatial 2": (
        {"type": "spatial", "distance": 2},
        [*in_space(NEIGHBORS, 2), *in_space(BETWEEN)], D // 48, 0, 4),
    "window 1": ("temporal_window", [(-1, 0, 0), (1, 0, 0)], D // 4, D // 2, 2),
    "window 2": (
        {"type": "temporal_window", "radius": 2, "alpha": 0.25},
        [(-2, 0, 0), (-1, 0, 0), (1, 0, 0), (2, 0, 0)], 9, 12, 4),
    "cross 1": (
        "spatial_cross", in_space([(0, -1), (0, 1), (-1, 0), (1, 0)]), D // 8, D // 2, 4),
    "cross 2": ({"type": "spatial_cross", "radius": 2}, in_space(CROSS_2), 3, D // 2, 8),
    "square 1": ("spatial_square", in_space(ring(1)), 3, D // 2, 8),
    "square 2": ({"type": "spatial_square", "radius": 2}, in_space(ring(2)), 1, D // 2, 24),
}  # fmt: skip


@pytest.mark.parametrize("grid", [(3, 4, 5), (1, 1, 2)])
@pytest.mark.parametrize("row", ROWS)
def test_each_shift_follows_its_definition(row: str, grid: tuple[int, int, int]) -> None:
    shift, offsets, size, start, zeroed = ROWS[row]
    x = torch.randn(1, *grid, HEADS, WIDTH)
    expected = brute_force(
        x, folds(offsets, size, start), keep=lambda c: (c - start) // size >= zeroed
    )
    q, k, v = build_shift(shift)(x, x, 2 * x)
    torch.testing.assert_close(q, x, rtol=0, atol=0)
    torch.testing.assert_close(k, expected, rtol=0, atol=0)
    torch.testing.assert_close(v, 2 * expected, rtol=0, atol=0)


def test_every_shift_has_a_row() -> None:
    types = {s if isinstance(s, str) else s["type"] for s, *_ in ROWS.values()}
    assert types == set(SHIFTS)


def test_distance_4_moves_eight_narrow_folds() -> None:
    """The setting of the paper's table 10 for Kinetics in the official code: 3 channels each."""
    x = torch.randn(1, 1, 9, 9, 8, 64)
    moved = build_shift({"type": "spatial", "distance": 4}).shift(x)
    changed = (moved != x).flatten(-2)[0, 0, 4, 4]
    assert changed.nonzero().flatten().tolist() == list(range(8 * 3))
    torch.testing.assert_close(moved[0, 0, 0, 0, 0, :3], x[0, 0, 4, 0, 0, :3])


def test_segments_are_shifted_separately() -> None:
    """NUM_SEGMENTS 8 with clips of 16 frames: as two clips of 8."""
    x = torch.randn(2, 16, 2, 2, HEADS, WIDTH)
    whole = build_shift({"type": "temporal", "segment": 8}).shift(x)
    halves = [build_shift("temporal").shift(half) for half in x.split(8, dim=1)]
    torch.testing.assert_close(whole, torch.cat(halves, dim=1), rtol=0, atol=0)
    short = build_shift({"type": "temporal", "segment": 99}).shift(x)
    torch.testing.assert_close(short, build_shift("temporal").shift(x), rtol=0, atol=0)


def test_attention_shifts_keys_and_values_but_not_the_class_token() -> None:
    attn = Attention(D, HEADS, shifts=("spatial", "temporal"))
    grid, cls = torch.randn(1, 3, 2, 4, D), torch.randn(1, 1, D)
    raw = attn.qkv(grid).unflatten(-1, (3, HEADS, WIDTH))
    qkv, cls_qkv = project(attn, grid, cls)
    spatial, temporal = build_shift("spatial"), build_shift("temporal")
    torch.testing.assert_close(qkv[0], raw[..., 0, :, :])
    for i in (1, 2):
        moved = temporal.shift(spatial.shift(raw[..., i, :, :]))
        torch.testing.assert_close(qkv[i], moved)
    raw_cls = attn.qkv(cls).unflatten(-1, (3, HEADS, WIDTH))
    torch.testing.assert_close(cls_qkv, raw_cls.unbind(-3))


@pytest.mark.parametrize("last", [False, True])
def test_shift_before_or_after_the_gates(last: bool) -> None:
    torch.manual_seed(0)
    attn = Attention(
        D, HEADS, kernel="linear", fixation="qkv_shared", shifts=("temporal",), shift_last=last
    )
    grid = torch.randn(1, 3, 2, 2, D)
    tokens = attn.qkv(grid).unflatten(-1, (3, HEADS, WIDTH)).unbind(-3)
    move, gate = build_shift("temporal"), attn.prepare["fixation"]
    mapped = attn.kernel.feature_map
    tokens = move(*gate(*mapped(*tokens))) if last else gate(*mapped(*move(*tokens)))
    torch.testing.assert_close(project(attn, grid)[0], tokens)
    assert list(attn.prepare)[-1 if last else 0] == "shift0"


@pytest.mark.parametrize("grid", [(3, 4, 5), (1, 1, 2)])
@pytest.mark.parametrize("row", ROWS)
def test_gradients_reach_the_sources_of_the_channels(row: str, grid: tuple[int, ...]) -> None:
    shift = build_shift(ROWS[row][0]).shift
    x = torch.randn(1, *grid, HEADS, WIDTH, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(shift, x, fast_mode=True, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(shift, x, fast_mode=True)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("row", ROWS)
def test_torch_func_and_traced_graphs_compute_the_same(row: str) -> None:
    shift = build_shift(ROWS[row][0]).shift
    clips, tangents, weights = torch.randn(3, 2, 1, 3, 4, 5, HEADS, WIDTH)

    def loss(x: Tensor, weight: Tensor) -> Tensor:
        return (shift(x).square() * weight).sum()

    x = clips.clone().requires_grad_()
    (expected,) = torch.autograd.grad(sum(map(loss, x, weights)), x)
    equal = partial(torch.testing.assert_close, rtol=0, atol=0)
    equal(torch.func.vmap(torch.func.grad(loss))(clips, weights), expected)
    both = torch.func.jvp(shift, (clips[0],), (tangents[0],))
    equal(both, (shift(clips[0]), shift(tangents[0])))
    traced = torch.jit.trace(lambda x: shift(x), clips[0])
    equal(traced(clips[1]), shift(clips[1]))


@pytest.mark.parametrize(("name", "operators"), [("spatial", 10 + 14), ("temporal", 4 + 4)])
def test_a_step_takes_few_operators(name: str, operators: int) -> None:
    """A copy, zeros, and one operator for each fold; back, two for each that stays at a border."""
    x = torch.randn(1, 2, 3, 3, HEADS, WIDTH, requires_grad=True)
    weight = torch.ones_like(x)
    with Operators() as operators_run:
        torch.autograd.grad(build_shift(name).shift(x), x, weight)
    assert operators_run.count == operators


def test_folds_without_a_channel_shift_nothing_and_warn_once() -> None:
    options = {"type": "spatial", "distance": 4}
    with pytest.warns(UserWarning, match=r"48 channels are too few for folds of 1/160.*spatial"):
        attn = Attention(HEADS * WIDTH, num_heads=HEADS, shifts=[options])
    x = torch.randn(1, 1, 5, 5, HEADS, WIDTH)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(attn.prepare["shift0"].shift(x), x)
        build_shift(options, 160)


@pytest.mark.parametrize(
    ("shift", "error", "match"),
    [
        ("sideways", KeyError, "sideways.*temporal"),
        ({"type": "temporal", "divisor": 1}, ValueError, "divisor.*at least 2, got 1"),
        ({"type": "spatial", "distance": 0}, ValueError, "distance.*at least 1, got 0"),
        ({"type": "temporal_window", "radius": 0}, ValueError, "radius.*at least 1, got 0"),
        ({"type": "spatial_cross", "radius": 0}, ValueError, "radius.*at least 1, got 0"),
        ({"type": "spatial_square", "alpha": 1.0}, ValueError, r"alpha.*\[0, 1\), got 1\.0"),
        ({"type": "temporal", "segment": 2}, ValueError, "3 frames.*segments of 2"),
    ],
)
def test_wrong_arguments_are_named(shift: object, error: type, match: str) -> None:
    with pytest.raises(error, match=match):
        build_shift(shift).shift(torch.zeros(1, 3, 2, 2, HEADS, WIDTH))
