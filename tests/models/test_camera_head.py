"""The head that names the motion of the camera."""

import math

import numpy as np
import pytest
import torch
from mmaction.structures import ActionDataSample

from lab.synthetic.camera.paths import (
    CLASSES,
    EDGE,
    FASTEST,
    FPS,
    THRESHOLD,
    class_of,
    draw_velocity,
    integrate,
)
from mmvidformer.models import camera_head
from mmvidformer.models.camera_head import CameraMotionHead

LOSS = dict(type="CrossEntropyLoss")


@pytest.fixture
def head() -> CameraMotionHead:
    torch.manual_seed(0)
    head = CameraMotionHead(6, loss_cls=LOSS, topk=(1,))
    head.init_weights()
    return head


def velocities() -> torch.Tensor:
    rng = np.random.default_rng(0)
    drawn = [draw_velocity(label, rng) for label in range(len(CLASSES)) for _ in range(20)]
    return torch.tensor(np.stack(drawn), dtype=torch.float32)


def test_constants_are_those_of_the_clips(head) -> None:
    assert list(camera_head.EDGE) == EDGE.tolist()
    assert (camera_head.THRESHOLD, camera_head.FASTEST) == (THRESHOLD, FASTEST)
    assert head.num_classes == len(CLASSES)


def test_the_true_flow_is_that_of_the_image(head, monkeypatch) -> None:
    """Where a point of the scene is seen one short step later."""
    places = head.read_places(torch.zeros(1, 1, 3, 4, 6))[-1]
    velocity = velocities()
    # Small flows are not compressed: log(1 + s / t) is s / t.
    monkeypatch.setattr(camera_head, "THRESHOLD", 1e3)
    flow, share = head.true_flow(velocity, places) * 1e3 * camera_head.LOG_RANGE, 1e-3
    points = places[0].numpy() + 1j * places[1].numpy()
    for one, found in zip(velocity.numpy(), flow.numpy(), strict=True):
        (a, later), (b, moved) = integrate(share * one[None] / FPS)
        seen = ((a * points + b - moved) / later - points) / share * FPS
        np.testing.assert_allclose(found[:, 0] + 1j * found[:, 1], seen, atol=5e-3)


@pytest.mark.parametrize("grid", [(4, 4), (3, 5)])
def test_a_motion_is_fitted_to_its_flow(head, grid) -> None:
    velocity, places = velocities(), head.read_places(torch.zeros(1, 1, *grid, 6))[-1]
    flow = head.true_flow(velocity, places)
    weights = torch.rand(len(velocity), places.shape[1]).softmax(dim=1)
    torch.testing.assert_close(head.fit(flow, weights, places), velocity, atol=0.03, rtol=0.02)
    speeds = np.abs(velocity.numpy()) * EDGE
    first, second = -np.partition(-speeds, 1, axis=1)[:, :2].T
    clear = (np.abs(first - THRESHOLD) > 0.01) & (first - second > 0.02)
    speeds = head.fit(flow, weights, places) * torch.tensor(camera_head.EDGE)
    found = head.classify(speeds).argmax(dim=1).numpy()
    right = [class_of(one) for one in velocity.numpy()]
    assert clear.sum() > 100 and (found == right)[clear].all()


def samples_of(velocity: torch.Tensor) -> list[ActionDataSample]:
    samples = [ActionDataSample().set_gt_label(class_of(v)) for v in velocity.numpy()]
    for sample, one in zip(samples, velocity, strict=True):
        sample.set_metainfo(dict(velocity=one.numpy(), shake=0.01))
    return samples


