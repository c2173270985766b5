"""Temporal localization."""

import math

import numpy as np
import pytest
import torch
from mmaction.structures import ActionDataSample

from mmvidformer.models.horst.layer import HorstOutput
from mmvidformer.models.segments_head import (
    SegmentsHead,
    distance_iou_loss,
    visible_segments,
)
from mmvidformer.models.soft_nms import soft_nms, vote
from mmvidformer.video.times import FrameTimes


def sample(spans, clips: int = 2, first: int = 0, total: int = 64) -> ActionDataSample:
    """Clips of 8 frames at interval 4, of a video of 10 frames per second."""
    frames = np.minimum(first + 4 * np.arange(clips * 8), total - 1)
    meta = dict(num_clips=clips, frame_inds=frames, frame_step=4.0, total_frames=total)
    times = dict(start_index=0, avg_fps=10.0)
    return ActionDataSample(metainfo={**meta, **times, "spans": np.array(spans)})


@pytest.fixture
def head() -> SegmentsHead:
    torch.manual_seed(0)
    head = SegmentsHead(3, 8, hidden_dim=16, levels=3).eval()
    head.init_weights()
    return head


def test_points_of_all_levels(head) -> None:
    """7 steps are padded to 8: 8, 4 and 2 points."""
    found = head(torch.randn(2, 7, 2, 2, 8))
    assert found.shape == (2, 14, 5)
    places, strides = head.points(14)
    assert places[:8].tolist() == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5]
    assert places[8:].tolist() == [0.5, 2.5, 4.5, 6.5, 0.5, 4.5]
    assert strides.tolist() == [1] * 8 + [2] * 4 + [4] * 2
    assert (found[..., -2:] > 0).all()
    assert found[..., :3].sigmoid().mean().item() == pytest.approx(0.01, rel=0.2)


def test_clips_of_a_video_are_one_sequence(head) -> None:
    tokens = torch.randn(2, 8, 1, 1, 8)
    together = head(tokens.reshape(4, 4, 1, 1, 8), clips=2)
    torch.testing.assert_close(together, head(tokens))
    maps = tokens.movedim(-1, 2)
    torch.testing.assert_close(head(HorstOutput(maps, maps, maps)), head(tokens))


def test_targets(head) -> None:
    """A segment of 2 steps at level 1, one of 10 at level 3, which overlap."""
    labels, ends = head.targets(torch.tensor([[3.0, 5, 1], [2, 12, 2]]), 28)  # 16, 8 and 4 points
    places, strides = head.points(28)
    expected = torch.zeros(28, 3)
    for i, (place, stride) in enumerate(zip(places.tolist(), strides.tolist(), strict=True)):
        if stride == 1 and place in (3.5, 4.5):  # within 1 of the center 4
            expected[i, 1] = 1
        elif stride == 2 and abs(place - 7) < 3 and 4 <= max(place - 2, 12 - place) <= 8:
            expected[i, 2] = 1
        elif stride == 4 and abs(place - 7) < 5 and max(place - 2, 12 - place) >= 8:
            expected[i, 2] = 1
    assert labels.tolist() == expected.tolist()
    assert labels.sum(dim=0).tolist() == [0, 2, 3]
    assert ends[places == 3.5][0].tolist() == [0.5, 1.5]
    labels, _ = head.targets(torch.zeros(0, 3), 28)
    assert (labels == 0).all()


def test_segments_that_clips_show() -> None:
    """Steps of 8 frames, 0.8 s; the clips show 1.6 to 8 s."""
    spans = [(2.0, 4.0, 0), (0.4, 2.4, 1), (1.0, 2.4, 2), (7.2, 9.0, 1)]
    found = visible_segments(sample(spans, first=16, total=200), step=8)
    torch.testing.assert_close(found, torch.tensor([[0.5, 3.0, 0], [0, 1, 2]]))


def test_true_outputs_have_no_loss_and_are_found_again(head) -> None:
    """Outputs of the points are set to the targets of two segments."""
    video = sample([(0.8, 2.4, 1), (3.0, 5.5, 2)])
    step = 8.0
    feats = torch.zeros(2, 4, 1, 1, 8)  # 8 steps of 0.8 s
    labels, ends = head.targets(visible_segments(video, step), 14)
    outputs = torch.full((1, 14, 5), -12.0)
    outputs[..., :3] += 24 * labels
    outputs[0, :, 3:] = ends.clamp(min=0.1)
    head.forward = lambda *args, **kwargs: outputs
    losses = head.loss(feats, [video])
    assert losses["loss_cls"].item() < 1e-4 and losses["loss_ends"].item() < 1e-5
    head.predict(feats, [video])
    found = video.pred_instances
    for segment, label in (((0.8, 2.4), 1), ((3.0, 5.5), 2)):
        best = found.labels.tolist().index(label)
        assert found.segments[best].tolist() == pytest.approx(segment, abs=1e-5)
        assert found.scores[best].item() == pytest.approx(1, abs=1e-4)


def test_gradients_reach_all_parts(head) -> None:
    losses = head.train().loss(torch.randn(2, 4, 2, 2, 8), [sample([(0.8, 2.4, 1)])])
    sum(losses.values()).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in head.parameters())
    losses = head.loss(torch.randn(2, 4, 2, 2, 8), [sample(np.zeros((0, 3)))])
    assert losses["loss_ends"].item() == 0 and losses["loss_cls"].isfinite()


def test_points_after_the_end_find_nothing(head) -> None:
    """A video of 20 of 64 frames: the third step begins at 1.6 s, its end is 2 s."""
    video = sample([(0.0, 1.0, 0)], total=20)
    head.score_thr = 0.0
    head.predict(torch.randn(2, 4, 1, 1, 8), [video])
    assert video.pred_instances.segments.max() <= 2.0
    assert len(video.pred_instances) <= 3 * (2 + 1 + 1)


