"""HORST: recurrent layers, and the frame backbones and baselines that go with them.

Heads and recognizer depend on MMAction2's models. The registry imports them at the first look-up.
"""

from mmvidformer.models.horst.backbones import ConvStem, StoredMaps, TimmFrames
from mmvidformer.models.horst.bn_inception import BNInception
from mmvidformer.models.horst.layer import HorstLayer, HorstOutput
from mmvidformer.models.horst.necks import Horst, RunningMean

__all__ = [
    "BNInception",
    "ConvStem",
    "Horst",
    "HorstLayer",
    "HorstOutput",
    "RunningMean",
    "StoredMaps",
    "TimmFrames",
]
