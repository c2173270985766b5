"""Heads, losses, recognizers and the preprocessor do what MMAction2's of their names do."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from mmaction.evaluation import top_k_accuracy
from mmaction.models import ActionDataPreprocessor
from mmaction.models.heads import TimeSformerHead as TheirHead
from mmaction.models.losses import BCELossWithLogits as TheirBinary
from mmaction.models.losses import CrossEntropyLoss as TheirEntropy
from mmaction.models.recognizers import Recognizer3D
from mmaction.structures import ActionDataSample
from mmengine.optim import OptimWrapper
from mmengine.registry import DefaultScope
from torch import Tensor, nn

from mmvidformer.models.head import TimeSformerHead, topk_accuracies
from mmvidformer.models.losses import BCELossWithLogits, CrossEntropyLoss
from mmvidformer.models.preprocessor import VideoDataPreprocessor
from mmvidformer.models.recognizers import MultiViewRecognizer

SIZES = dict(num_classes=4, in_channels=6)
BACKBONE = dict(
    type="mmvidformer.VideoTransformer",
    arch=dict(embed_dims=6, depth=1, num_heads=2),
    img_size=16,
    clip_len=2,
    stem=dict(tubelet=(2, 8, 8)),
)


def samples(labels: Any) -> list[ActionDataSample]:
    return [ActionDataSample().set_gt_label(label) for label in labels]


@pytest.fixture
def scores() -> Tensor:
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("options", [{}, dict(loss_weight=0.5, class_weight=[1.0, 2, 3, 4])])
def test_losses(scores: Tensor, options: dict) -> None:
    soft = torch.tensor([[0.5, 0.5, 0, 0], [0, 0, 1, 0], [0.1, 0.2, 0.3, 0.4]])
    ours, theirs = CrossEntropyLoss(**options), TheirEntropy(**options)
    for labels in (torch.tensor([0, 3, 1]), soft):
        torch.testing.assert_close(ours(scores, labels), theirs(scores, labels))
    ours, theirs = BCELossWithLogits(**options), TheirBinary(**options)
    torch.testing.assert_close(ours(scores, soft), theirs(scores, soft))
    assert not ours.state_dict()


@pytest.mark.parametrize("topk", [(1,), (1, 3), (2, 9)])
def test_accuracies(scores: Tensor, topk: tuple[int, ...]) -> None:
    labels = torch.tensor([0, 3, 1])
    theirs = top_k_accuracy(scores.numpy(), labels.numpy(), topk)
    ours = topk_accuracies(scores, labels, topk)
    assert [*ours] == [f"top{k}_acc" for k in topk]
    np.testing.assert_allclose([value.item() for value in ours.values()], theirs, rtol=1e-6)


@pytest.mark.parametrize("average_clips", ["score", "prob", None])
@pytest.mark.parametrize("eps", [0.0, 0.1])
@pytest.mark.parametrize("labels", [[1, 3], [1], [[0.5, 0.5, 0, 0]]])
def test_heads(average_clips: str | None, eps: float, labels: list) -> None:
    options = dict(SIZES, average_clips=average_clips, label_smooth_eps=eps, topk=(1, 2))
    torch.manual_seed(0)
    ours, theirs = TimeSformerHead(**options), TheirHead(**options)
    torch.manual_seed(0)
    ours.init_weights()
    torch.manual_seed(0)
    theirs.init_weights()
    assert torch.equal(ours.fc_cls.weight, theirs.fc_cls.weight)
    assert not ours.fc_cls.bias.any()
    features = torch.randn(len(labels), 6)
    annotated = samples(torch.tensor(label) for label in labels)
    losses = ours.loss(features, annotated), theirs.loss(features, annotated)
    assert losses[0].keys() == losses[1].keys()
    for name, value in losses[1].items():
        torch.testing.assert_close(losses[0][name], value.float(), msg=name)
    views = torch.randn(2 * len(labels), 6)
    predictions = [head.predict(views, copy.deepcopy(annotated)) for head in (ours, theirs)]
    for sample, expected in zip(*predictions, strict=True):
        torch.testing.assert_close(sample.pred_score, expected.pred_score)
        assert torch.equal(sample.pred_label, expected.pred_label)


@pytest.mark.parametrize("shape", ["NCHW", "NCTHW", "MIX2d3d"])
@pytest.mark.parametrize(
    "options", [{}, dict(to_float32=False), dict(mean=[1.0, 2, 3], std=[4.0, 5, 6], to_rgb=True)]
)
def test_preprocessor(shape: str, options: dict) -> None:
    size = {"NCHW": (2, 3, 5, 4), "NCTHW": (2, 3, 2, 5, 4), "MIX2d3d": (3, 5, 4)}[shape]
    clips = [torch.randint(0, 256, (*size[:-1], width), dtype=torch.uint8) for width in (4, 3)]
    data = dict(inputs=clips, data_samples=samples([1, 2]))
    preprocessors = (
        cls(format_shape=shape, **options)
        for cls in (VideoDataPreprocessor, ActionDataPreprocessor)
    )
    ours, theirs = (preprocess(copy.deepcopy(data), True)["inputs"] for preprocess in preprocessors)
    torch.testing.assert_close(ours, theirs)


def test_recognizer_trains_and_tests_as_theirs() -> None:
    with DefaultScope.overwrite_default_scope("mmaction"):
        check_recognizers()


def check_recognizers() -> None:
    parts = dict(
        backbone=BACKBONE,
        cls_head=dict(type="TimeSformerHead", average_clips="prob", **SIZES),
        data_preprocessor=dict(type="ActionDataPreprocessor", format_shape="NCTHW"),
        test_cfg=dict(max_testing_views=3),
    )
    ours = MultiViewRecognizer(**copy.deepcopy(parts))
    theirs = Recognizer3D(**copy.deepcopy(parts))
    assert type(ours.cls_head) is TimeSformerHead and type(theirs.cls_head) is TheirHead
    theirs.load_state_dict(ours.state_dict())
    for views in (2, 4):  # a step of training before the second
        clips = torch.randint(0, 256, (1, views, 3, 2, 16, 16), dtype=torch.uint8)
        data = dict(inputs=[*clips], data_samples=samples([1]))
        answers = [model.eval().test_step(copy.deepcopy(data))[0] for model in (ours, theirs)]
        torch.testing.assert_close(answers[0].pred_score, answers[1].pred_score)
        logs = [train(model, data) for model in (ours, theirs)]
        assert logs[0].keys() == logs[1].keys()
        for name, value in logs[1].items():
            torch.testing.assert_close(logs[0][name], value.float(), msg=name)
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], value, msg=name)


def train(model: nn.Module, data: dict) -> dict[str, Tensor]:
    """A step of training; views are clips with one label."""
    optimizer = OptimWrapper(torch.optim.SGD(model.parameters(), 0.1))
    single = {**copy.deepcopy(data), "inputs": [clip[:1] for clip in data["inputs"]]}
    return model.train().train_step(single, optimizer)
