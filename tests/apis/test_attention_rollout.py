"""Attention rollout against the product of explicit matrices over all tokens."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from mmvidformer.apis.attention_rollout import rollout
from mmvidformer.layers import Attention
from mmvidformer.models import VideoTransformer, timesformer, vivit
from mmvidformer.models.fast.inference import optimize_for_inference
from tests.apis.dense_rollout import dense_rollout
from tests.layers.naive import attend_naively

ARCH = {"embed_dims": 16, "depth": 2, "num_heads": 4}
GRID = (3, 4, 6)  # tokens; no two alike, so that exchanged axes are found
CLIP = {"timesformer": (3, 16, 24), "vivit": (6, 16, 24)}


def shaken(model: nn.Module) -> nn.Module:
    """Random weights everywhere: attention far from uniform, and no zero-initialised layer."""
    torch.manual_seed(0)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model.eval()


def make_timesformer(**kwargs) -> nn.Module:
    return shaken(
        timesformer.TimeSformer(
            ARCH, img_size=(16, 24), clip_len=3, stem=dict(tubelet=(1, 4, 4)), **kwargs
        )
    )


def make_vivit(**kwargs) -> nn.Module:
    size = dict(img_size=(16, 24), clip_len=6, stem=dict(tubelet=(2, 4, 4)))
    return shaken(vivit.ViViT(ARCH, **{**size, **kwargs}))


TIMESFORMERS = [
    {"scheme": name, **order} for name, row in timesformer.SCHEMES.items()
    for order in ({}, {"reverse": True}, {"parallel": True})[: 3 if len(row["block"]) > 1 else 1]
] + [
    {"scheme": "divided_space_time", "cls_in_time": True},
    {"scheme": "axial", "cls_in_time": True},
    {"scheme": "divided_space_time", "positions": "none"},
    {"scheme": "divided_space_time", "with_cp": True},
]  # fmt: skip
VIVITS = [
    {"scheme": name, "pool": pool} for name in vivit.SCHEMES
    for pool in (("cls", "mean") if name in ("spacetime", "factorized_encoder") else ("mean",))
] + [{"scheme": "factorized_encoder", "temporal_depth": 0}]  # fmt: skip


def check(model: nn.Module, clip: Tensor) -> None:
    found = rollout(model, clip)
    torch.testing.assert_close(found.features, model(clip))
    assert found.tokens.shape == (2, *GRID)
    for i in range(2):
        tokens, cls = dense_rollout(model, clip[i : i + 1])
        torch.testing.assert_close(found.tokens[i], tokens, atol=1e-6, rtol=1e-4)
        torch.testing.assert_close(found.cls[i], cls, atol=1e-6, rtol=1e-4)
        assert (tokens.sum() + cls).item() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("kwargs", TIMESFORMERS, ids=lambda k: "-".join(map(str, k.values())))
def test_timesformer_is_the_product_of_its_matrices(kwargs: dict) -> None:
    check(make_timesformer(**kwargs), torch.randn(2, 3, *CLIP["timesformer"]))


@pytest.mark.parametrize("kwargs", VIVITS, ids=lambda k: "-".join(map(str, k.values())))
def test_vivit_is_the_product_of_its_matrices(kwargs: dict) -> None:
    check(make_vivit(**kwargs), torch.randn(2, 3, *CLIP["vivit"]))


@pytest.mark.parametrize(
    "options",
    [
        dict(qk_norm="layer"),
        dict(qk_norm="rms", rope=dict(type="axial", axes="hw")),
        dict(block=[dict(pattern="joint", kernel=dict(type="lara", num_samples=4))]),
    ],
    ids=lambda options: "-".join(options),
)
@torch.no_grad()
def test_norms_within_attention_stay(options: dict) -> None:
    """They shape the weights, unlike those of the tokens, which rollout ignores."""
    size = dict(img_size=(16, 24), clip_len=3, stem=dict(tubelet=(1, 4, 4)))
    model = shaken(VideoTransformer({**ARCH, "depth": 1}, **size, **options))
    (sub,) = model.encoders[0].blocks[0].sublayers.values()
    inputs: list[tuple] = []
    sub.attn.register_forward_pre_hook(lambda module, args: inputs.append(args[:2]))
    clip = torch.randn(2, 3, *CLIP["timesformer"])
    shares = rollout(model, clip).tokens.flatten(1)
    queries, keys, values = (x.transpose(1, 2) for x in sub.attn.project(*inputs[0]))
    identity = torch.eye(values.shape[-2]).expand(*values.shape[:2], -1, -1)
    weights = attend_naively(sub.attn.kernel, queries, keys, identity).mean(dim=1)
    expected = (weights.mean(dim=1) + 1 / weights.shape[-1]) / 2
    torch.testing.assert_close(shares, expected, atol=1e-6, rtol=1e-4)


def looking_at_bright_patches(model: nn.Module) -> nn.Module:
    """Make every attention of a model weigh tokens by the brightness of their pixels."""
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    nn.init.constant_(model.embed.proj.weight[:1], 1)  # the first channel is the brightness
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
        if isinstance(module, Attention):
            q = module.qkv.bias.view(3, module.num_heads, -1)[0]
            nn.init.constant_(q[:, 0], 2)
            k = module.qkv.weight.view(3, module.num_heads, -1, ARCH["embed_dims"])[1]
            nn.init.constant_(k[:, 0, 0], 2)
    return model


def bright_at(t: int, h: int, w: int, tubelet: int) -> Tensor:
    clip = torch.zeros(1, 3, GRID[0] * tubelet, 16, 24)
    clip[:, :, t * tubelet : (t + 1) * tubelet, h * 4 : h * 4 + 4, w * 4 : w * 4 + 4] = 1
    return clip


@pytest.mark.parametrize("place", [(2, 2, 4), (0, 0, 4), (2, 0, 0)])  # even: strided sees them
@pytest.mark.parametrize("scheme", [*timesformer.SCHEMES, *vivit.SCHEMES])
@torch.no_grad()
def test_the_patch_that_is_looked_at_has_the_largest_share(scheme: str, place: tuple) -> None:
    if scheme in timesformer.SCHEMES:
        model, tubelet = make_timesformer(scheme=scheme), 1
    else:
        model, tubelet = make_vivit(scheme=scheme), 2
    shares = rollout(looking_at_bright_patches(model), bright_at(*place, tubelet)).tokens[0]
    assert torch.unravel_index(shares.argmax(), GRID) == place
    assert shares[place] > 1.5 * shares.flatten().sort().values[-2]


@torch.no_grad()
def test_attention_within_frames_moves_no_mass_between_them() -> None:
    frames = {}
    for scheme in ("space_only", "joint_space_time"):
        model = looking_at_bright_patches(make_timesformer(scheme=scheme))
        dark = rollout(model, torch.zeros(1, 3, *CLIP["timesformer"])).tokens[0]
        bright = rollout(model, bright_at(1, 2, 3, 1)).tokens[0]
        torch.testing.assert_close(dark, dark.mean().expand_as(dark))
        frames[scheme] = dark[[0, 2]], bright[[0, 2]]
    torch.testing.assert_close(*frames["space_only"])
    before, after = frames["joint_space_time"]
    assert (after < 0.7 * before).all()


class Largest(TorchDispatchMode):
    """Record the largest result of any operation, in numbers."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        tensors = [t for t in torch.utils._pytree.tree_leaves(out) if isinstance(t, Tensor)]
        self.numbers = max([self.numbers, *(t.numel() for t in tensors)])
        return out


