"""Temporal localization: segments of a video, their classes and scores."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvidformer.layers.catalog import MODELS
from mmvidformer.layers.samples import Instances, Sample, Samples
from mmvidformer.layers.scores import widen
from mmvidformer.models.head import Head
from mmvidformer.models.heads import refuse_unread
from mmvidformer.models.horst.layer import Features, HorstOutput
from mmvidformer.models.task_heads import pool_space
from mmvidformer.video.times import FrameTimes

RADIUS = 1.5  # of the points around a segment's center that are trained to find it, in strides
SHARE = 0.5  # of a segment that a training clip must show
FIRST_RANGE = 4.0  # largest distance to an end, in strides, of the first level
SAME_MOMENT = 0.5  # seconds within which moments of a class are one
PRIOR = 0.01  # probability of a class before training
EPSILON = 1e-8  # least length that is divided by


class ConvBlock(nn.Module):
    """Convolution over time, layer norm and GELU on (N, T, D).

    Args:
        dim: Width D.
        stride: Stride over time; T is a multiple of it.
    """

    def __init__(self, dim: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv1d(dim, dim, 3, stride, padding=1, bias=False)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: Tensor) -> Tensor:
        """Return (N, T / stride, D)."""
        return F.gelu(self.norm(self.conv(x.transpose(1, 2)).transpose(1, 2)))


class FindingHead(Head):
    """A head that finds segments in the tokens of successive clips: its ``segments``."""

    answers_parts = True  # of a clip: a sample has not one label
    segments: Callable[..., Instances]

    def predict(self, feats: Features, data_samples: Samples, **kwargs: Any) -> Samples:
        """Store ``pred_instances``: segments (n, 2) in seconds, scores and labels, best first."""
        views = pool_space(feats).unflatten(0, (len(data_samples), -1))
        for tokens, sample in zip(views, data_samples, strict=True):
            mean = tokens.unflatten(0, (-1, sample.num_clips)).mean(dim=0)  # of the crops
            first = float(sample.frame_inds[0]) - sample.start_index
            times = FrameTimes(sample.avg_fps)
            total = sample.total_frames - first
            instances = self.segments(mean, count_steps(mean, sample), total, times)
            instances.segments = instances.segments + times.seconds(first)
            sample.pred_instances = instances
        return data_samples

    def settling_seconds(self, step: float) -> float:
        """Return for how long after its end later steps, of ``step`` s, can change a segment.

        Default: 0. What comes next may always change a long segment, which is not waited for.
        """
        return 0.0


@MODELS.add
class SegmentsHead(FindingHead):
    """Find segments without anchors, as ActionFormer does (Zhang, Wu and Li 2022).

    The tokens of each step of time are averaged over space, and those of all clips of a video put
    one after another. Each level of a pyramid halves the steps. Each point of each level gives the
    logits of all classes, and the distances to both ends of its segment. A point is trained to find
    the shortest segment that it lies in, if it is at most 1.5 strides from its center and the ends
    are in the range of its level. Losses are the focal loss and the DIoU loss. Unlike ActionFormer,
    levels are convolutions, and distances pass a softplus.

    Args:
        num_classes: Number of classes.
        in_channels: Token width D.
        hidden_dim: Width of the pyramid.
        levels: Number of levels.
        score_thr: Least score of a segment.
        max_segments: Largest number of segments of a video.
        sigma: Width of the Gaussian of soft-NMS (Bodla et al. 2017).
        **kwargs: Further arguments of ``Head``.
    """

    # Of an exported graph, as its file says.
    output_shape = "(batch, points, classes + 2): logits, and steps to start and end"
    activation = "sigmoid"

    def __init__(
        self,
        num_classes: int,
        in_channels: int,
        hidden_dim: int = 256,
        levels: int = 5,
        score_thr: float = 0.01,
        max_segments: int = 200,
        sigma: float = 0.5,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, in_channels, **kwargs)
        refuse_unread(self, kwargs, "loss_cls", "label_smooth_eps")
        self.score_thr, self.max_segments, self.sigma = score_thr, max_segments, sigma
        self.proj = nn.Linear(in_channels, hidden_dim)
        strides = [1] + [2] * (levels - 1)
        self.pyramid = nn.ModuleList(ConvBlock(hidden_dim, stride) for stride in strides)
        self.class_tower = nn.Sequential(ConvBlock(hidden_dim), ConvBlock(hidden_dim))
        self.end_tower = nn.Sequential(ConvBlock(hidden_dim), ConvBlock(hidden_dim))
        self.fc_cls = nn.Linear(hidden_dim, num_classes)
        self.fc_ends = nn.Linear(hidden_dim, 2)
        self.scales = nn.Parameter(torch.ones(levels))

    def init_weights(self) -> None:
        """Draw the weights of the last layers; classes start with the probability 0.01."""
        nn.init.normal_(self.fc_cls.weight, std=0.02)
        nn.init.constant_(self.fc_cls.bias, math.log(PRIOR / (1 - PRIOR)))
        nn.init.normal_(self.fc_ends.weight, std=0.02)
        nn.init.zeros_(self.fc_ends.bias)

    def forward(self, x: Features, clips: int = 1, **kwargs: Any) -> Tensor:
        """Return the outputs of all points.

        Args:
            x: Tokens (N * clips, T, H, W, D), or outputs of a recurrent model.
            clips: Number of successive clips of a video.
            **kwargs: Not used.

        Returns:
            (N, P, classes + 2), at least in float32: logits, and distances to both ends in steps.
            P = ceil(T * clips / 2^(levels - 1)) * (2^levels - 1) points, those of the first level
            first.
        """
        steps = self.proj(pool_space(x)).unflatten(0, (-1, clips)).flatten(1, 2)
        last_stride = 2 ** (len(self.pyramid) - 1)
        steps = F.pad(steps, (0, 0, 0, -steps.shape[1] % last_stride))
        outputs = []
        for level, block in enumerate(self.pyramid):
            steps = block(steps)
            # Places in time need more digits than half precision has.
            logits = widen(self.fc_cls(self.class_tower(steps)))
            ends = widen(self.fc_ends(self.end_tower(steps)) * self.scales[level])
            ends = F.softplus(ends)
            outputs.append(torch.cat([logits, ends * 2**level], dim=-1))
        return torch.cat(outputs, dim=1)

    def points(self, count: int) -> tuple[Tensor, Tensor]:
        """Return places and strides (P,) in steps, for the number of points P."""
        levels = torch.arange(len(self.pyramid))
        sizes = (count // (2 ** len(levels) - 1)) * 2 ** levels.flip(0)
        strides = (2.0**levels).repeat_interleave(sizes)
        numbers = torch.cat([torch.arange(size) for size in sizes])  # within the level
        return strides * (numbers + 0.5), strides

    def targets(self, segments: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Return the class (P,), -1 for none, and the distances (P, 2) of all points.

        Args:
            segments: Start and end in steps, and class (n, 3).
            count: Number of points P.
        """
        places, strides = self.points(count)
        places, strides = places.to(segments), strides.to(segments)
        if not len(segments):
            return places.new_full((count,), -1).long(), places.new_zeros(count, 2)
        start, end, classes = segments.T
        distances = torch.stack([places[:, None] - start, end - places[:, None]], dim=-1)
        reach = torch.minimum(RADIUS * strides[:, None], (end - start) / 2)
        near = (places[:, None] - (start + end) / 2).abs() <= reach
        largest, last = distances.amax(dim=-1) / strides[:, None], strides == strides[-1]
        low = torch.where(strides == 1, 0.0, FIRST_RANGE / 2)[:, None]
        high = torch.where(last, torch.inf, FIRST_RANGE)[:, None]
        fits = near & (largest > low) & (largest <= high)
        lengths = torch.where(fits, end - start, torch.inf)
        shortest, which = lengths.min(dim=1)
        labels = torch.where(shortest.isfinite(), classes[which].long(), -1)
        return labels, distances[torch.arange(count), which]

    def loss(self, feats: Features, data_samples: Samples, **kwargs: Any) -> dict[str, Tensor]:
        """Compute the losses of the clips of videos whose metainfo has ``spans``."""
        from torchvision.ops import sigmoid_focal_loss  # takes seconds

        batch = self(feats, data_samples[0].num_clips)  # (N, P, classes + 2)
        loss_cls = loss_ends = positive = batch.new_zeros(())
        for outputs, sample in zip(batch, data_samples, strict=True):
            segments = visible_segments(sample, count_steps(feats, sample)).to(batch)
            labels, distances = self.targets(segments, len(outputs))
            hit = labels >= 0
            logits, ends = outputs[:, :-2], outputs[:, -2:]
            one_hot = F.one_hot(labels.clamp(min=0), self.num_classes) * hit[:, None]
            loss_cls = loss_cls + sigmoid_focal_loss(logits, one_hot.to(logits), reduction="sum")
            loss_ends = loss_ends + distance_iou_loss(ends[hit], distances[hit]).sum()
            positive = positive + hit.sum()
        count = positive.clamp(min=1)
        return {"loss_cls": loss_cls / count, "loss_ends": loss_ends / count}

    def segments(self, tokens: Tensor, step: float, total: float, times: FrameTimes) -> Instances:
        """Find segments in the tokens (clips, T, D) of successive clips.

        Args:
            tokens: Averaged over space.
            step: Number of frames that a step covers.
            total: Number of frames of the video from the first clip on.
            times: Seconds of the frames.

        Returns:
            ``segments`` (n, 2) in seconds from the begin of the first clip, ``scores`` and
            ``labels``, best first, on the CPU.
        """
        (outputs,) = self(tokens[:, :, None, None], len(tokens))
        places = self.points(len(outputs))[0].to(outputs)
        scores = outputs[:, :-2].sigmoid() * (places * step < total)[:, None]
        which, labels = (scores > self.score_thr).nonzero(as_tuple=True)
        start, end = (places - outputs[:, -2], places + outputs[:, -1])
        seconds = times.seconds(torch.stack([start, end], dim=1) * step)
        seconds = seconds.clamp(0, times.seconds(total))[which]
        segments, scores, labels = soft_nms(
            seconds, scores[which, labels], labels, self.sigma, self.max_segments
        )
        good = scores > self.score_thr
        return Instances(segments=segments[good], scores=scores[good], labels=labels[good])


