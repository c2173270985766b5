"""HORST: the recurrent layers and the networks on frames before them.

Heads and recogniser build on MMAction2's models; they are imported when the registry is first
asked.
"""

from mmvidformer.models.horst.bn_inception import BNInception
from mmvidformer.models.horst.frames import ConvStem, StoredMaps, TimmFrames
from mmvidformer.models.horst.layer import HorstLayer, HorstOutput
from mmvidformer.models.horst.running_mean import RunningMean
from mmvidformer.models.horst.stack import Horst

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
