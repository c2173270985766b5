"""Parts of one's own, registered by name and named in a config."""

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvidformer.errors import UserError
from mmvidformer.layers import (
    KERNELS,
    MLPS,
    NORMS,
    PATTERNS,
    POSITIONS,
    Attention,
    Kernel,
    Pattern,
    Positions,
)
from mmvidformer.layers.abilities import ABILITIES
from mmvidformer.layers.config import ClsPolicy
from mmvidformer.lookup import Registry
from mmvidformer.models import VideoTransformer
from mmvidformer.models.fast.inference import optimize_for_inference
from tests.layers.dense import masked_attention
from tests.layers.pairs import run

TINY = dict(arch=dict(embed_dims=16, depth=1, num_heads=2), img_size=32, clip_len=4)
TURNED = "b t h w n d -> b w n (t h) d"
REGISTRIES = [KERNELS, MLPS, NORMS, PATTERNS, POSITIONS]


class Mean(Kernel):
    """The mean of the values of all earlier frames; keeps their sum and number."""

    supports = frozenset({"causal"})

    def __init__(self, head_dim: int, dropout: float = 0.0, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, q, k, v, mask=None):
        return self.resume(q, k, v, mask)[0]

    def resume(self, q, k, v, mask, past=None):
        before, count = past or (torch.zeros_like(v[..., :1, :]), torch.zeros(1))
        numbers = count + torch.arange(1, v.shape[-2] + 1)
        sums = before + v.cumsum(dim=-2)
        return self.scale * sums / numbers[:, None], (sums[..., -1:, :], numbers[-1:])


class Halves(Positions):
    def __init__(self, dim: int, size: tuple, cls: bool = False, by: float = 0.5) -> None:
        super().__init__()
        self.shape, self.by = (dim, size, cls), by

    def forward(self, size: tuple, like: Tensor, cls=None, state=None):
        return [like.new_full((like.shape[-1],), self.by)], cls


class Swap(nn.Module):
    def __init__(self, dim: int, hidden_dim: int, drop: float = 0.0) -> None:
        super().__init__()
        self.fc = nn.Linear(dim, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x.flip(-1))


class Center(nn.Module):
    def __init__(self, normalized_shape: int, by: float = 1.0) -> None:
        super().__init__()
        self.by = by

    def forward(self, x: Tensor) -> Tensor:
        return x - self.by * x.mean(dim=-1, keepdim=True)


class Near(Pattern):
    """Tokens see their own frame, the one before and the next one."""

    def mask(self, x: Tensor) -> Tensor:
        frames = torch.arange(x.shape[1]).repeat_interleave(x[0, 0, ..., 0, 0].numel())
        return ((frames[:, None] - frames).abs() <= 1)[None, None]


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """Parts under new names, which are gone after a test."""
    before = [dict(registry) for registry in REGISTRIES]
    KERNELS.register("mean")(Mean)
    MLPS.register("swap")(Swap)
    NORMS.register("center")(Center)
    POSITIONS.register("halves")(Halves)

    @PATTERNS.register("row_over_time")
    def row_over_time(turned: bool = False) -> Pattern:
        return Pattern(TURNED if turned else "b t h w n d -> b h n (t w) d")

    yield
    for registry, entries in zip(REGISTRIES, before, strict=True):
        registry.clear()
        registry.update(entries)


def test_all_together() -> None:
    torch.manual_seed(0)
    model = VideoTransformer(
        **TINY,
        block=[
            dict(pattern=dict(type="row_over_time", turned=True)),
            dict(pattern="causal_time", kernel=dict(type="mean", scale=2.0)),
        ],
        positions=dict(type="halves", by=0.25),
        mlp="swap",
        norm=dict(type="center", by=0.5),
    )
    block, positions = model.encoders[0].blocks[0], model.encoders[0].pos_embed
    assert positions.shape == (16, (4, 2, 2), False) and positions.by == 0.25
    assert block.sublayers["row_over_time"].attn.patterns == (Pattern(TURNED),)
    assert block.sublayers["causal_time"].attn.kernel.scale == 2.0
    assert isinstance(block.mlp, Swap) and block.norm.by == model.encoders[0].norm.by == 0.5
    clip = torch.randn(1, 3, 4, 32, 32)
    out = model(clip)
    out.sum().backward()
    assert all(weight.grad is not None for weight in block.mlp.parameters())
    with torch.no_grad():
        torch.testing.assert_close(optimize_for_inference(model)(clip), out)


