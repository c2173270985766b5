"""Parts that once assumed what another part is: refused, or right whatever it is."""

import pytest
import torch
from torch import Tensor, nn

from mmvidformer.layers.linear import QueryValueBias, add_lora
from mmvidformer.layers.sines import sine_positions
from mmvidformer.layers.tokens import Places
from mmvidformer.models import TimeSformer, VideoTransformer
from mmvidformer.models.fast.inference import optimize_for_inference
from mmvidformer.models.fast.onednn import CpuLinear
from mmvidformer.models.masked import MaskedPretraining

SIZES: dict = dict(arch=dict(embed_dims=24, depth=2, num_heads=2), img_size=64, clip_len=4)
CAUSAL: dict = dict(
    block=[dict(pattern=dict(type="causal_time", past=4)), dict(pattern="space")], pool="none"
)


@pytest.mark.parametrize("kernel", ["cosformer", "lara", "orthoformer", "linformer"])
def test_kernels_that_read_an_order_get_all_tokens(kernel: str) -> None:
    options: dict = dict(**SIZES, block=[dict(pattern="joint", kernel=kernel)])
    with pytest.raises(ValueError, match=f"kernel '{kernel}'.* needs all places of a frame"):
        VideoTransformer(token_keep=0.5, **options)
    model = VideoTransformer(**options)
    keep = Places(torch.randperm(64)[None, :32], (4, 4, 4))
    with pytest.raises(
        ValueError, match=f"kernel '{kernel}'.* needs all places of a frame; leave none out"
    ):
        model(torch.randn(1, 3, 4, 64, 64), kept=keep)
    assert MaskedPretraining(model).whole  # masked tokens are replaced, not left out


@pytest.mark.parametrize("kernel", ["softmax", "linear", "performer", "capped"])
@torch.no_grad()
def test_other_kernels_read_none(kernel: str) -> None:
    torch.manual_seed(0)
    block = [dict(pattern="joint", kernel=kernel)]
    model = VideoTransformer(**SIZES, block=block, positions="none").eval()
    clip = torch.randn(1, 3, 4, 64, 64)
    shuffled = Places(torch.randperm(64)[None], (4, 4, 4))
    torch.testing.assert_close(model(clip, kept=shuffled), model(clip), atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_an_order_in_time_is_kept_with_the_same_places_in_all_frames() -> None:
    torch.manual_seed(0)
    block = [dict(pattern="time", kernel="cosformer")]
    model = VideoTransformer(**SIZES, block=block, pool="none", token_keep=0.5).eval()
    clip = torch.randn(1, 3, 4, 64, 64)
    keep = Places(torch.tensor([[2, 5, 11]]), (4, 4))
    torch.testing.assert_close(model(clip, kept=keep), keep.take(model(clip)), atol=1e-5, rtol=1e-4)


def test_masked_pretraining_refuses_clips_without_a_masked_place() -> None:
    model = MaskedPretraining(VideoTransformer(**SIZES), mask_ratio=0.2)
    with pytest.raises(ValueError, match=r"mask_ratio 0.2 masks none of the 4 places"):
        model(torch.randn(1, 1, 3, 4, 32, 32), mode="loss")
    assert model(torch.randn(1, 1, 3, 4, 48, 48), mode="loss")["loss_pixels"].isfinite()


@pytest.mark.parametrize("options", [dict(static=0.1), dict(token_keep=0.5)])
def test_masked_pretraining_refuses_other_ways_to_leave_out_tokens(options: dict) -> None:
    with pytest.raises(ValueError, match="of the backbone has no effect in masked pretraining"):
        MaskedPretraining(VideoTransformer(**SIZES, **options))


def test_sines_of_places_far_away() -> None:
    """After 20 million frames, nine days, float32 has no more digits for the places."""
    start, like = torch.tensor(20_000_001), torch.zeros(8)
    found = sine_positions("t", (3, 1, 1), like, start)[0, :, 0, 0]
    places = torch.arange(20_000_001, 20_000_004, dtype=torch.float64)
    angles = places[:, None] * 10000.0 ** -(torch.arange(4, dtype=torch.float64) / 4)
    expected = torch.cat([angles.sin(), angles.cos()], dim=1).float()
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


@torch.no_grad()
def test_streams_without_an_end_keep_their_precision() -> None:
    outputs: list[Tensor] = []
    for dtype in (torch.float32, torch.float64):
        torch.manual_seed(0)
        model = VideoTransformer(**SIZES, **CAUSAL, positions="none", rope="axial").eval()
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.2)
        model, state = model.to(dtype), None
        torch.manual_seed(1)
        for frame in torch.randn(6, 1, 3, 1, 64, 64).to(dtype):
            output, state = model.step(frame, state)
            if state.steps == 1:
                state.steps = state.steps + 20_000_001
        outputs.append(output)
    torch.testing.assert_close(outputs[0].double(), outputs[1], atol=2e-5, rtol=1e-4)


@torch.no_grad()
def test_a_stream_is_its_clip_whatever_computes_the_angles() -> None:
    torch.manual_seed(0)
    model = VideoTransformer(**SIZES, **CAUSAL, positions="none", rope="axial").eval()
    clip = torch.randn(1, 3, 4, 64, 64)
    steps, state = [], None
    for frame in clip.split(1, dim=2):
        step, state = model.step(frame, state)
        steps.append(step)
    torch.testing.assert_close(torch.cat(steps, dim=1), model(clip), atol=1e-5, rtol=1e-4)


def test_hold_last_needs_a_causal_model() -> None:
    positions = dict(type="time", hold_last=True)
    with pytest.raises(ValueError, match="hold_last=True has no effect in a model that cannot run"):
        VideoTransformer(**SIZES, positions=positions)
    VideoTransformer(**SIZES, **CAUSAL, positions=positions)


@pytest.mark.parametrize("lora", [False, True])
def test_projections_without_key_bias_run_in_onednn(lora: bool) -> None:
    model = VideoTransformer(**SIZES, qkv_bias="qv").eval()
    if lora:
        add_lora(model)
    fast = optimize_for_inference(model)
    layers = [part for part in fast.encoders.modules() if isinstance(part, nn.Linear)]
    assert not any(isinstance(layer, QueryValueBias) for layer in layers)
    qkv = fast.encoders[0].blocks[0].sublayers["joint"].attn.qkv
    assert isinstance(vars(qkv).get("forward"), CpuLinear)


def test_gradients_of_torch_func() -> None:
    """Keys of local attention are gathered in parts, which torch.func cannot recompute."""
    torch.manual_seed(0)
    model = TimeSformer(scheme="sparse_local_global", **SIZES).eval()
    clip = torch.randn(1, 3, 4, 64, 64)
    parameters = dict(model.named_parameters())

    def loss(parameters: dict) -> Tensor:
        return torch.func.functional_call(model, parameters, (clip,)).square().sum()

    gradients = torch.func.grad(loss)(parameters)
    loss(parameters).backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad, atol=1e-4, rtol=1e-3)
