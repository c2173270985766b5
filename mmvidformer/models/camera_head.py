import math
from typing import Any

import torch
from torch import Tensor, nn

from mmvidformer.catalog import MODELS
from mmvidformer.errors import UserError
from mmvidformer.layers.samples import Samples
from mmvidformer.layers.scores import check_tokens, widen
from mmvidformer.models.head import Head

# Those of the clips (synthetic.camera.paths): the speed at the middle of an edge for a unit of each
# velocity, the speed below which a camera is static, and the fastest one.
EDGE = (1.0, 1.0, 0.5, 0.5)
THRESHOLD, FASTEST = 0.05, 0.5
LOG_RANGE = math.log(1 + FASTEST / THRESHOLD)
# Rates of a unit of speed: widths, widths, logarithm of zoom and degrees per second.
PER_SPEED = (1.0, 1.0, 2.0, math.degrees(2.0))
SHAKE_SCALE = 0.005  # short sides: where the scale of the shake turns from linear to logarithmic
BESIDE = 0.2  # of the speed of the fastest motion: that of others that are named, too
# Of the losses of the flow, of the speeds and of the shake, beside that of the classes.
FLOW_WEIGHT, SPEED_WEIGHT, SHAKE_WEIGHT = 5.0, 0.5, 0.3


@MODELS.add
class CameraMotionHead(Head):
    """Name the motion of the camera from the flow that is seen at each place.

    A linear layer reads a flow, a weight and a shake from the mean token of each place. The
    similarity that fits the flow best, by weighted least squares, is the motion: pan, tilt, zoom
    and roll per second (``synthetic.camera.paths``). The logits are the speeds of the motions, in
    both directions, and the threshold below which a camera is static, times a learned factor. The
    shake is the weighted mean of that of the places.

    In testing, data samples get ``pred_rates`` (``measure``), means over the views, and
    ``pred_moves`` (``moves``).

    In training, the flow of each place is compared with that of the clip's ``velocity`` (metainfo
    of the data sample), on a logarithmic scale, the fitted speeds with those of ``velocity``,
    relative to the fastest, the shake with the clip's ``shake``, and the logits with the label.

    Args:
        in_channels: Token width D.
        num_classes: Always 9: static, and two directions of four motions.
        **kwargs: Further arguments of ``Head``.

    Raises:
        UserError: If ``num_classes`` is not 9.
    """

    reads_places = True  # of the tokens: none can be left out

    def __init__(self, in_channels: int, num_classes: int = 9, **kwargs: Any) -> None:
        if num_classes != 9:
            raise UserError(f"CameraMotionHead has 9 classes, got num_classes={num_classes}")
        super().__init__(num_classes, in_channels, **kwargs)
        self.fc_cls = nn.Linear(in_channels, 4)
        self.log_scale = nn.Parameter(torch.tensor(3.0))

    def init_weights(self) -> None:
        """Draw the weights of the linear layer."""
        nn.init.normal_(self.fc_cls.weight, std=0.02)
        nn.init.zeros_(self.fc_cls.bias)

    def forward(self, x: Tensor, **kwargs: Any) -> Tensor:
        """Map tokens (N, T, H, W, D) to logits (N, 9), or features (N, D) without ``fc_cls``."""
        if not isinstance(self.fc_cls, nn.Linear):  # VideoClassifier replaces it
            return self.fc_cls(x.mean(dim=(1, 2, 3)))
        return self.measure(x)[0]

    def measure(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map tokens (N, T, H, W, D) to logits (N, 9) and rates (N, 5).

        The rates are those of pan and tilt, in short sides of the frame per second, of zoom, in its
        logarithm, and of roll, in degrees; and the shake, in short sides.
        """
        flow, weights, shakes, places = self.read_places(x)
        speeds = self.fit(flow, weights, places) * flow.new_tensor(EDGE)
        log_shake = (weights * shakes).sum(dim=1, keepdim=True).clamp(0, 5)
        shake = SHAKE_SCALE * (log_shake.exp() - 1)
        rates = torch.cat([speeds * speeds.new_tensor(PER_SPEED), shake], dim=1)
        return self.classify(speeds), rates

    def predict(self, feats: Tensor, data_samples: Samples, **kwargs: Any) -> Samples:
        """Store the scores, the rates, and the classes that hold at once."""
        return self.predict_by_feat(self.measure(feats), data_samples)

    def predict_by_feat(self, cls_scores: Any, data_samples: Samples) -> Samples:
        """Store what ``measure`` returns for the views of the samples."""
        logits, rates = cls_scores
        rates = rates.unflatten(0, (len(data_samples), -1)).mean(dim=1)
        samples = super().predict_by_feat(logits, data_samples)
        for sample, of_video, moves in zip(samples, rates, self.moves(rates), strict=True):
            sample.pred_rates, sample.pred_moves = of_video, moves
        return samples

    def moves(self, rates: Tensor) -> Tensor:
        """Tell which classes (N, 9), bool, hold at once for rates (N, 4), or (N, 5) with the shake.

        These are motions with a speed of ``THRESHOLD``, and ``BESIDE`` of the fastest one.
        """
        speeds = rates[:, :4] / rates.new_tensor(PER_SPEED)
        fastest = speeds.abs().amax(dim=1, keepdim=True)
        moves = torch.stack([-speeds, speeds], dim=2).flatten(1)
        moves = moves >= (BESIDE * fastest).clamp(min=THRESHOLD)
        return torch.cat([~moves.any(dim=1, keepdim=True), moves], dim=1)

    def read_places(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Read flows (N, P, 2), weights (N, P), shakes (N, P) and places (2, P).

        Flows and shakes are on a logarithmic scale. Places are in short sides of the frame, from
        its middle.
        """
        check_tokens(self, x)
        height, width = x.shape[2:4]
        side = min(height, width)
        # Motion between places needs more digits than half precision has.
        outputs = widen(self.fc_cls(x.mean(dim=1).flatten(1, 2)))  # (N, P, 4)
        right = (torch.arange(width).to(outputs) + 0.5 - width / 2) / side
        down = (torch.arange(height).to(outputs) + 0.5 - height / 2) / side
        places = torch.stack([right.repeat(height), down.repeat_interleave(width)])
        return outputs[..., :2], outputs[..., 2].softmax(dim=1), outputs[..., 3], places

    def fit(self, flow: Tensor, weights: Tensor, places: Tensor) -> Tensor:
        """Return the velocity (N, 4) of the camera for the output of ``read_places``."""

        def mean(values: Tensor) -> Tensor:
            return (weights * values).sum(dim=1, keepdim=True)

        size = (flow.square().sum(dim=-1, keepdim=True) + 1e-6).sqrt()
        speed = THRESHOLD * ((size.clamp(max=1.5) * LOG_RANGE).exp() - 1)
        u, v = (flow / size * speed).unbind(dim=-1)
        x, y = places
        # The least squares of a similarity, from the deviations from the weighted means.
        dx, dy, du, dv = x - mean(x), y - mean(y), u - mean(u), v - mean(v)
        spread = mean(dx * dx + dy * dy) + 1e-3
        zoom = mean(dx * du + dy * dv) / spread
        turn = mean(dx * dv - dy * du) / spread
        pan = zoom * mean(x) - turn * mean(y) - mean(u)
        tilt = zoom * mean(y) + turn * mean(x) - mean(v)
        return torch.cat([pan, tilt, zoom, -turn], dim=1)

    def classify(self, speeds: Tensor) -> Tensor:
        """Return the logits (N, 9) of signed speeds (N, 4)."""
        static = torch.full_like(speeds[:, :1], THRESHOLD)
        directions = torch.stack([-speeds, speeds], dim=2).flatten(1)
        return torch.cat([static, directions], dim=1) * self.log_scale.exp()

    def loss(self, feats: Tensor, data_samples: Samples, **kwargs: Any) -> dict[str, Tensor]:
        """Compute the losses and the accuracy of tokens (N, T, H, W, D)."""
        flow, weights, shakes, places = self.read_places(feats)
        speeds = self.fit(flow, weights, places) * flow.new_tensor(EDGE)
        losses = self.loss_by_feat(self.classify(speeds), data_samples)
        velocity = flow.new_tensor([list(sample.velocity) for sample in data_samples])
        flow_error = (flow - self.true_flow(velocity, places)).square().sum(dim=-1).mean()
        true_speeds = velocity * velocity.new_tensor(EDGE)
        fastest = true_speeds.abs().amax(dim=1, keepdim=True)
        speed_error = (speeds - true_speeds).abs() / (THRESHOLD + fastest)
        shake = flow.new_tensor([sample.shake for sample in data_samples])
        shake_error = (weights * shakes).sum(dim=1) - (1 + shake / SHAKE_SCALE).log()
        losses["loss_flow"] = FLOW_WEIGHT * flow_error
        losses["loss_speed"] = SPEED_WEIGHT * speed_error.sum(dim=1).mean()
        losses["loss_shake"] = SHAKE_WEIGHT * shake_error.square().mean()
        return losses

    def true_flow(self, velocity: Tensor, places: Tensor) -> Tensor:
        """Return the flow (N, H * W, 2), on a logarithmic scale, of velocities (N, 4)."""
        pan, tilt, zoom, roll = velocity[..., None].unbind(dim=1)
        x, y = places
        flow = torch.stack([zoom * x + roll * y - pan, zoom * y - roll * x - tilt], dim=-1)
        speed = (flow.square().sum(dim=-1, keepdim=True) + 1e-8).sqrt()
        return flow / speed * (1 + speed / THRESHOLD).log() / LOG_RANGE
