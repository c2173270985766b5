"""Generated videos whose class is a motion: small datasets of real video files, without a download.

| preset | class | for |
|---|---|---|
| easy, plain | direction of an object | recognition |
| phases | directions of an object in three phases | early recognition |
| sequences | the next of a sequence of actions | anticipation |
"""

from mmvidformer.datasets.motion.directions import PRESETS as DIRECTIONS_PRESETS
from mmvidformer.datasets.motion.phases import PhasesSpec
from mmvidformer.datasets.motion.sequences import SequencesSpec
from mmvidformer.datasets.motion.spec import MotionSpec

PRESETS: dict[str, MotionSpec] = {
    **DIRECTIONS_PRESETS,
    "phases": PhasesSpec(),
    "sequences": SequencesSpec(),
}