def distance_iou_loss(predicted: Tensor, true: Tensor) -> Tensor:
    """Return the DIoU loss (n,) of segments on a line (Zheng et al. 2020).

    They are given by the distances (n, 2) of a point to both ends. Their unit does not matter.
    """
    overlap = torch.minimum(predicted, true).sum(dim=1)
    union = predicted.sum(dim=1) + true.sum(dim=1) - overlap
    hull = torch.maximum(predicted, true).sum(dim=1).clamp(min=EPSILON)
    apart = (predicted - true).diff(dim=1)[:, 0] / 2  # of the centers
    return 1 - overlap / union.clamp(min=EPSILON) + (apart / hull).square()


def count_steps(feats: Features, sample: Sample) -> float:
    """Return the number of frames of the file that a step of the tokens covers."""
    steps = (feats.y if isinstance(feats, HorstOutput) else feats).shape[1]
    return len(sample.frame_inds) / sample.num_clips / steps * sample.frame_step


def visible_segments(sample: Sample, step: float) -> Tensor:
    """Return start and end in steps, and class (n, 3), of what the clips of a sample show."""
    first, last = float(sample.frame_inds[0]), float(sample.frame_inds[-1]) + sample.frame_step
    spans = torch.as_tensor(sample.spans, dtype=torch.float).reshape(-1, 3)
    frames = FrameTimes(sample.avg_fps).numbers(spans[:, :2])
    shown = frames.clamp(first, last)
    share = (shown[:, 1] - shown[:, 0]) / (frames[:, 1] - frames[:, 0])
    segments = torch.cat([(shown - first) / step, spans[:, 2:]], dim=1)
    return segments[share >= SHARE]


