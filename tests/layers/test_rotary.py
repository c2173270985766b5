"""Rotary positions: angles by distance, timm's and transformers' forms, and who takes them."""

from typing import Any

import pytest
import torch
from timm.layers import RotaryEmbeddingCat, RotaryEmbeddingDinoV3, apply_rot_embed_cat
from torch import Tensor

from mmvidformer.layers import (
    KERNELS,
    ROPES,
    Attention,
    Context,
    Grid,
    RotaryEmbedding,
    TransformerBlock,
)
from tests.layers.pairs import project, run


def turned(
    rope: RotaryEmbedding, q: Tensor, k: Tensor, v: Tensor, start: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Turned queries and keys (B, T, H, W, n, d), and the values."""
    size = q.shape[1:4]
    table = rope.table(size, q, start).flatten(1, 3)
    context = Context(Grid(*size), rope=table if start else None)
    q, k, _ = rope(q.flatten(1, 3), k.flatten(1, 3), v, context)
    return q.unflatten(1, size), k.unflatten(1, size), v


def scores(rope: RotaryEmbedding, size: tuple[int, int, int], start: int = 0) -> Tensor:
    """Products (T, H, W, T, H, W) of the same query and the same key at all places."""
    draw = torch.Generator().manual_seed(0)
    q, k = (
        torch.randn(rope.head_dim, generator=draw, dtype=torch.float64).expand(1, *size, 1, -1)
        for _ in range(2)
    )
    q, k, _ = turned(rope, q, k, k, start)
    q, k = (x.flatten(1, 4)[0] for x in (q, k))
    return (q @ k.T).reshape(*size, *size)


@pytest.mark.parametrize("pairs", ["adjacent", "halves"])
@pytest.mark.parametrize("axes", ["thw", "hw", "t"])
def test_products_depend_on_the_distance_alone(pairs: str, axes: str) -> None:
    found = scores(RotaryEmbedding(20, axes=axes, pairs=pairs), (3, 4, 5))
    torch.testing.assert_close(found[:2, :3, :4, :2, :3, :4], found[1:, 1:, 1:, 1:, 1:, 1:])
    later = scores(RotaryEmbedding(20, axes=axes, pairs=pairs), (3, 4, 5), start=100)
    torch.testing.assert_close(found, later)
    if "t" in axes:
        assert (found[0, 0, 0, 0, 0, 0] - found[0, 0, 0, 2, 0, 0]).abs() > 1e-3
    else:
        torch.testing.assert_close(found[0, 0, 0, 0, 0, 0], found[0, 0, 0, 2, 0, 0])


def test_tiled_angles_are_those_of_vjepa2() -> None:
    """Each axis as transformers turns it; the products depend on the places themselves."""
    theirs = pytest.importorskip("transformers.models.vjepa2.modeling_vjepa2")  # not in 4.40
    rope, size = ROPES.build("vjepa2", head_dim=16), (3, 2, 4)
    x = torch.randn(1, *size, 2, 16)
    flat = x.flatten(1, 3).transpose(1, 2)  # (1, n, T H W, d)
    places = [grid.flatten() for grid in torch.meshgrid(*map(torch.arange, size), indexing="ij")]
    parts = [
        theirs.rotate_queries_or_keys(part, place)
        for part, place in zip(flat[..., :12].chunk(3, -1), places, strict=True)
    ]
    found, _, _ = turned(rope, x, x, x)
    expected = torch.cat([*parts, flat[..., 12:]], -1)
    torch.testing.assert_close(found.flatten(1, 3).transpose(1, 2), expected)
    products = scores(rope, size)
    assert (products[:2, 0, 0, :2, 0, 0] - products[1:, 0, 0, 1:, 0, 0]).abs().max() > 0.01


@pytest.mark.parametrize("size", [(5, 7), (16, 16), (1, 3)])
def test_forms_of_timm(size: tuple[int, int]) -> None:
    x = torch.randn(1, 2, *size, 3, 16)  # two frames
    flat = x.flatten(2, 3).transpose(2, 3)  # (1, T, n, H W, d)
    dino = RotaryEmbeddingDinoV3(16).eval().get_embed(list(size))
    eva = RotaryEmbeddingCat(16, in_pixels=False, feat_shape=list(size), ref_feat_shape=[16, 16])
    for name, table, half in (("dinov3", dino, True), ("eva02", eva.get_embed(), False)):
        expected = apply_rot_embed_cat(flat, table, half=half)
        found, key, value = turned(ROPES.build(name, head_dim=16), x, x, x)
        assert torch.equal(found, key) and value is x
        torch.testing.assert_close(found.flatten(2, 3).transpose(2, 3), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ROPES)
def test_half_precision_is_rounded_once(name: str, dtype: torch.dtype) -> None:
    """After the turn, as timm does; rounded angles would make scores less exact by half."""
    rope = ROPES.build(name, head_dim=16)
    x = torch.randn(1, 2, 14, 14, 3, 16, dtype=dtype)
    found, key, _ = turned(rope, x, x, x)
    expected, _, _ = turned(rope, x.float(), x.float(), x)
    assert torch.equal(found, expected.to(dtype)) and torch.equal(key, found)
    if name == "dinov3":
        table = RotaryEmbeddingDinoV3(16).eval().get_embed([14, 14])
        flat = x.flatten(2, 3).transpose(2, 3)
        expected = apply_rot_embed_cat(flat, table, half=True).to(dtype)
        torch.testing.assert_close(found.flatten(2, 3).transpose(2, 3), expected, rtol=1e-2, atol=0)


@pytest.mark.parametrize("name", ROPES)
def test_a_stream_continues_the_places(name: str) -> None:
    """Where it can be one: where the places of frames do not depend on their number."""
    rope, like = ROPES.build(name, head_dim=48), torch.zeros(0)
    later, whole = rope.table((4, 3, 4), like, start=2), rope.table((6, 3, 4), like)
    assert torch.allclose(whole[:, 2:], later) == rope.causal == (name != "onevision")


def test_the_class_token_and_registers_are_not_turned() -> None:
    torch.manual_seed(0)
    attn = Attention(24, 2, rope="axial", qk_norm="layer")
    plain = Attention(24, 2, qk_norm="layer")
    plain.load_state_dict(attn.state_dict())
    inputs = torch.randn(1, 2, 2, 2, 24), torch.randn(1, 3, 24)
    (q, k, v), cls = project(attn, *inputs)
    (plain_q, _, plain_v), plain_cls = project(plain, *inputs)
    assert torch.equal(v, plain_v) and not torch.allclose(q, plain_q)
    assert all(torch.equal(a, b) for a, b in zip(cls, plain_cls, strict=True))
    for x in (q, k):  # turned after the norm: the length stays
        torch.testing.assert_close(x.square().sum(-1), torch.full(x.shape[:-1], 12.0), rtol=1e-3,
                                   atol=0)  # fmt: skip


@pytest.mark.parametrize("kernel", sorted(set(KERNELS) - {"recurrence"}))
def test_kernels_take_them_or_refuse_them(kernel: str) -> None:
    options: dict[str, Any] = dict(type=kernel)
    if KERNELS[kernel].needs_length:
        options["length"] = 8
    if kernel not in ("linear", "cosformer"):  # which map queries and keys elementwise
        run(Attention(24, 2, kernel=options, rope="axial"), torch.randn(1, 2, 2, 2, 24))
        return
    with pytest.raises(ValueError, match="cannot use rotary positions.*softmax.*rope=False"):
        Attention(24, 2, kernel=options, rope="axial")
    arch = dict(embed_dims=24, depth=1, num_heads=2)
    block = [dict(kernel=options, rope=False), dict(pattern="space")]
    parts = TransformerBlock(dict(arch=arch, block=block, rope="axial")).sublayers
    assert ["rope" in part.attn.prepare for part in parts.values()] == [False, True]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(axes="hxw"), "axes of rotary positions must be some of 'thw', got 'hxw'"),
        (dict(axes="hh"), "axes"),
        (dict(shares=(1, 2)), r"shares must be 3 numbers, one of each axis, got \(1, 2\)"),
        (dict(axes=""), "axes"),
        (dict(align_corners=True), "needs a number of places, got places='integer'"),
        (dict(places="pixels"), "'integer', 'centered' or a number of tokens, got 'pixels'"),
        (dict(head_dim=4), "along 'thw' need heads of an even width of at least 6, got 4"),
        (dict(head_dim=9), "even width"),
    ],
)
def test_wrong_options(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RotaryEmbedding(**{"head_dim": 12, **options})
    with pytest.raises(KeyError, match="no kind of pairs named 'both'; choose from adjacent"):
        RotaryEmbedding(12, pairs="both")
