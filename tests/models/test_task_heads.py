"""Heads that answer with several classes, with numbers, or at each step of time."""

import pytest
import torch
import torch.nn.functional as F
from mmaction.structures import ActionDataSample
from timm.loss import AsymmetricLossMultiLabel

from mmvidformer.models.horst.layer import HorstOutput
from mmvidformer.models.task_heads import (
    FramesHead,
    MultiLabelHead,
    NumberHead,
    pool_clip,
)
from mmvidformer.registry import MODELS


def samples(*labels, **meta) -> list[ActionDataSample]:
    """Data samples with labels and metainfo."""
    found = []
    for label in labels:
        sample = ActionDataSample(metainfo=meta)
        sample.set_gt_label(torch.as_tensor(label))
        found.append(sample)
    return found


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("kind", ["BCELossWithLogits", "AsymmetricLossMultiLabel"])
def test_losses_of_several_labels(kind: str, batch: int) -> None:
    torch.manual_seed(0)
    scores, labels = torch.randn(batch, 4), (torch.rand(batch, 4) < 0.5).float()
    names = {
        "AsymmetricLossMultiLabel": "timm.loss.AsymmetricLossMultiLabel",
    }
    loss = dict(type=names.get(kind, kind))
    head = MODELS.build(
        dict(type="mmvidformer.MultiLabelHead", num_classes=4, in_channels=8, loss_cls=loss)
    )
    expected = {
        "BCELossWithLogits": F.binary_cross_entropy_with_logits(scores, labels),
        "AsymmetricLossMultiLabel": AsymmetricLossMultiLabel()(scores, labels),
    }
    found = head.loss_by_feat(scores, samples(*labels))["loss_cls"]
    torch.testing.assert_close(found, expected[kind])


@pytest.mark.parametrize("average", ["prob", "score"])
def test_views_of_several_labels(average: str) -> None:
    head = MultiLabelHead(3, 8, average_clips=average)
    scores = torch.randn(4, 3)
    found = head.predict_by_feat(scores, samples([0.0, 1, 0], [0.0, 1, 1]))
    views = scores.sigmoid() if average == "prob" else scores
    torch.testing.assert_close(found[1].pred_score, views[2:].mean(dim=0))


def test_numbers_have_units_and_the_scale_is_saved() -> None:
    torch.manual_seed(0)
    head = NumberHead(2, 8, mean=[100.0, -3.0], std=[20.0, 0.5])
    head.init_weights()
    features, truth = torch.randn(3, 8), torch.tensor([[120.0, -2.5], [80.0, -3.0], [100.0, -4.0]])
    torch.testing.assert_close(head(features), torch.tensor([[100.0, -3.0]]).expand(3, 2))
    losses = head.loss(features, samples(*truth))
    standard = torch.tensor([[1.0, 1.0], [-1.0, 0.0], [0.0, -2.0]])
    torch.testing.assert_close(losses["loss_cls"], F.smooth_l1_loss(0 * standard, standard))
    torch.testing.assert_close(losses["mae"], torch.tensor((20 + 0.5 + 20 + 0 + 0 + 1) / 6))
    other = NumberHead(2, 8)
    other.load_state_dict(head.state_dict())
    torch.testing.assert_close(other(features), head(features))
    views = torch.tensor([[1.0, 2.0], [3.0, 6.0]])
    assert head.predict_by_feat(views, samples([0.0, 0]))[0].pred_score.tolist() == [2, 4]


def test_what_a_clip_is_pooled_from() -> None:
    grid = torch.randn(2, 3, 4, 5, 8)
    torch.testing.assert_close(pool_clip(grid), grid.mean(dim=(1, 2, 3)))
    torch.testing.assert_close(pool_clip(grid[:, 0, 0, 0]), grid[:, 0, 0, 0])
    maps = grid.movedim(-1, 2)
    outputs = HorstOutput(maps, maps, maps)
    torch.testing.assert_close(pool_clip(outputs), grid[:, -1].mean(dim=(1, 2)))
    ends = pool_clip(outputs, torch.tensor([1, 3]))
    torch.testing.assert_close(ends[0], grid[0, 0].mean(dim=(0, 1)))


@pytest.mark.parametrize("recurrent", [False, True])
def test_steps_are_trained_with_the_class_of_their_middle_frame(recurrent: bool) -> None:
    torch.manual_seed(0)
    head = FramesHead(3, 8)
    grid = torch.randn(2, 4, 2, 2, 8)
    maps = grid.movedim(-1, 2)
    logits = head(HorstOutput(maps, maps, maps) if recurrent else grid)
    torch.testing.assert_close(logits, head.fc_cls(grid.mean(dim=(2, 3))))
    labels = [[0, 0, 0, 1, 1, 2, 2, -1], [2, 2, -1, -1, 0, 0, 0, 1]]  # of 8 frames in 4 steps
    losses = head.loss_by_feat(logits, samples(*labels))
    middles = torch.tensor([[0, 1, 2, -1], [2, -1, 0, 1]]).flatten()
    expected = F.cross_entropy(logits.flatten(0, 1), middles, ignore_index=-1)
    torch.testing.assert_close(losses["loss_cls"], expected)
    right = logits.flatten(0, 1).argmax(dim=1) == middles
    assert losses["frame_acc"].item() == pytest.approx(right[middles != -1].float().mean().item())


def test_clips_without_a_class_give_no_gradient() -> None:
    head = FramesHead(3, 8)
    loss = head.loss(torch.randn(1, 4, 1, 1, 8), samples([-1] * 8))["loss_cls"]
    loss.backward()
    assert loss.item() == 0 and not head.fc_cls.weight.grad.any()


def test_overlapping_clips_and_crops_are_averaged_step_by_step() -> None:
    """Clips of 4 frames in 2 steps, at interval 2, that start at frames 0, 4 and 6 of 14."""
    head = FramesHead(2, 8)
    starts = [0, 4, 6]
    frames = [start + 2 * i for start in starts for i in range(4)]
    meta = dict(num_clips=3, frame_inds=frames, frame_step=2.0, start_index=0, total_frames=14)
    (sample,) = samples(0, **meta)
    crops = torch.randn(2, 3, 2, 2)  # crops, clips, steps, classes
    head.predict_by_feat(crops.flatten(0, 1), [sample])
    one = crops.softmax(dim=-1).mean(dim=0)
    # Steps of 4 frames: the clip at 6 has its centers at 8 and 12.
    expected = torch.stack([one[0, 0], (one[0, 1] + one[1, 0]) / 2, one[[1, 2], [1, 0]].mean(0),
                            one[2, 1]])  # fmt: skip
    assert sample.step == 4
    torch.testing.assert_close(sample.pred_score, expected)
