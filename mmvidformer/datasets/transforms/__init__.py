"""Transforms that MMAction2 lacks, or that are broken in it today."""

from mmvidformer.datasets.transforms.augment import (
    ClipAugment,
    ClipColorJitter,
    ClipFlip,
    ClipMultiScaleCrop,
)
from mmvidformer.datasets.transforms.auto_augment import ClipAutoAugment
from mmvidformer.datasets.transforms.lmdb_decode import LmdbDecode
from mmvidformer.datasets.transforms.observe import LimitToSegment, ObserveBefore, ObserveFirst
from mmvidformer.datasets.transforms.rand_augment import ClipRandAugment
from mmvidformer.datasets.transforms.sampling import (
    SegmentFrames,
    SpanFrames,
    TileFrames,
    UniformFrames,
)
from mmvidformer.datasets.transforms.scale import InverseRescale, ScaleJitter
from mmvidformer.datasets.transforms.video_decode import VideoDecode, VideoInit

__all__ = [
    "ClipAugment",
    "ClipAutoAugment",
    "ClipColorJitter",
    "ClipFlip",
    "ClipMultiScaleCrop",
    "ClipRandAugment",
    "InverseRescale",
    "LimitToSegment",
    "LmdbDecode",
    "ObserveBefore",
    "ObserveFirst",
    "ScaleJitter",
    "SegmentFrames",
    "SpanFrames",
    "TileFrames",
    "UniformFrames",
    "VideoDecode",
    "VideoInit",
]
