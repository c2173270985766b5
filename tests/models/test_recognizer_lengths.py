"""Recognizers on batches of clips of different lengths."""

import copy

import pytest
import torch
from mmaction.structures import ActionDataSample
from mmengine.registry import DefaultScope
from torch import nn

from mmvidformer.models.lengths import run_by_length
from mmvidformer.registry import MODELS
from tests.models.tiny import SIZE, perturb

LENGTHS = (6, 2, 4, 4)
VIVIT = dict(type="mmvidformer.ViViT", **SIZE, scheme="spacetime", stem=dict(tubelet=(2, 8, 8)))
FIXATION = dict(type="mmvidformer.FeatureFixationTransformer", **SIZE, stem=dict(tubelet=(1, 8, 8)))
HEAD = dict(in_channels=16, average_clips="score", dropout_ratio=0.0)
LINEAR = dict(type="TimeSformerHead", num_classes=3, topk=(1,), **HEAD)
CAMERA = dict(type="mmvidformer.CameraMotionHead", in_channels=16, average_clips="prob", topk=(1,))
TOKENS = dict(VIVIT, pool="none")
MODELS_AND_LABELS = {
    "class token": (VIVIT, LINEAR, [[0], [1], [2], [1]]),
    "tokens": (FIXATION, dict(LINEAR, type="mmvidformer.TokenMlpHead"), [[0], [1], [2], [1]]),
    "tasks": (
        VIVIT,
        dict(type="mmvidformer.MultiTaskHead", tasks=dict(a=2, b=3), topk=(1,), **HEAD),
        [[0, 1], [1, 2], [0, 0], [1, 0]],
    ),
}


def build(backbone: dict = VIVIT, head: dict = LINEAR, **options: object) -> nn.Module:
    torch.manual_seed(0)
    preprocessor = dict(type="mmvidformer.VideoDataPreprocessor", format_shape="NCTHW")
    preprocessor.update(mean=[127.0] * 3, std=[60.0] * 3)
    cfg = dict(backbone=backbone, cls_head=head, data_preprocessor=preprocessor)
    cfg = {"type": "mmvidformer.MultiViewRecognizer", **copy.deepcopy(cfg), **options}
    with DefaultScope.overwrite_default_scope("mmaction"):
        return perturb(MODELS.build(cfg))


def batch(labels: list = MODELS_AND_LABELS["class token"][2], views: int = 1) -> dict:
    generator = torch.Generator().manual_seed(1)
    size = (16, 16)
    return dict(
        inputs=[torch.randint(256, (views, 3, n, *size), generator=generator) for n in LENGTHS],
        data_samples=[ActionDataSample().set_gt_label(torch.tensor(label)) for label in labels],
    )


def alone(data: dict) -> list[dict]:
    return [{key: [values[i]] for key, values in data.items()} for i in range(len(LENGTHS))]


def losses(model: nn.Module, data: dict) -> torch.Tensor:
    data = model.data_preprocessor(copy.deepcopy(data), training=True)
    return model(**data, mode="loss")["loss_cls"]


@pytest.mark.parametrize("name", MODELS_AND_LABELS)
def test_loss_is_the_mean_of_the_losses_alone(name: str) -> None:
    backbone, head, labels = MODELS_AND_LABELS[name]
    model, data = build(backbone, head).train(), batch(labels)
    together = losses(model, data)
    expected = torch.stack([losses(model, one) for one in alone(data)]).mean()
    torch.testing.assert_close(together, expected, atol=1e-5, rtol=1e-5)
    found = torch.autograd.grad(together, [*model.parameters()], allow_unused=True)
    wanted = torch.autograd.grad(expected, [*model.parameters()], allow_unused=True)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)
    assert all(one is not None for one in found)


@pytest.mark.parametrize("name", MODELS_AND_LABELS)
@pytest.mark.parametrize("limit", [None, 3])
def test_views_are_fused_as_alone(name: str, limit: int | None) -> None:
    backbone, head, labels = MODELS_AND_LABELS[name]
    model = build(backbone, head, test_cfg=dict(max_testing_views=limit)).eval()
    data = batch(labels, views=2)
    with torch.no_grad():
        together = model.test_step(copy.deepcopy(data))
        for found, one in zip(together, alone(data), strict=True):
            (expected,) = model.test_step(one)
            torch.testing.assert_close(found.pred_score, expected.pred_score)


def test_rates_are_those_of_the_clips_alone() -> None:
    model, data = build(TOKENS, CAMERA).eval(), batch(views=2)
    with torch.no_grad():
        together = model.test_step(copy.deepcopy(data))
        for found, one in zip(together, alone(data), strict=True):
            (expected,) = model.test_step(one)
            torch.testing.assert_close(found.pred_score, expected.pred_score)
            torch.testing.assert_close(found.pred_rates, expected.pred_rates)
            assert torch.equal(found.pred_moves, expected.pred_moves)
    assert len({tuple(sample.pred_rates.tolist()) for sample in together}) == len(LENGTHS)


def test_heads_with_a_loss_of_their_own_do_not_train_on_the_list() -> None:
    message = "clips of different lengths cannot train CameraMotionHead; use one length"
    with pytest.raises(ValueError, match=message):
        losses(build(TOKENS, CAMERA).train(), batch())


def test_the_loss_is_in_float32_under_autocast() -> None:
    model = build().train()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert losses(model, batch()).dtype == torch.float32


def test_other_recognizers_do_not_take_the_list() -> None:
    model = build(type="Recognizer3D")
    with pytest.raises(AttributeError, match=r"clips of \[2, 4, 6\] frames are a list .*'shape'"):
        model.test_step(batch())


def test_necks_do_not_take_the_list() -> None:
    model = build()
    model.neck = nn.Identity()
    with pytest.raises(ValueError, match="cannot run in a model with a neck"):
        losses(model, batch())


def test_clips_of_one_length_run_together() -> None:
    sizes = []

    def run(stack: torch.Tensor) -> torch.Tensor:
        sizes.append(tuple(stack.shape))
        return stack.sum(1)

    clips = [torch.full((2, n), float(i)) for i, n in enumerate((5, 3, 5, 3))]
    found = run_by_length(run, clips)
    assert sizes == [(2, 2, 5), (2, 2, 3)]
    assert [one[0].item() for one in found] == [0, 2, 4, 6]
