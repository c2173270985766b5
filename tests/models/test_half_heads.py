"""Heads whose answers are places or times, in half precision."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import pytest
import torch
from mmaction.structures import ActionDataSample
from mmengine.structures import InstanceData
from torch import Tensor, nn

from mmvidformer.layers.samples import Instances
from mmvidformer.models.boxes_head import BoxesHead
from mmvidformer.models.camera_head import CameraMotionHead
from mmvidformer.models.segments_head import SegmentsHead
from mmvidformer.video.times import FrameTimes

BOX = torch.tensor([[641.0, 301.0, 703.0, 455.0]])  # of a frame of 1920 x 1080


@contextmanager
def autocast() -> Iterator[None]:
    with torch.autocast("cpu", torch.bfloat16):
        yield


@pytest.fixture(params=["autocast", "weights"])
def halved(request: pytest.FixtureRequest) -> Callable:
    """Run a function of a head and tokens in bfloat16."""

    def run(function: Callable, head: nn.Module, tokens: Tensor) -> object:
        if request.param == "weights":
            head = copy.deepcopy(head).bfloat16()
        with torch.no_grad(), autocast() if request.param == "autocast" else nullcontext():
            return function(head, tokens.bfloat16())

    return run


def test_times_of_segments_are_not_rounded(halved: Callable) -> None:
    torch.manual_seed(0)
    head = SegmentsHead(num_classes=1, in_channels=8, hidden_dim=8, levels=3).eval()
    head.init_weights()
    nn.init.constant_(head.fc_cls.bias, -2.0)
    nn.init.normal_(head.fc_cls.weight, std=2.0)
    tokens = torch.randn(1, 1200, 8)

    def find(head: SegmentsHead, tokens: Tensor) -> Instances:
        return head.segments(tokens, 2.0, 2400.0, FrameTimes(24.0))

    found = halved(find, head, tokens)
    assert found.segments.dtype == torch.float32
    middles, lengths = found.segments.mean(dim=1), found.segments.diff(dim=1)
    assert (lengths > 0.05).all()  # in bfloat16 some have none
    # Points are half a step apart at least, each in a place of its own.
    with torch.no_grad():
        expected = find(head, tokens)
    nearest = (middles[:, None] - expected.segments.mean(dim=1)).abs().amin(dim=1)
    assert nearest[:20].max() < 0.02


def test_points_of_segments_keep_their_targets() -> None:
    head = SegmentsHead(num_classes=3, in_channels=8, hidden_dim=8, levels=5)
    head.init_weights()
    with autocast():
        outputs = head(torch.randn(1, 1024, 1, 1, 8))
    assert outputs.dtype == torch.float32  # the type of the targets


def test_boxes_are_not_rounded(halved: Callable) -> None:
    torch.manual_seed(0)
    head = BoxesHead(3, 8).eval()
    sample = ActionDataSample(metainfo=dict(img_shape=(1080, 1920)))
    sample.proposals = InstanceData(bboxes=BOX)
    tokens = torch.randn(1, 2, 14, 14, 8).bfloat16().float()

    def predict(head: BoxesHead, tokens: Tensor) -> Instances:
        return head.predict(tokens, [sample])[0].pred_instances

    found = halved(predict, head, tokens)
    torch.testing.assert_close(found.bboxes * torch.tensor([1920.0, 1080, 1920, 1080]), BOX)
    with torch.no_grad():
        expected = predict(head, tokens)
    assert found.scores.dtype == torch.float32
    torch.testing.assert_close(found.scores, expected.scores, atol=5e-3, rtol=0)


def test_rates_of_cameras_are_in_full_precision(halved: Callable) -> None:
    torch.manual_seed(0)
    head = CameraMotionHead(8).eval()
    nn.init.normal_(head.fc_cls.weight, std=0.3)
    tokens = torch.randn(1, 2, 14, 14, 8)
    logits, rates = halved(lambda head, tokens: head.measure(tokens), head, tokens)
    assert logits.dtype == rates.dtype == torch.float32
    with torch.no_grad():
        expected = head.measure(tokens.bfloat16().float())[1]
    torch.testing.assert_close(rates, expected, atol=0.03, rtol=0.03)