def test_soft_nms() -> None:
    segments = torch.tensor([[0.0, 10], [1, 11], [0, 10], [20, 30]])
    scores, labels = torch.tensor([0.9, 0.8, 0.7, 0.2]), torch.tensor([0, 0, 1, 0])
    found, kept, classes = soft_nms(segments, scores, labels, sigma=0.5, count=4)
    lowered = 0.8 * math.exp(-((9 / 11) ** 2) / 0.5)
    assert classes.tolist() == [0, 1, 0, 0]
    assert kept.tolist() == pytest.approx([0.9, 0.7, lowered, 0.2])
    assert found[2].tolist() == [1, 11]
    assert len(soft_nms(segments, scores, labels, 0.5, 2)[1]) == 2
    assert len(soft_nms(segments[:0], scores[:0], labels[:0], 0.5, 2)[1]) == 0


def test_votes_over_all_classes_are_those_of_actionformer() -> None:
    """What its ``batched_nms`` (61ea7eb) returned, of the five best segments of twelve."""
    n = torch.arange(12.0)
    segments = torch.stack([n * 0.7, n * 0.7 + 2 + torch.sin(n)], dim=1)
    scores, labels = 0.5 + 0.4 * torch.cos(n * 1.3), (n % 3).long()
    found, kept, classes = soft_nms(segments, scores, labels, 0.75, 5, per_class=False)
    assert classes.tolist() == [0, 2, 1, 1, 0]
    assert kept.tolist() == pytest.approx([0.9, 0.8906351, 0.8629787, 0.6037395, 0.5079557])
    wanted = [[0, 2], [3.5, 4.5410757], [6.7736731, 8.5666466]]
    wanted += [[2.5954254, 4.0910921], [4.1999998, 5.9205842]]
    torch.testing.assert_close(vote(found, segments, scores, 0.4), torch.tensor(wanted))


def test_votes_change_ends_and_no_scores(head) -> None:
    tokens, seconds = torch.randn(2, 8, 8), FrameTimes(25.0)
    head.score_thr, head.per_class = 0.0, False
    before = head.segments(tokens, 4.0, 64.0, seconds)
    head.voting = 0.2
    after = head.segments(tokens, 4.0, 64.0, seconds)
    assert torch.equal(before.scores, after.scores) and len(after.scores) > 3
    assert not torch.allclose(before.segments, after.segments)
    head.score_thr = 1.0
    assert len(head.segments(tokens, 4.0, 64.0, seconds).scores) == 0


def test_losses_and_segments_are_those_of_actionformer(head, monkeypatch) -> None:
    """What its ``losses`` and ``inference`` (61ea7eb) returned for 14 of 16 rows, of 4 frames each.

    Two segments are one in time, and of two classes.
    """
    facts = dict(num_clips=1, frame_inds=6 + 4 * np.arange(16), frame_step=4.0, total_frames=62)
    facts |= dict(start_index=0, avg_fps=25.0)
    rows = np.array([[1.75, 6, 0], [1.75, 6, 1], [3.5, 4.75, 2], [7.5, 13.25, 2]])
    rows[:, :2] = (rows[:, :2] * 4 + 8) / 25  # from the middles of windows of 16 frames
    video = ActionDataSample(metainfo={**facts, "spans": rows})
    logits = torch.sin(torch.arange(28 * 3).reshape(28, 3) * 1.7) * 3 - 2
    ends = (torch.cos(torch.arange(28 * 2).reshape(28, 2) * 0.9) + 1.1) * 2
    _, strides = head.points(28)
    outputs = torch.cat([logits, ends * strides[:, None]], dim=1)[None]
    monkeypatch.setattr(head, "forward", lambda *args, **kwargs: outputs)
    feats = torch.zeros(1, 16, 1, 1, 8)
    losses = head.loss(feats, [video])
    assert losses["loss_cls"].item() == pytest.approx(0.1564390, rel=1e-5)
    assert losses["loss_ends"].item() == pytest.approx(0.0450009, rel=1e-5)
    assert head.mean_points.item() == pytest.approx(90.8)
    head.score_thr = 0.001
    head.predict(feats, [video])
    segments, scores, labels = (video.pred_instances[x] for x in ("segments", "scores", "labels"))
    assert len(scores) == 62
    first = [[0.41333, 1.23407], [0.16959, 0.93144], [0.76818, 1.98237], [2.18383, 2.31254]]
    assert segments[:4].numpy() == pytest.approx(np.array(first), abs=1e-5)
    assert labels[:4].tolist() == [0, 1, 2, 2]
    assert scores[:4].tolist() == pytest.approx([0.730936, 0.730384, 0.722481, 0.719457], abs=1e-5)
    assert segments.sum().item() == pytest.approx(167.0196, abs=1e-3)
    assert scores.sum().item() == pytest.approx(13.10464, abs=1e-4)


@pytest.mark.parametrize("unit", [0.25, 1.0, 100.0])
def test_the_loss_of_ends_is_that_of_actionformer(unit: float) -> None:
    """What its ``ctr_diou_loss_1d`` (61ea7eb, also TriDet's, 764b816) returned, in any unit."""
    predicted = torch.tensor([[1, 2], [0.5, 0.25], [3, 8], [0, 1], [0.125, 0]]) * unit
    true = torch.tensor([[2, 2], [0.25, 1], [3, 8], [4, 0.5], [6, 2]]) * unit
    wanted = torch.tensor([0.265625, 0.7777777, 0.0, 1.1025, 1.0430298])
    torch.testing.assert_close(distance_iou_loss(predicted, true), wanted)
