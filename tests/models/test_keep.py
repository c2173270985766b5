"""Tokens that are left out, that stand for several equal ones, or that are padding."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mmvidformer.layers import KERNELS, Attention, Context, Grid, Places
from mmvidformer.models import TimeSformer, VideoTransformer, ViViT
from mmvidformer.models.fast.inference import optimize_for_inference
from tests.models.tiny import perturb

EXACT = dict(rtol=1e-10, atol=1e-10)
COUNTING = ["softmax", "linear", "performer", "capped"]
ARCH = dict(embed_dims=16, depth=2, num_heads=2)
SIZE = dict(arch=ARCH, clip_len=4, img_size=16)
STEM = dict(tubelet=(1, 8, 8))
RUNS = [[3, 1], [1, 1, 2], [4], [1, 2, 1]]  # frames of equal tubelets, one after the other

TEMPORAL = [dict(pattern="time", cls="skip", fc=True), dict(pattern="space")]
# Joint attention without positions in time.
JOINT: dict[str, dict[str, Any]] = {
    **{kernel: dict(block=[dict(kernel=kernel)]) for kernel in COUNTING},
    "linear map last": dict(block=[dict(kernel=dict(type="linear", map_last=True), fixation="qk")]),
    "linear elu": dict(block=[dict(kernel=dict(type="linear", feature="elu"), fixation="qk")]),
    "gates": dict(block=[dict(kernel="linear", fixation="qkv_shared")]),
    "class token": dict(cls="mean"),
    "class token apart": dict(cls="global", registers=2),
    "mean beside a class token": dict(cls="mean", pool="mean"),
    "rotary": dict(rope="dinov3", qk_norm="layer", positions="none"),
    "mixed": dict(block=[dict(), dict(kernel="linear")], parallel=True, layer_scale=0.5),
    "recomputed": dict(with_cp=True, cls="mean", fc_norm="layer"),
    "activations": dict(with_cp="activations", block=[dict(kernel="linear")]),
    "two encoders": dict(encoders=[{}, dict(embed_dims=8)]),
}


def build(model_type: type = VideoTransformer, **options: Any) -> nn.Module:
    torch.manual_seed(0)
    options = {**SIZE, "stem": STEM, **options}
    if model_type is VideoTransformer:
        options = {"positions": "space", **options}
    return perturb(model_type(**options)).double().eval()


def noise(*size: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(size, generator=generator, dtype=torch.float64)


def still_clips() -> tuple[Tensor, Places, Tensor]:
    """Clips of 4 frames and 2 x 2 tubelets, the first of each run, and the lengths of the runs.

    The second clip has fewer runs; it is filled with padding.
    """
    clips, numbers, weights = torch.empty(2, 3, 4, 16, 16, dtype=torch.float64), [], []
    for clip in range(2):
        firsts, lengths = [], []
        for place in range(4):
            row, column = divmod(place, 2)
            runs, start = RUNS[(place + clip) % 4 if clip else place], 0
            for length in runs if clip == 0 or place else [4]:
                box = noise(3, 1, 8, 8, seed=100 * clip + 10 * place + start)
                rows, columns = slice(8 * row, 8 * row + 8), slice(8 * column, 8 * column + 8)
                clips[clip, :, start : start + length, rows, columns] = box
                firsts.append(4 * start + place)
                lengths.append(length)
                start += length
        numbers.append(firsts)
        weights.append(lengths)
    most = max(map(len, numbers))
    for firsts, lengths in zip(numbers, weights, strict=True):
        assert sum(lengths) == 16
        filling = most - len(firsts)
        firsts += [5] * filling
        lengths += [0] * filling
    assert weights[1][-1] == 0 < weights[0][-1]
    counts = torch.tensor(weights, dtype=torch.float64)[:, None, None]
    return clips, Places(torch.tensor(numbers), (4, 2, 2)), counts


def gradients(model: nn.Module, out: Tensor) -> list[Tensor]:
    loss = (out * noise(*out.shape, seed=7)).sum()
    return list(torch.autograd.grad(loss, [*model.parameters()]))


def assert_same(model: nn.Module, out: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(out, expected, **EXACT)
    torch.testing.assert_close(gradients(model, out), gradients(model, expected), **EXACT)


@pytest.mark.parametrize("name", JOINT)
def test_runs_of_equal_tubelets_are_computed_once(name: str) -> None:
    """Outputs and gradients are those of the whole clip."""
    model = build(**JOINT[name])
    clips, keep, weight = still_clips()
    assert_same(model, model(clips, kept=keep, counts=weight), model(clips))
    with torch.no_grad():
        fast = optimize_for_inference(model)(clips, kept=keep, counts=weight)
        torch.testing.assert_close(fast, model(clips), **EXACT)


@pytest.mark.parametrize("with_cp", [False, True])
def test_clips_whose_updates_are_dropped(with_cp: bool) -> None:
    """Those that are left keep their weights."""
    options = dict(drop_path_rate=0.5, arch=dict(ARCH, depth=6), with_cp=with_cp, rope="dinov3")
    model = build(cls="mean", **options).train()
    clips, keep, weight = still_clips()
    torch.manual_seed(3)
    out = model(clips, kept=keep, counts=weight)
    torch.manual_seed(3)
    assert_same(model, out, model(clips))


def test_single_precision() -> None:
    model = build(cls="mean").float()
    clips, keep, weight = still_clips()
    out = model(clips.float(), kept=keep, counts=weight)
    torch.testing.assert_close(out, model(clips.float()), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kernel", COUNTING)
@torch.no_grad()
def test_bfloat16(kernel: str) -> None:
    """Nearly the clip in full, as far as it has digits."""
    model = build(**JOINT[kernel]).float()
    clips, keep, weight = still_clips()
    expected = model(clips.float())
    with torch.autocast("cpu", torch.bfloat16):
        error = model(clips.float(), kept=keep, counts=weight) - expected
        plain_error = model(clips.float()) - expected
    assert error.abs().max() <= 2 * plain_error.abs().max()


# Sub-layers within frames and over time: frames that are equal as a whole are computed once.
FRAMES: dict[str, tuple[type, dict[str, Any]]] = {
    "divided": (TimeSformer, dict(positions="space", drop_path_rate=0.0)),
    "class token in time": (TimeSformer, dict(positions="space", cls_in_time=True)),
    "space only": (TimeSformer, dict(scheme="space_only")),
    "factorized encoder": (
        ViViT,
        dict(positions="none", stem=dict(tubelet=(2, 8, 8)), temporal_depth=1),
    ),
    "factorized dot product": (ViViT, dict(scheme="factorized_dot_product", positions="none")),
    "linear": (VideoTransformer, dict(block=[dict(pattern="time", kernel="linear")])),
    "global": (VideoTransformer, dict(block=TEMPORAL, cls="global")),
    "tokens of frames": (
        VideoTransformer,
        dict(frames="token", block=[dict(pattern="time"), dict(pattern="space")]),
    ),
}


@pytest.mark.parametrize("name", FRAMES)
def test_equal_frames_are_computed_once(name: str) -> None:
    model_type, options = FRAMES[name]
    model = build(model_type, **options)
    step = model.embed.tubelet[0]
    frames = noise(2, 3, 3, step, 16, 16)
    counts = torch.tensor([[1, 3, 2], [4, 1, 1]])
    whole = [
        frame.repeat_interleave(count, dim=1).flatten(1, 2)
        for frame, count in zip(frames, counts, strict=True)
    ]
    weight = counts[:, :, None, None].expand(-1, -1, 2, 2).double()
    out = model(frames.flatten(2, 3), counts=weight)
    assert_same(model, out, model(torch.stack(whole)))


SCHEMES: dict[str, list[dict]] = {
    "joint": [{}],
    "space and time": [dict(pattern="space"), dict(pattern="time")],
    "shared heads": [dict(pattern=("time", "space"))],
    "axial": [dict(pattern="time"), dict(pattern="width"), dict(pattern="height")],
    "local and strided": [dict(pattern="local"), dict(pattern="strided")],
    "windows": [dict(pattern=dict(type="window", size=(2, 2, 2)))],
    "shifted windows": [dict(pattern=dict(type="window", size=(2, 2, 2), shift=(1, 1, 1)))],
    "frames": [dict(pattern=dict(type="window", size=(2, 9, 9)))],
    "places": [dict(pattern=dict(type="window", size=(2, 1, 1)))],
}


def schemes() -> Iterator:
    for name, rows in SCHEMES.items():
        shifted = name == "shifted windows"
        for kernel in ["softmax"] if shifted else COUNTING:
            block = [{**row, "kernel": kernel} for row in rows]
            for cls in [None, "global"] if shifted else [None, "global", "mean"]:
                yield pytest.param(block, cls, id=f"{name}-{kernel}-{cls}")


@pytest.mark.parametrize(("block", "cls"), list(schemes()))
def test_padding_has_no_effect(block: list[dict], cls: str | None) -> None:
    model = build(block=block, cls=cls, positions="space", img_size=24)
    clip = noise(2, 3, 4, 24, 24)
    padded = torch.cat([clip, 1e3 * noise(2, 3, 2, 24, 24, seed=3)], dim=2)
    weight = torch.ones(2, 6, 3, 3)
    weight[:, 4:] = 0
    assert_same(model, model(padded, counts=weight), model(clip))


@pytest.mark.parametrize(("block", "cls"), list(schemes()))
@torch.no_grad()
def test_a_weight_of_one_changes_nothing(block: list[dict], cls: str | None) -> None:
    model = build(block=block, cls=cls, positions="joint", img_size=24)
    clip = noise(2, 3, 5, 24, 24)
    out = model(clip, counts=torch.ones(2, 5, 3, 3))
    torch.testing.assert_close(out, model(clip), **EXACT)


@pytest.mark.parametrize("size", [(4, 4), (5, 4, 4)])
@pytest.mark.parametrize("options", [JOINT["class token"], JOINT["rotary"], JOINT["two encoders"]])
def test_all_places_are_the_clip(options: dict, size: tuple[int, ...]) -> None:
    model = build(**{"positions": "joint", **options})
    clip = noise(2, 3, 5, 32, 32)
    count = torch.Size(size).numel()
    order = torch.stack([torch.arange(count), torch.randperm(count)])
    assert_same(model, model(clip, kept=Places(order, size)), model(clip))


@pytest.mark.parametrize("scheme", ["joint", "space and time", "places"])
def test_places_of_frames_are_a_smaller_clip(scheme: str) -> None:
    """That of the same places in all frames, without positions."""
    model = build(block=SCHEMES[scheme], positions="none")
    clip = noise(2, 3, 4, 32, 32)
    corner = Places(torch.tensor([[0, 1, 4, 5]] * 2), (4, 4))
    assert_same(model, model(clip, kept=corner), model(clip[..., :16, :16]))


@pytest.mark.parametrize("role", ["mean", "global", "skip"])
@pytest.mark.parametrize("kernel", COUNTING)
def test_attention(kernel: str, role: Any) -> None:
    """Updates and gradients of repeated tokens are those of tokens that count several times."""
    torch.manual_seed(0)
    attn = Attention(12, 3, cls=role, kernel=kernel, qk_norm="layer").double().eval()
    prefix = 0 if role == "skip" else 2
    tokens, counts = noise(1, prefix + 4, 12), torch.tensor([3, 1, 2, 5])
    repeats = torch.cat([torch.ones(prefix, dtype=torch.long), counts])
    weight = counts[None, None, None].double()  # (B, T, H, W)
    out = attn(tokens, Context(Grid(1, 1, 4, prefix), counts=weight))
    whole = attn(tokens.repeat_interleave(repeats, 1), Context(Grid(1, 1, 11, prefix)))
    first = repeats.cumsum(0) - repeats
    torch.testing.assert_close(out, whole[:, first], **EXACT)
    loss = (out.square() * repeats[:, None]).sum()
    expected = torch.autograd.grad(whole.square().sum(), [*attn.parameters()])
    found = torch.autograd.grad(loss, [*attn.parameters()])
    torch.testing.assert_close(found, expected, **EXACT)


def test_which_kernels_count() -> None:
    counting = [name for name, kernel in KERNELS.items() if "counts" in kernel.supports]
    assert sorted(counting) == sorted(COUNTING)  # some are registered by their import
    keys = noise(3, 1, 2, 8)
    with pytest.raises(ValueError, match="LaraKernel takes no mask, got .* torch.float32"):
        KERNELS["lara"](8)(*keys, torch.ones(1, 2))


@pytest.mark.slow
def test_compiled_models_leave_out_and_count() -> None:
    model = build(cls="mean")
    clips, keep, weight = still_clips()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(clips, kept=keep, counts=weight), model(clips), **EXACT)