def test_losses_reach_all_weights(head) -> None:
    samples = samples_of(velocities()[:5])
    tokens = torch.randn(5, 2, 4, 4, 6)
    losses = head.loss(tokens, samples)
    assert losses.keys() == {"top1_acc", "loss_cls", "loss_flow", "loss_speed", "loss_shake"}
    sum(losses[name] for name in losses if name.startswith("loss")).backward()
    assert all(weight.grad.abs().sum() > 0 for weight in head.parameters())
    assert head(tokens).shape == (5, 9)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_the_loss_of_the_speeds_is_relative_to_the_fastest(head, monkeypatch, share) -> None:
    velocity = torch.tensor([[0.3, 0.0, 0.0, 0.0], [0.1, 0.0, 0.2, 0.0], [0.0, 0.0, 0.0, 0.0]])
    monkeypatch.setattr(head, "fit", lambda *_: share * velocity)
    losses = head.loss(torch.randn(3, 2, 4, 4, 6), samples_of(velocity))
    # The second pans at 0.1, and its zoom moves an edge at 0.1; a still camera has no error.
    error = (1 - share) * (0.3 / 0.35 + 0.2 / 0.15) / 3
    assert losses["loss_speed"].item() == pytest.approx(camera_head.SPEED_WEIGHT * error, abs=1e-6)


def test_other_classes_are_an_error() -> None:
    with pytest.raises(ValueError, match="has 9 classes, got num_classes=5"):
        CameraMotionHead(6, num_classes=5, loss_cls=LOSS)


class Places(CameraMotionHead):
    """The head, with what it reads at each place given."""

    def __init__(self, velocity: torch.Tensor, shake: float, log_scale: float = 3.0) -> None:
        super().__init__(6, loss_cls=LOSS, average_clips="prob")
        places = super().read_places(torch.zeros(1, 1, 8, 8, 6))[-1]
        weights = torch.full((len(velocity), 64), 1 / 64)
        log_shake = torch.full_like(weights, math.log(1 + shake / camera_head.SHAKE_SCALE))
        self.outputs = self.true_flow(velocity, places), weights, log_shake, places
        self.log_scale.data.fill_(log_scale)

    def read_places(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.outputs


@pytest.mark.parametrize("log_scale", [0.0, 4.0])
def test_rates_do_not_depend_on_the_scale_of_the_logits(log_scale: float) -> None:
    velocity = velocities()
    _, rates = Places(velocity, 0.02, log_scale).measure(torch.zeros(1))
    expected = velocity * torch.tensor([1.0, 1.0, 1.0, float(np.degrees(1.0))])
    torch.testing.assert_close(rates[:, :4], expected, atol=1.0, rtol=0.03)
    torch.testing.assert_close(rates[:, :3], expected[:, :3], atol=0.02, rtol=0.03)
    torch.testing.assert_close(rates[:, 4], torch.full((len(rates),), 0.02))


def test_samples_get_the_mean_rates_of_their_views() -> None:
    velocity = torch.tensor([[0.2, 0.0, 0.2, 0.0], [0.3, 0.0, 0.2, 0.0], [0.0] * 4, [0.02] * 4])
    samples = [ActionDataSample(), ActionDataSample()]
    with torch.no_grad():
        Places(velocity, 0.01).predict(torch.zeros(1), samples)
    expected = torch.tensor([0.25, 0.0, 0.2, 0.0, 0.01])
    torch.testing.assert_close(samples[0].pred_rates, expected, atol=0.01, rtol=0.05)
    named = [[CLASSES[i] for i in sample.pred_moves.nonzero().flatten()] for sample in samples]
    assert named == [["pan right", "zoom in"], ["static"]]
    assert samples[0].pred_score.sum() == pytest.approx(1)


def test_what_moves_at_once() -> None:
    head = CameraMotionHead(6, loss_cls=LOSS)
    rates = torch.tensor([[0.4, -0.06, 0.0, 0.0], [-0.1, 0.0, 0.0, -12.0], [0.04, 0, 0.09, 5.0]])
    named = [[CLASSES[i] for i in moves.nonzero().flatten()] for moves in head.moves(rates)]
    # A tilt of a seventh of the speed of the pan may be an error of the fit.
    assert named == [["pan right"], ["pan left", "roll counter-clockwise"], ["static"]]
