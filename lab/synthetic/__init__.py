"""Generated videos: small datasets of real video files, without a download."""

from collections.abc import Iterator
from dataclasses import fields, replace

from lab.synthetic.answers import BoxesSpec, LabelsSpec, ScriptsSpec, SpeedSpec, StartsSpec
from lab.synthetic.camera.spec import CameraSpec
from lab.synthetic.cues import CuesSpec
from lab.synthetic.directions import DirectionsSpec, PhasesSpec
from lab.synthetic.render import Look
from lab.synthetic.sequences import SequencesSpec
from lab.synthetic.settings import help_of
from lab.synthetic.spec import MotionSpec

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
    "starts": StartsSpec(),
    "boxes": BoxesSpec(),
}


def settings_of(spec: MotionSpec) -> Iterator[tuple[object, str, str]]:
    """Owner (the spec or its look), name and description of each setting."""
    hidden = {"look"}
    if isinstance(spec, SequencesSpec):
        hidden.add("frames")  # videos are as long as their actions
    for owner in (spec, spec.look):
        for setting in fields(owner):
            if setting.name not in hidden:
                yield owner, setting.name, help_of(owner, setting.name)
