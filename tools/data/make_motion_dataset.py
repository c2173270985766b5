"""Write the motion data set: python tools/data/make_motion_dataset.py FOLDER [--preset hard]."""

import os
import sys
from argparse import ArgumentDefaultsHelpFormatter, ArgumentParser
from dataclasses import fields, replace

from tqdm import tqdm

from mmvidformer.datasets.motion.render import Look
from mmvidformer.datasets.motion.rules import PRESETS, MotionSpec, make_class_folders, make_dataset
from mmvidformer.engine.launch import run_tool

HELP = {
    "classes": "directions of motion, 2 to 8",
    "train": "training clips",
    "val": "validation clips",
    "test": "test clips",
    "fps": "frames a second",
    "seed": "seed of everything random",
    "size": "side of the frame in pixels, a multiple of 64",
    "frames": "frames of a clip",
    "object_size": "diameter of the object over the side of the frame",
    "speed": "pixels a frame",
    "texture": "contrast of the background in grey levels",
    "clutter": "shapes that stand still",
    "shake": "jump of the camera between frames in pixels",
    "noise": "noise of each frame in grey levels",
    "colours": "random, or plain: white on black",
}


def main() -> None:
    """Read the arguments and write the data set."""
    parser = ArgumentParser(description=__doc__, formatter_class=ArgumentDefaultsHelpFormatter)
    parser.add_argument("folder", help="where to write")
    parser.add_argument("--preset", choices=sorted(PRESETS), default="easy")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--force", action="store_true", help="write over another data set")
    parser.add_argument(
        "--class-folders",
        action="store_true",
        help="clips of all splits as class/clip.mp4, without lists, as videos of your own may lie",
    )
    group = parser.add_argument_group("changes to the preset")
    owners = {f.name: owner for owner in (MotionSpec, Look) for f in fields(owner)}
    for name, text in HELP.items():
        kind = type(getattr(owners[name](), name))
        group.add_argument(f"--{name.replace('_', '-')}", type=kind, default=None, help=text)
    args = parser.parse_args()

    spec = PRESETS[args.preset]
    given = {name: getattr(args, name) for name in HELP if getattr(args, name) is not None}
    look = replace(spec.look, **{k: v for k, v in given.items() if owners[k] is Look})
    spec = replace(spec, look=look, **{k: v for k, v in given.items() if owners[k] is MotionSpec})

    def progress(items, total):
        return tqdm(items, total=total, unit="clip", disable=None)

    make = make_class_folders if args.class_folders else make_dataset
    made = make(spec, args.folder, args.workers, args.force, progress)
    print(f"{args.folder}: " + ("written" if made else "already there, nothing to do"))
    print(f"  {spec.classes} motions ({', '.join(spec.verbs)}), {spec.train} training, "
          f"{spec.val} validation and {spec.test} test clips")  # fmt: skip


if __name__ == "__main__":
    sys.exit(run_tool(main))
