"""Generated videos whose class is a motion: small datasets of real video files, without a download.

| preset | class | for |
|---|---|---|
| easy, plain | direction of an object | recognition |
| phases | directions of an object in three phases | early recognition |
| sequences | the next of a sequence of actions | anticipation |
"""

from mmvidformer.datasets.motion.directions import DirectionsSpec, PhasesSpec
from mmvidformer.datasets.motion.render import Look
from mmvidformer.datasets.motion.sequences import SequencesSpec
from mmvidformer.datasets.motion.spec import MotionSpec

PRESETS: dict[str, MotionSpec] = {
    "easy": DirectionsSpec(),
    "plain": DirectionsSpec(train=1600, look=Look(texture=0.0, colors="plain")),
    "phases": PhasesSpec(),
    "sequences": SequencesSpec(),
}
