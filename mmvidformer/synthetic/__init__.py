"""Generated videos: small datasets of real video files, without a download."""

import re
from collections.abc import Iterator
from dataclasses import fields, replace
from inspect import cleandoc

from mmvidformer.synthetic.answers import BoxesSpec, LabelsSpec, ScriptsSpec, SpeedSpec
from mmvidformer.synthetic.camera.spec import CameraSpec
from mmvidformer.synthetic.cues import CuesSpec
from mmvidformer.synthetic.directions import DirectionsSpec, PhasesSpec
from mmvidformer.synthetic.render import Look
from mmvidformer.synthetic.sequences import SequencesSpec
from mmvidformer.synthetic.spec import MotionSpec

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


def settings_of(spec: MotionSpec) -> Iterator[tuple[object, str, str]]:
    """Owner (the spec or its look), name and description (in the docstring) of each setting."""
    for owner in (spec, spec.look):
        # Python 3.13 takes away the indentation of docstrings.
        docs = "\n".join(cleandoc(cls.__doc__ or "") for cls in reversed(type(owner).__mro__))
        described = dict(re.findall(r"^    (\w+): (.+)$", docs, re.MULTILINE))
        for name in (field.name for field in fields(owner)):
            # Videos of actions are as long as the actions.
            if name != "look" and not (name == "frames" and isinstance(spec, SequencesSpec)):
                yield owner, name, described[name].replace("``", "")