def soft_nms(
    segments: Tensor, scores: Tensor, labels: Tensor, sigma: float, count: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Take the best segment again and again, and lower the scores of its class that overlap it.

    A score is multiplied by ``exp(-iou^2 / sigma)``.

    Returns:
        At most ``count`` segments (n, 2), scores and labels (n,), in the order taken.
    """
    segments, scores, labels = segments.cpu(), scores.cpu().clone(), labels.cpu()
    taken, order = [], []
    for _ in range(min(count, len(scores))):
        best = int(scores.argmax())
        order.append(best)
        taken.append(scores[best].item())
        iou = segment_iou(segments[best], segments)
        scores *= torch.where(labels == labels[best], (-iou.square() / sigma).exp(), 1.0)
        scores[best] = -1
    return segments[order], scores.new_tensor(taken), labels[order]


def segment_iou(segment: Tensor, others: Tensor) -> Tensor:
    """Return the intersection over union (n,) of a segment (2,) and others (n, 2).

    Of moments, which have no length, it is 1 if they are at most 0.5 s apart.
    """
    from torchvision.ops import box_iou  # takes seconds to import

    iou = box_iou(as_boxes(segment[None]), as_boxes(others))[0].nan_to_num()
    are_moments = (segment[1] == segment[0]) & (others[:, 1] == others[:, 0])
    is_near = (others[:, 0] - segment[0]).abs() <= SAME_MOMENT
    return torch.where(are_moments, is_near.to(iou), iou)


def as_boxes(segments: Tensor) -> Tensor:
    """Return segments (n, 2) as boxes (n, 4) of height 1."""
    return F.pad(segments, (0, 1))[:, [0, 2, 1, 2]] + segments.new_tensor([0, 0, 0, 1])
