"""Backbones and necks, in PyTorch, einops and timm.

``mmvidformer.models.registration`` gives them their names in configs. Heads, recognizers and mixup
are imported from their modules.
"""

from mmvidformer.models.feature_fixation import FeatureFixationTransformer
from mmvidformer.models.feature_maps import FeatureMaps
from mmvidformer.models.horst.backbones import ConvStem, TimmFrames
from mmvidformer.models.horst.bn_inception import BNInception
from mmvidformer.models.horst.necks import Horst
from mmvidformer.models.timesformer import TimeSformer
from mmvidformer.models.video_transformer import VideoTransformer
from mmvidformer.models.vivit import ViViT
