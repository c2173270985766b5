"""Transforms that MMAction2 lacks or that are broken in it today."""

from mmvidformer.datasets.transforms.auto_augment import VideoAutoAugment
from mmvidformer.datasets.transforms.color_jitter import ClipColorJitter
from mmvidformer.datasets.transforms.inverse_rescale import InverseRescale
from mmvidformer.datasets.transforms.lmdb_decode import LmdbDecode
from mmvidformer.datasets.transforms.observe_before import ObserveBefore
from mmvidformer.datasets.transforms.observe_first import ObserveFirst
from mmvidformer.datasets.transforms.rand_augment import VideoRandAugment
from mmvidformer.datasets.transforms.sampling import LimitToSegment, UniformFrames
from mmvidformer.datasets.transforms.scale_jitter import ScaleJitter
from mmvidformer.datasets.transforms.segment_frames import SegmentFrames
from mmvidformer.datasets.transforms.span_frames import SpanFrames
from mmvidformer.datasets.transforms.tile_frames import TileFrames
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
