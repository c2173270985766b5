"""Event spotting: moments of a video, their classes and scores."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvidformer.catalog import MODELS
from mmvidformer.layers.samples import Instances, Sample, Samples
from mmvidformer.layers.scores import widen
from mmvidformer.models.heads import refuse_unread
from mmvidformer.models.horst.layer import Features
from mmvidformer.models.segments_head import ConvBlock, FindingHead, count_steps
from mmvidformer.models.soft_nms import SAME_MOMENT, soft_nms
from mmvidformer.models.task_heads import pool_space
from mmvidformer.video.times import FrameTimes

SEEN_AFTER = 3.5  # steps from its middle that decide: one for each convolution, and its neighbor
SUPPRESS = 1e-3  # width of the Gaussian of soft-NMS: what is near the best moment is dropped


@MODELS.add
class MomentsHead(FindingHead):
    """Find moments by the class of each step, as E2E-Spot does (Hong et al. 2022).

    The tokens of each step of time are averaged over space, and those of all clips of a video put
    one after another. Two convolutions over time and a linear layer give the logits of all classes
    and of the background, which the cross-entropy trains. The classes weigh more than the
    background, and the steps beside a moment have its class, too. These steps also learn how far
    away the moment is, as in T-DEED (Xarles et al. 2024), so that it can be between steps. A moment
    is a step with no less probability than its neighbors; of those of a class within 0.5 s, the
    best is kept. Unlike E2E-Spot, layers are convolutions, and labels are wider by default
    (``dilation``).

    Args:
        num_classes: Number of classes, without that of the background.
        in_channels: Token width D.
        hidden_dim: Width of the convolutions.
        dilation: Number of steps on each side of a moment that have its class in training, and
            learn its distance.
        weight: Weight of a class in the loss; that of the background is 1.
        score_thr: Least score of a moment.
        max_segments: Largest number of moments of a video.
        **kwargs: Further arguments of ``Head``.
    """

    output_shape = (
        "(batch, steps, classes + 2): logits, those of the background after the classes, and steps "
        "to the moment"
    )
    activation = "softmax"

    def __init__(
        self,
        num_classes: int,
        in_channels: int,
        hidden_dim: int = 256,
        dilation: int = 1,
        weight: float = 5.0,
        score_thr: float = 0.01,
        max_segments: int = 200,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, in_channels, **kwargs)
        refuse_unread(self, kwargs, "loss_cls", "label_smooth_eps")
        self.dilation, self.weight = dilation, weight
        self.score_thr, self.max_segments = score_thr, max_segments
        self.proj = nn.Linear(in_channels, hidden_dim)
        self.tower = nn.Sequential(ConvBlock(hidden_dim), ConvBlock(hidden_dim))
        self.fc_cls = nn.Linear(hidden_dim, num_classes + 1)
        self.fc_distance = nn.Linear(hidden_dim, 1)

    def forward(self, x: Features, clips: int = 1, **kwargs: Any) -> Tensor:
        """Return the outputs of all steps.

        Args:
            x: Tokens (N * clips, T, H, W, D), or outputs of a recurrent model.
            clips: Number of successive clips of a video.
            **kwargs: Not used.

        Returns:
            (N, clips * T, classes + 2), at least in float32: logits of the classes and of the
            background, and the steps from the middle of this one to the moment.
        """
        steps = self.proj(pool_space(x, self)).unflatten(0, (-1, clips)).flatten(1, 2)
        steps = self.tower(steps)
        return torch.cat([widen(self.fc_cls(steps)), widen(self.fc_distance(steps))], dim=-1)

    def targets(self, sample: Sample, step: float, count: int) -> tuple[Tensor, Tensor]:
        """Return what the steps of the clips of a sample learn.

        Of two moments near a step, it learns the one whose own step is nearest.

        Args:
            sample: Its metainfo has ``spans``.
            step: Frames of a step.
            count: Number of steps.

        Returns:
            Classes (count,), and steps to the moment (count,): 0 where there is none.
        """
        labels, distances = torch.full((count,), self.num_classes), torch.zeros(count)
        least = torch.full((count,), float(self.dilation))
        spans = torch.as_tensor(sample.spans, dtype=torch.float).reshape(-1, 3)
        frames = FrameTimes(sample.avg_fps).numbers(spans[:, 0])
        places = (frames - float(sample.frame_inds[0])) / step
        numbers = torch.arange(count)
        for place, label in zip(places, spans[:, 2], strict=True):
            apart = (numbers - place.floor()).abs()
            is_nearest = apart <= least
            labels[is_nearest] = int(label)
            distances[is_nearest] = place - (numbers[is_nearest] + 0.5)
            least[is_nearest] = apart[is_nearest]
        return labels, distances

    def loss(self, feats: Features, data_samples: Samples, **kwargs: Any) -> dict[str, Tensor]:
        """Compute the losses of the clips of videos whose metainfo has ``spans``."""
        outputs = self(feats, data_samples[0].num_clips)  # (N, steps, classes + 2)
        count = outputs.shape[1]
        targets = [
            self.targets(sample, count_steps(feats, sample), count) for sample in data_samples
        ]
        labels, distances = (torch.stack(column) for column in zip(*targets, strict=True))
        labels, distances = labels.to(outputs.device), distances.to(outputs)
        weights = outputs.new_full((self.num_classes + 1,), self.weight)
        weights[-1] = 1.0
        loss_cls = F.cross_entropy(outputs[..., :-1].flatten(0, 1), labels.flatten(), weights)
        is_near = labels < self.num_classes
        errors = (outputs[..., -1] - distances).abs() * is_near
        return {"loss_cls": loss_cls, "loss_distance": errors.sum() / is_near.sum().clamp(min=1)}

    def segments(self, tokens: Tensor, step: float, total: float, times: FrameTimes) -> Instances:
        """Find moments in the tokens (clips, T, D) of successive clips.

        Arguments and result are those of ``SegmentsHead.segments``; start and end are equal.
        """
        (outputs,) = self(tokens[:, :, None, None], len(tokens))
        middles = (torch.arange(len(outputs), device=outputs.device) + 0.5) * step
        scores = outputs[:, :-1].softmax(dim=-1)[:, :-1] * (middles < total)[:, None]
        highest = F.max_pool1d(scores.T, 3, stride=1, padding=1).T  # of a step and its neighbors
        is_peak = (scores == highest) & (scores > self.score_thr)
        which, labels = is_peak.nonzero(as_tuple=True)
        distances = outputs[:, -1].clamp(-self.reach, self.reach)
        places = (middles + distances * step).clamp(0, total)
        seconds = times.seconds(places)[which, None].expand(-1, 2)
        segments, kept, labels = soft_nms(
            seconds, scores[which, labels], labels, SUPPRESS, self.max_segments
        )
        good = kept > self.score_thr
        return Instances(segments=segments[good], scores=kept[good], labels=labels[good])

    def settling_seconds(self, step: float) -> float:
        """Return until when the step of a moment, which can be later, sees all that it can see.

        A better moment may be near.
        """
        return (SEEN_AFTER + self.reach) * step + SAME_MOMENT

    @property
    def reach(self) -> float:
        """Most steps from the middle of a step to its moment."""
        return self.dilation + 0.5
