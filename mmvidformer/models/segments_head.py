"""Temporal localization: segments of a video, their classes and scores."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvidformer.catalog import MODELS
from mmvidformer.layers.samples import Instances, Sample, Samples
from mmvidformer.layers.scores import widen
from mmvidformer.models.head import Head
from mmvidformer.models.heads import refuse_unread
from mmvidformer.models.horst.layer import Features, HorstOutput
from mmvidformer.models.soft_nms import soft_nms, vote
from mmvidformer.models.task_heads import pool_space
from mmvidformer.video.times import FrameTimes

RADIUS = 1.5  # of the points around a segment's center that are trained to find it, in strides
SHARE = 0.5  # of a segment that a training clip must show
FIRST_RANGE = 4.0  # largest distance to an end, in strides, of the first level
PRIOR = 0.01  # probability of a class before training
SAME_LENGTH = 1e-3  # steps by which segments that a point finds together differ in length
MOMENTUM = 0.9  # of the number of points that losses are divided by
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
        views = pool_space(feats, self).unflatten(0, (len(data_samples), -1))
        for tokens, sample in zip(views, data_samples, strict=True):
            mean = tokens.unflatten(0, (-1, sample.num_clips)).mean(dim=0)  # of the crops
            first = float(sample.frame_inds[0]) - sample.start_index
            times = FrameTimes(sample.avg_fps)
            total = sample.total_frames - first
            instances = self.segments(mean, count_steps(mean, sample), total, times)
            instances.segments = (instances.segments + times.seconds(first)).clamp(min=0)
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
    are in the range of its level; segments of one length may have several classes. Losses are the
    focal loss and the DIoU loss, divided by a running mean of the number of such points. Unlike
    ActionFormer, levels are convolutions, and distances pass a softplus.

    Args:
        num_classes: Number of classes.
        in_channels: Token width D.
        hidden_dim: Width of the pyramid.
        levels: Number of levels.
        score_thr: Least score of a segment.
        max_segments: Largest number of segments of a video.
        sigma: Width of the Gaussian of soft-NMS (Bodla et al. 2017).
        per_class: Whether soft-NMS lowers the scores of the same class only.
        voting: Least overlap of segments that change the ends of one that is found (``vote``), as
            ActionFormer does if soft-NMS is not per class. None: none do.
        points_at_first: Number of points of a batch that find a segment, before training.
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
        per_class: bool = True,
        voting: float | None = None,
        points_at_first: float = 100.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, in_channels, **kwargs)
        refuse_unread(self, kwargs, "loss_cls", "label_smooth_eps")
        self.score_thr, self.max_segments, self.sigma = score_thr, max_segments, sigma
        self.per_class, self.voting = per_class, voting
        self.proj = nn.Linear(in_channels, hidden_dim)
        strides = [1] + [2] * (levels - 1)
        self.pyramid = nn.ModuleList(ConvBlock(hidden_dim, stride) for stride in strides)
        self.class_tower = nn.Sequential(ConvBlock(hidden_dim), ConvBlock(hidden_dim))
        self.end_tower = nn.Sequential(ConvBlock(hidden_dim), ConvBlock(hidden_dim))
        self.fc_cls = nn.Linear(hidden_dim, num_classes)
        self.fc_ends = nn.Linear(hidden_dim, 2)
        self.scales = nn.Parameter(torch.ones(levels))
        self.mean_points: Tensor
        self.register_buffer("mean_points", torch.tensor(points_at_first))

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
        steps = self.proj(pool_space(x, self)).unflatten(0, (-1, clips)).flatten(1, 2)
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
        return strides * numbers + 0.5, strides  # where the convolutions look

    def targets(self, segments: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Return the classes (P, classes), 0 or 1, and the distances (P, 2) of all points.

        Args:
            segments: Start and end in steps, and class (n, 3).
            count: Number of points P.
        """
        places, strides = self.points(count)
        places, strides = places.to(segments), strides.to(segments)
        if not len(segments):
            return places.new_zeros(count, self.num_classes), places.new_zeros(count, 2)
        start, end, classes = segments.T
        distances = torch.stack([places[:, None] - start, end - places[:, None]], dim=-1)
        reach = torch.minimum(RADIUS * strides[:, None], (end - start) / 2)
        near = (places[:, None] - (start + end) / 2).abs() < reach
        largest, last = distances.amax(dim=-1) / strides[:, None], strides == strides[-1]
        low = torch.where(strides == 1, 0.0, FIRST_RANGE / 2)[:, None]
        high = torch.where(last, torch.inf, FIRST_RANGE)[:, None]
        fits = near & (largest >= low) & (largest <= high)
        lengths = torch.where(fits, end - start, torch.inf)
        shortest, which = lengths.min(dim=1, keepdim=True)
        is_found = fits & (lengths <= shortest + SAME_LENGTH)
        labels = is_found.to(places) @ F.one_hot(classes.long(), self.num_classes).to(places)
        return labels.clamp(max=1), distances[torch.arange(count), which[:, 0]]

    def loss(self, feats: Features, data_samples: Samples, **kwargs: Any) -> dict[str, Tensor]:
        """Compute the losses of the clips of videos whose metainfo has ``spans``."""
        from torchvision.ops import sigmoid_focal_loss  # takes seconds

        batch = self(feats, data_samples[0].num_clips)  # (N, P, classes + 2)
        places = self.points(batch.shape[1])[0].to(batch)
        loss_cls = loss_ends = positive = batch.new_zeros(())
        for outputs, sample in zip(batch, data_samples, strict=True):
            step = count_steps(feats, sample)
            targets = self.targets(visible_segments(sample, step), len(outputs))
            labels, distances = (target.to(batch) for target in targets)
            is_shown = places * step < sample.total_frames - float(sample.frame_inds[0])
            hit = is_shown & (labels > 0).any(dim=1)
            logits, ends = outputs[:, :-2], outputs[:, -2:]
            of_classes = sigmoid_focal_loss(logits, labels) * is_shown[:, None]
            loss_cls = loss_cls + of_classes.sum()
            losses = distance_iou_loss(ends, torch.where(hit[:, None], distances, 1.0))
            loss_ends = loss_ends + (losses * hit).sum()
            positive = positive + hit.sum()
        self.mean_points.lerp_(positive.clamp(min=1).to(self.mean_points), 1 - MOMENTUM)
        return {"loss_cls": loss_cls / self.mean_points, "loss_ends": loss_ends / self.mean_points}

    def segments(self, tokens: Tensor, step: float, total: float, times: FrameTimes) -> Instances:
        """Find segments in the tokens (clips, T, D) of successive clips.

        Args:
            tokens: Averaged over space.
            step: Number of frames that a step covers.
            total: Number of frames of the video from the first clip on.
            times: Seconds of the frames.

        Returns:
            ``segments`` (n, 2) in seconds from the begin of the first clip, some from before it,
            ``scores`` and ``labels``, best first, on the CPU.
        """
        (outputs,) = self(tokens[:, :, None, None], len(tokens))
        places = self.points(len(outputs))[0].to(outputs)
        scores = outputs[:, :-2].sigmoid() * (places * step < total)[:, None]
        which, labels = (scores > self.score_thr).nonzero(as_tuple=True)
        start, end = (places - outputs[:, -2], places + outputs[:, -1])
        seconds = times.seconds(torch.stack([start, end], dim=1) * step)[which].cpu()
        candidates = scores[which, labels].cpu()
        segments, scores, labels = soft_nms(
            seconds, candidates, labels, self.sigma, self.max_segments, self.per_class
        )
        if self.voting is not None and len(segments):
            segments = vote(segments, seconds, candidates, self.voting)
        segments, good = segments.clamp(max=times.seconds(total)), scores > self.score_thr
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
    last = min(last, sample.total_frames)
    spans = torch.as_tensor(sample.spans, dtype=torch.float).reshape(-1, 3)
    frames = FrameTimes(sample.avg_fps).numbers(spans[:, :2])
    shown = frames.clamp(first, last)
    share = (shown[:, 1] - shown[:, 0]) / (frames[:, 1] - frames[:, 0])
    segments = torch.cat([(shown - first) / step, spans[:, 2:]], dim=1)
    return segments[share >= SHARE]
