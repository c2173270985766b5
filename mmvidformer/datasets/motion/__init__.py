"""Generated videos: small datasets of real video files, without a download."""

from dataclasses import replace

from mmvidformer.datasets.motion.answers import BoxesSpec, LabelsSpec, ScriptsSpec, SpeedSpec
from mmvidformer.datasets.motion.camera.spec import CameraSpec
from mmvidformer.datasets.motion.cues import CuesSpec
from mmvidformer.datasets.motion.directions import DirectionsSpec, PhasesSpec
from mmvidformer.datasets.motion.render import Look
from mmvidformer.datasets.motion.sequences import SequencesSpec
from mmvidformer.datasets.motion.spec import MotionSpec

PRESETS: dict[str, MotionSpec] = {
    "easy": DirectionsSpec(),
    "plain": DirectionsSpec(train=1600, look=Look(texture=0.0, colors="plain")),
    "phases": PhasesSpec(),
    "cues": CuesSpec(),
    "images": CuesSpec(
        train=12000, cues=1, asked=1, kinds=4, look=replace(CuesSpec().look, frames=1)
    ),
    "recall": CuesSpec(cues=12, asked=1, kinds=3, look=replace(CuesSpec().look, frames=12)),
    "sequences": SequencesSpec(),
    "camera": CameraSpec(),
    "labels": LabelsSpec(),
    "speed": SpeedSpec(),
    "scripts": ScriptsSpec(),
    "boxes": BoxesSpec(),
}
