"""Transforms that MMAction2 lacks, or that are broken in it today."""

from mmvidformer.datasets.transforms.augment import (
    ClipColorJitter,
    InverseRescale,
    ScaleJitter,
    VideoAutoAugment,
)
from mmvidformer.datasets.transforms.lmdb_decode import LmdbDecode
from mmvidformer.datasets.transforms.observe import LimitToSegment, ObserveBefore, ObserveFirst
from mmvidformer.datasets.transforms.rand_augment import VideoRandAugment
from mmvidformer.datasets.transforms.sampling import (
    SegmentFrames,
    SpanFrames,
    TileFrames,
    UniformFrames,
)
from mmvidformer.datasets.transforms.video_decode import VideoDecode, VideoInit

__all__ = [
    "ClipColorJitter",
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
    "VideoAutoAugment",
    "VideoDecode",
    "VideoInit",
    "VideoRandAugment",
]