@pytest.mark.parametrize("role", ["skip", "mean", "global"])
def test_a_mask_of_all_tokens_stays_with_a_class_token(role: ClsPolicy) -> None:
    near = Near("b t h w n d -> b 1 n (t h w) d", frozenset({"pairs"}))
    PATTERNS.update(near=near)
    attn = Attention(16, 2, ["near"], role).double()
    grid, cls = torch.randn(2, 3, 2, 2, 16).double(), torch.randn(2, 1, 16).double()
    out, update = run(attn, grid, cls)
    frames = torch.arange(3).repeat_interleave(4)
    mask = (frames[:, None] - frames).abs() <= 1
    tokens = grid.flatten(1, 3)
    found = out.flatten(1, 3)
    if role != "skip":
        tokens, found = torch.cat([cls, tokens], dim=1), torch.cat([update, found], dim=1)
        mask = F.pad(mask, (1, 0, 1, 0), value=True)
    torch.testing.assert_close(found, attn.proj(masked_attention(attn, tokens, mask)))


def test_a_kernel_that_resumes_streams() -> None:
    model = VideoTransformer(
        **TINY, block=[dict(pattern="causal_time", kernel="mean")], positions="none", pool="none"
    )
    clip, state, outs = torch.randn(1, 3, 4, 32, 32), None, []
    with torch.no_grad():
        for frame in clip.split(1, dim=2):
            out, state = model.step(frame, state)
            outs.append(out)
        torch.testing.assert_close(torch.cat(outs, dim=1), model(clip))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (dict(block=[dict(kernel="mean", pattern="window")]), ValueError,
         "kernel 'mean' cannot ignore padding .*'window' needs; use kernel softmax, linear"),
        (dict(block=[dict(kernel=dict(type="mean", power=2))]), ValueError,
         "attention kernel mean has no option power; its options are: scale"),
        (dict(mlp=dict(type="swap", act="gelu")), ValueError, "MLP swap has no option act"),
        (dict(mlp="swop"), KeyError, "no MLP named 'swop'; did you mean swap. choose"),
        (dict(positions="halfs"), KeyError, "no positions named 'halfs'; .*halves"),
        (dict(positions=dict(type="halves", rule="linear")), ValueError, "options are: by"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(options: dict, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        VideoTransformer(**TINY, **options)


def test_a_kernel_says_what_may_be_asked_of_it() -> None:
    for kernel in KERNELS.values():
        assert issubclass(kernel, Kernel) and kernel.supports <= ABILITIES.keys()
    with pytest.raises(UserError, match="LaraKernel cannot run frame by frame"):
        KERNELS["lara"](8).resume(*torch.rand(3, 1, 2, 8), None)


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.what)
def test_names_are_not_taken_twice(registry: Registry) -> None:
    with pytest.raises(KeyError, match=f"there is another {registry.what} named "):
        registry.register(next(iter(registry)))(nn.Identity)


@pytest.mark.parametrize(
    ("registry", "base"),
    [(POSITIONS, "Positions"), (KERNELS, "Kernel"), (NORMS, "Module")],
    ids=["positions", "kernel", "norm"],
)
def test_a_part_of_another_class_is_refused(registry, base) -> None:
    """Others read more of it than its forward pass (``static`` asks positions for ``tables``)."""
    registry.register("bare")(lambda **options: [])
    with pytest.raises(UserError, match=rf"{registry.what} bare must be a .*\.{base}, got list"):
        registry.build("bare")
