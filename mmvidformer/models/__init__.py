"""Backbones and the registration of the layers.

Heads and batch mixing build on MMAction2's models; they are imported when the registry is first
asked, so that a backbone alone does not load them.
"""

from mmvidformer.models import layers
from mmvidformer.models.feature_fixation import FeatureFixationTransformer
from mmvidformer.models.horst import (
    BNInception,
    ConvStem,
    Horst,
    RunningMean,
    StoredMaps,
    TimmFrames,
)
from mmvidformer.models.image_maps import ImageMaps
from mmvidformer.models.timesformer import TimeSformer
from mmvidformer.models.vivit import ViViT

__all__ = [
    "BNInception",
    "ConvStem",
    "FeatureFixationTransformer",
    "Horst",
    "ImageMaps",
    "RunningMean",
    "StoredMaps",
    "TimeSformer",
    "TimmFrames",
    "ViViT",
    "layers",
]