@pytest.mark.parametrize("attention", ["joint_space_time", "divided_space_time"])
def test_no_matrix_of_all_pairs_is_computed(attention: str) -> None:
    arch = {"embed_dims": 8, "depth": 1, "num_heads": 1}
    model = timesformer.TimeSformer(
        arch, attention, img_size=(48, 96), stem=dict(tubelet=(1, 2, 2))
    ).eval()
    tokens = 8 * 24 * 48
    with Largest() as largest:
        rollout(model, torch.randn(1, 3, 8, 48, 96))
    assert tokens * 8 <= largest.numbers < 40 * tokens


def test_the_model_is_left_as_it_was() -> None:
    model = make_vivit()
    clip = torch.randn(1, 3, *CLIP["vivit"])
    before = model(clip)
    rollout(model, clip)
    torch.testing.assert_close(model(clip), before)
    assert not any("forward" in vars(m) or m._forward_hooks for m in model.modules())
    assert not any(m._forward_pre_hooks for m in model.modules())
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("options", [{}, {"registers": 2}], ids=["cls", "registers"])
def test_optimized_models_have_the_same_shares_and_stay_optimized(options: dict) -> None:
    model = make_timesformer(**options)
    optimized = optimize_for_inference(model)
    before = [vars(module).get("forward") for module in optimized.modules()]
    clip = torch.randn(1, 3, *CLIP["timesformer"])
    torch.testing.assert_close(rollout(optimized, clip).tokens, rollout(model, clip).tokens)
    assert [vars(module).get("forward") for module in optimized.modules()] == before


class Doubling(vivit.ViViT):
    def forward(self, clip: Tensor) -> Tensor:
        return 2 * super().forward(clip)


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (vivit.ViViT(ARCH, img_size=16, clip_len=6), "ViViT is in training mode"),
        (nn.Conv3d(3, 16, 4).eval(), "one Stem .*Conv3d has 0"),
        (Doubling(ARCH, img_size=16, clip_len=6).eval(), "Doubling turns a mass of 1 into 2"),
    ],
)
def test_models_without_a_rollout_are_refused(model: nn.Module, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        rollout(model, torch.randn(1, 3, 6, 16, 16))
    assert not any("forward" in vars(m) for m in model.modules())
