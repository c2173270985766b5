"""Frame backbones: freezing, and sizes of frames."""

import logging

import pytest
import torch
from torch import nn

from mmvidformer.models import BNInception, ConvStem, TimmFrames
from mmvidformer.models.horst.bn_inception import BLOCKS


def test_bn_inception_of_a_small_frame() -> None:
    net = BNInception()
    assert net(torch.zeros(1, 3, 64, 96)).shape == (1, 1024, 2, 3)
    inputs = [net.get_submodule(f"inception_{name}_3x3_reduce").in_channels for name in BLOCKS]
    assert inputs == [192, 256, 320, 576, 576, 576, 608, 608, 1056, 1024]


def test_bn_inception_accepts_454_columns_and_not_456() -> None:
    with torch.device("meta"):
        net = BNInception()
        assert net(torch.zeros(1, 3, 256, 454)).shape == (1, 1024, 8, 14)
        with pytest.raises(ValueError, match=r"maps of 32 x 57; .*256 x 454"):
            net(torch.zeros(1, 3, 256, 456))


@pytest.mark.parametrize("frozen", [True, False])
def test_random_frozen_networks_are_reported(
    frozen: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("mmvidformer"), "propagate", True)
    with torch.device("meta"):
        BNInception(frozen).init_weights()
    assert ("frozen BNInception is random" in caplog.text) == frozen


@pytest.mark.parametrize("frozen", [True, False])
def test_frozen_networks_keep_weights_and_statistics(frozen: bool) -> None:
    torch.manual_seed(0)
    for net in (BNInception(frozen=frozen), TimmFrames("resnet10t", frozen=frozen)):
        net.train()
        before = {name: value.clone() for name, value in net.named_buffers()}
        maps = net(torch.randn(2, 3, 64, 64))
        assert maps.requires_grad != frozen
        same = all(torch.equal(before[name], value) for name, value in net.named_buffers())
        assert same == frozen
        assert all(parameter.requires_grad != frozen for parameter in net.parameters())
        assert any(m.training for m in net.modules() if isinstance(m, nn.BatchNorm2d)) != frozen


@pytest.mark.parametrize("name", ["resnet10t", "swin_tiny_patch4_window7_224"])
def test_timm_returns_the_last_map_with_channels_first(name: str) -> None:
    with torch.device("meta"):
        net = TimmFrames(name)
        shape = net(torch.zeros(1, 3, 224, 224)).shape
    assert shape == (1, net.out_channels, 7, 7)


def test_stem_divides_the_sides_by_four() -> None:
    stem = ConvStem(16)
    assert stem(torch.zeros(1, 3, 24, 32)).shape == (1, 16, 6, 8)
    assert sum(p.numel() for p in stem.parameters()) == 9 * 16 * (3 + 16) + 4 * 16
