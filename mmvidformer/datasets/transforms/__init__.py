"""Transforms that MMAction2 lacks or that are broken in it today."""

from mmvidformer.datasets.transforms.rand_augment import VideoRandAugment
from mmvidformer.datasets.transforms.sampling import LimitToSegment, UniformFrames

__all__ = ["LimitToSegment", "UniformFrames", "VideoRandAugment"]
