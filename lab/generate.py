"""Write a motion dataset: python -m lab generate FOLDER [--preset NAME].

Presets: easy, plain and cues (recognition), images (single frames), phases (early recognition),
recall (memory), sequences (anticipation), camera (motion of the camera), and for other answers than
a class labels, speed (number), scripts (frames, segments), starts (moments) and boxes.
--preset NAME --help lists the settings of a preset.
"""

import os
from argparse import ArgumentDefaultsHelpFormatter, ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TypeVar

from lab.synthetic import PRESETS, settings_of
from lab.synthetic.directions import ClassFoldersSpec, DirectionsSpec
from lab.synthetic.spec import SPLITS
from mmvidformer.engine.arguments import positive

Settings = TypeVar("Settings")  # a spec, or its look


def main(argv: Sequence[str] | None = None) -> None:
    """Write the dataset."""
    first = ArgumentParser(add_help=False)
    first.add_argument("--preset", choices=PRESETS, default="easy", help="settings to start from")
    spec = PRESETS[first.parse_known_args(argv)[0].preset]

    formatter = ArgumentDefaultsHelpFormatter
    parser = ArgumentParser(description=__doc__, parents=[first], formatter_class=formatter)
    parser.add_argument("folder", help="folder to write to")
    parser.add_argument(
        "--workers", type=positive, default=os.cpu_count(), help="number of processes", metavar="N"
    )
    if isinstance(spec, DirectionsSpec):
        text = "write class/clip.mp4 for all splits, without lists"
        parser.add_argument("--class-folders", action="store_true", help=text)
    overrides = parser.add_argument_group("overrides of the preset")
    for owner, name, text in settings_of(spec):
        value, option = getattr(owner, name), f"--{name.replace('_', '-')}"
        overrides.add_argument(option, type=type(value), default=value, help=text, metavar="VALUE")
    args = parser.parse_args(argv)

    spec = replace(with_settings(spec, args), look=with_settings(spec.look, args))
    if getattr(args, "class_folders", False):
        spec = ClassFoldersSpec(**vars(spec))
    written = spec.write(args.folder, args.workers)
    print(f"{args.folder}: " + ("written" if written else "already there, nothing to do"))
    print("  videos: " + ", ".join(f"{getattr(spec, split)} {split}" for split in SPLITS))
    if spec.class_names:
        print(f"  {len(spec.class_names)} classes: {', '.join(spec.class_names)}")


def with_settings(settings: Settings, args: Namespace) -> Settings:
    """Return settings with the values of their options."""
    names = {field.name for field in fields(settings)}
    return replace(settings, **{name: x for name, x in vars(args).items() if name in names})
