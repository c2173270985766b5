"""Transforms that MMAction2 lacks or that are broken in it today."""

from mmvidformer.datasets.transforms.rand_augment import VideoRandAugment
from mmvidformer.datasets.transforms.sampling import LimitToSegment, UniformFrames
from mmvidformer.datasets.transforms.scale_jitter import ScaleJitter

__all__ = ["LimitToSegment", "ScaleJitter", "UniformFrames", "VideoRandAugment"]
