"""Which compositions give the image model's output for a clip of one repeated frame."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from mmvidformer.checkpoints import init_from_image
from mmvidformer.models import (
    FeatureFixationTransformer,
    TimeSformer,
    VideoTransformer,
    ViViT,
)

FRAMES = 4
SIZES = dict(
    arch=dict(embed_dims=32, depth=2, num_heads=4),
    img_size=32,
    clip_len=FRAMES,
    mlp=dict(type="mlp", act="gelu_tanh"),
)
PATCH, TUBELET = dict(tubelet=(1, 8, 8)), dict(tubelet=(2, 8, 8))
ZERO = dict(temporal="zero")


def timesformer(scheme: str, **options: object) -> Callable[[], nn.Module]:
    return lambda: TimeSformer(**{**SIZES, "scheme": scheme, "stem": PATCH, **options})


def vivit(scheme: str, **options: object) -> Callable[[], nn.Module]:
    return lambda: ViViT(**{**SIZES, "scheme": scheme, "stem": TUBELET, **options})


def fixation(**options: object) -> Callable[[], nn.Module]:
    return lambda: FeatureFixationTransformer(**{**SIZES, "stem": PATCH, **options})


def composed(*patterns: object, **options: object) -> Callable[[], nn.Module]:
    block = [
        one if isinstance(one, dict) and "pattern" in one else dict(pattern=one) for one in patterns
    ]
    return lambda: VideoTransformer(**{**SIZES, "stem": PATCH, "block": block, **options})


def window(height: int) -> dict:
    return dict(type="window", size=(2, height, 4))


WITH_CLS, PLAIN = {}, dict(class_token=False, global_pool="avg", fc_norm=False)
MEAN = dict(cls="mean")
# Model, image model, arguments of init_from_image, and why it does not give the image's output.
TABLE = {
    "timesformer space_only": (timesformer("space_only"), WITH_CLS, {}, None),
    "timesformer divided": (timesformer("divided_space_time"), WITH_CLS, {}, None),
    "timesformer joint": (timesformer("joint_space_time"), WITH_CLS, {}, "one class token"),
    "timesformer joint, no class token": (
        timesformer("joint_space_time", cls=None), PLAIN, {}, None
    ),
    "timesformer sparse": (timesformer("sparse_local_global"), WITH_CLS, {}, "fewer keys"),
    "timesformer axial": (timesformer("axial"), WITH_CLS, {}, "fewer keys"),
    "vivit 1": (vivit("spacetime"), WITH_CLS, {}, "one class token"),
    "vivit 1, no class token": (vivit("spacetime", pool="mean"), PLAIN, {}, None),
    "vivit 1, inflated": (
        vivit("spacetime", pool="mean"), PLAIN, dict(embed="inflate"), None
    ),
    "vivit 2": (vivit("factorized_encoder"), WITH_CLS, {}, "new second encoder"),
    "vivit 2, averaged": (vivit("factorized_encoder", temporal_depth=0), WITH_CLS, {}, None),
    "vivit 3": (vivit("factorized_self_attention"), PLAIN, {}, None),
    "vivit 3, class token": (
        vivit("factorized_self_attention", cls="mean"), WITH_CLS, {}, None
    ),
    "vivit 3, class token lost": (
        vivit("factorized_self_attention"), WITH_CLS, {}, "class token dropped"
    ),
    "vivit 3, copied": (
        vivit("factorized_self_attention"), PLAIN, dict(temporal="copy"), "time adds to space"
    ),
    "vivit 4": (vivit("factorized_dot_product"), PLAIN, {}, "half of the heads see time"),
    "fixation": (fixation(), PLAIN, {}, "kernel, gates, shifts, convolutions"),
    "space, time": (composed("space", "time", **MEAN), WITH_CLS, ZERO, None),
    "space and time, parallel": (
        composed("space", "time", parallel=True, **MEAN), WITH_CLS, ZERO, None
    ),
    "space, causal time": (composed("space", "causal_time"), PLAIN, ZERO, None),
    "space, linear time": (
        composed("space", dict(pattern="time", kernel="linear")), PLAIN, ZERO, None
    ),
    "linear space": (
        composed(dict(pattern="space", kernel="linear")), PLAIN, ZERO, "another kernel"
    ),
    "frames": (composed(dict(type="window", size=(2, 9, 9))), PLAIN, ZERO, None),
    "causal joint": (composed("causal_joint"), PLAIN, ZERO, None),
    "windows of a frame": (composed(window(4)), PLAIN, ZERO, None),
    "windows": (composed(window(2)), PLAIN, ZERO, "fewer keys"),
    "shifts": (
        composed(dict(pattern="space", shifts=["temporal"])), PLAIN, ZERO, "zeros at the ends"
    ),
    "sines": (
        composed("space", positions=dict(type="space_time", fixed=True)), PLAIN, ZERO,
        "other positions",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE)
@torch.no_grad()
def test_one_repeated_frame(name: str, image_vit: Callable, tmp_path: Path) -> None:
    make, image_options, options, reason = TABLE[name]
    image = image_vit(**image_options)
    torch.save(image.state_dict(), tmp_path / "vit.pth")
    torch.manual_seed(1)
    model = make().eval()
    init_from_image(model, tmp_path / "vit.pth", **{"temporal": model.temporal_init, **options})
    frame = torch.randn(2, 3, 1, 32, 32)
    encoded = model.forward_features(frame.expand(-1, -1, FRAMES, -1, -1))
    grid = encoded.places
    tokens = image.forward_features(frame[:, :, 0])
    prefix = image.num_prefix_tokens
    expected = [tokens[:, prefix:].unflatten(1, (1, 4, 4))]
    expected = [expected[0].expand(-1, grid.shape[1], -1, -1, -1)]
    if grid.shape[2] == 1:  # a token for each frame
        expected = [tokens[:, :1].expand(-1, grid.shape[1], -1)[:, :, None, None]]
    found = [grid]
    if encoded.context.grid.prefix:
        found, expected = [*found, encoded.prefix], [*expected, tokens[:, :1]]
    equal = all(
        torch.allclose(one, other, atol=1e-5, rtol=1e-5)
        for one, other in zip(found, expected, strict=True)
    )
    assert equal == (reason is None)


def test_what_is_logged(
    image_vit: Callable, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    torch.save(image_vit().state_dict(), tmp_path / "vit.pth")
    model = composed("space", dict(pattern="time", fc=True), "causal_time")()
    with caplog.at_level("INFO", logger="mmvidformer"):
        init_from_image(model, tmp_path / "vit.pth", temporal="zero")
    assert caplog.messages == [
        f"VideoTransformer from {tmp_path}/vit.pth: 29 of 57 tensors\n"
        "copied: embed.proj (2), encoders.0.pos_embed.thw (1), "
        "encoders.0.blocks.*.sublayers.space (12), encoders.0.blocks.*.norm (4), "
        "encoders.0.blocks.*.mlp (8), encoders.0.norm (2)\n"
        "add zero at first: encoders.0.blocks.*.sublayers.time (2), "
        "encoders.0.blocks.*.sublayers.causal_time (2)\n"
        "kept: encoders.0.blocks.*.sublayers.time (16), "
        "encoders.0.blocks.*.sublayers.causal_time (8)\n"
        "not used: encoders.0.cls_token (1), encoders.0.pos_embed.cls (1), head (2)"
    ]


def test_attention_over_time_that_is_set_to_zero_learns(
    image_vit: Callable, tmp_path: Path
) -> None:
    torch.save(image_vit().state_dict(), tmp_path / "vit.pth")
    model = composed("space", "time", **MEAN)()
    init_from_image(model, tmp_path / "vit.pth", temporal="zero")
    clip: Tensor = torch.randn(1, 3, FRAMES, 32, 32)
    model(clip).square().sum().backward()
    proj = model.encoders[0].blocks[0].sublayers["time"].attn.proj
    assert not proj.weight.any() and proj.weight.grad.abs().max() > 0
