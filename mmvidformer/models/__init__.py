"""Backbones and necks.

Heads, recognizers and mixup depend on MMAction2's models. The registry imports them at the first
look-up, so a backbone alone does not load them.
"""

from mmvidformer import layers
from mmvidformer.models.feature_fixation import FeatureFixationTransformer
from mmvidformer.models.horst.backbones import ConvStem, StoredMaps, TimmFrames
from mmvidformer.models.horst.bn_inception import BNInception
from mmvidformer.models.horst.necks import Horst, RunningMean
from mmvidformer.models.image_maps import ImageMaps
from mmvidformer.models.timesformer import TimeSformer
from mmvidformer.models.video_transformer import VideoTransformer
from mmvidformer.models.vivit import ViViT
from mmvidformer.registry import MODELS

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
    "VideoTransformer",
    "ViViT",
]

# The layers themselves are plain PyTorch; here they become available to configs.
for _name in ("Attention", "Mlp", "PositionEmbedding", "TransformerBlock", "TubeletEmbedding"):
    MODELS.register_module(module=getattr(layers, _name))
