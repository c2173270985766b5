"""HORST: the recurrent layers and the networks on frames before them.

Heads and recogniser build on MMAction2's models; they are imported when the registry is first
asked.
"""

from mmvidformer.models.recurrent.bn_inception import BNInception
from mmvidformer.models.recurrent.frames import ConvStem, StoredMaps, TimmFrames
from mmvidformer.models.recurrent.horst import HorstLayer, HorstOutput
from mmvidformer.models.recurrent.running_mean import RunningMean
from mmvidformer.models.recurrent.stack import Horst

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
