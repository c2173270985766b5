"""AdaTAD's adapter."""

import pytest
import torch
from torch import Tensor

from mmvidformer.layers.adapter import Adapter
from mmvidformer.layers.tokens import Grid
from mmvidformer.models import TimeSformer, VideoTransformer

SIZES = dict(arch=dict(embed_dims=16, depth=2, num_heads=2), img_size=32, clip_len=4)


@pytest.fixture
def clip() -> Tensor:
    return torch.randn(2, 3, 4, 32, 32, generator=torch.Generator().manual_seed(0))


def test_output_is_that_of_the_official_code() -> None:
    """What ``opentad.models.backbones.vit_adapter.Adapter`` (3dd7b03) returned."""
    adapter = Adapter(8, 0.5)
    for number, (_, value) in enumerate(sorted(adapter.named_parameters())):
        wave = torch.sin(torch.arange(value.numel(), dtype=torch.float64) * 0.7 + number)
        value.data = wave.reshape(value.shape).float() * 0.5
    tokens = torch.cos(torch.arange(2 * 3 * 2 * 2 * 8) * 0.3).reshape(2, 12, 8)
    output = adapter(tokens, Grid(3, 2, 2))
    wanted = [-1.15258, -0.895119, -1.064534, -0.519488, -0.510722, 0.05133, 0.201519, 0.5136]
    assert output[1, 5].tolist() == pytest.approx(wanted, abs=1e-5)
    assert output.abs().sum().item() == pytest.approx(123.895, abs=1e-3)


def test_class_tokens_pass_no_convolution() -> None:
    torch.manual_seed(0)
    adapter, grid = Adapter(8, 0.5), Grid(3, 2, 2, prefix=1)
    torch.nn.init.normal_(adapter.up_proj.weight)
    tokens = torch.randn(2, 13, 8)
    output = adapter(tokens, grid)
    torch.testing.assert_close(output[:, 1:], adapter(tokens[:, 1:], Grid(3, 2, 2)))
    torch.testing.assert_close(output[:, :1], adapter(tokens[:, :1], grid))  # alone, too


def test_adapters_alone_are_trained_from_a_plain_checkpoint(clip) -> None:
    torch.manual_seed(0)
    plain = TimeSformer(**SIZES).eval()
    model = TimeSformer(**SIZES, adapter=0.25).eval()
    model.load_state_dict(plain.state_dict())
    torch.testing.assert_close(model(clip), plain(clip))
    trained = [name for name, value in model.named_parameters() if value.requires_grad]
    # The class token alone is read, which no convolution of the last adapter reaches.
    assert len(trained) == 9 + 5 and all(".adapter." in name for name in trained)
    frozen = TimeSformer(**SIZES, adapter=0.25, frozen_stages=2)
    assert trained == [name for name, value in frozen.named_parameters() if value.requires_grad]
    for name in trained:
        torch.nn.init.normal_(model.get_parameter(name))
    frozen.load_state_dict(model.state_dict())
    torch.testing.assert_close(frozen.eval()(clip), model(clip))
    (model.train()(clip) * torch.randn(16)).sum().backward()
    assert all(model.get_parameter(name).grad.any() for name in trained)


def test_what_needs_other_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match=r"adapter=0\.25 needs all places of a frame"):
        VideoTransformer(**SIZES, adapter=0.25, token_keep=0.5)
    model = VideoTransformer(**SIZES, adapter=0.25, pool="none", block=[dict(pattern="space")])
    with pytest.raises(ValueError, match=r"adapter=0\.25 sees later frames"):
        model.check_causal()
