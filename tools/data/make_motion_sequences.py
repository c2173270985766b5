"""Write motion data whose class or next action shows only over time.

python tools/data/make_motion_sequences.py phases FOLDER     (early recognition)
python tools/data/make_motion_sequences.py sequences FOLDER  (anticipation)
"""

import os
import re
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np
from tqdm import tqdm

from mmvidformer.datasets.motion.files import SPLITS
from mmvidformer.datasets.motion.phases import (
    CLASSES,
    PhasesSpec,
    best_share,
    list_phase_clips,
    make_phases,
)
from mmvidformer.datasets.motion.sequences import (
    SequencesSpec,
    best_constant,
    best_informed,
    labelled,
    make_sequences,
)
from mmvidformer.engine.launch import run_tool

TIMES = (2.0, 1.5, 1.0, 0.5, 0.25)


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the arguments, write the data set, and say what can be reached on it."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    tasks = parser.add_subparsers(dest="task", required=True)
    for task, spec in (("phases", PhasesSpec()), ("sequences", SequencesSpec())):
        options = tasks.add_parser(task, help=(type(spec).__doc__ or "").splitlines()[0])
        options.add_argument("folder", help="where to write")
        options.add_argument("--workers", type=int, default=os.cpu_count(), help="processes")
        options.add_argument("--force", action="store_true", help="write over another data set")
        for owner in (spec, spec.look):
            for name, text in _arguments(owner):
                if (task, name) == ("sequences", "frames"):
                    continue  # a video is as long as its actions
                value = getattr(owner, name)
                options.add_argument(
                    f"--{name.replace('_', '-')}",
                    type=type(value),
                    default=value,
                    help=f"{text} (default: {value})",
                )
        options.set_defaults(spec=spec)
    args = parser.parse_args(arguments)

    spec = replace(_filled(args.spec, args), look=_filled(args.spec.look, args))
    make = {"phases": make_phases, "sequences": make_sequences}[args.task]
    made = make(spec, args.folder, args.workers, args.force, _progress)
    print(f"{args.folder}: " + ("written" if made else "already there, nothing to do"))
    print("  videos: " + ", ".join(f"{getattr(spec, split)} {split}" for split in SPLITS))
    {"phases": _tell_phases, "sequences": _tell_sequences}[args.task](spec)


def _arguments(owner: object) -> list[tuple[str, str]]:
    """Name and description of each number in a dataclass, from its docstring."""
    described = dict(re.findall(r"^        (\w+): (.+)$", owner.__doc__ or "", re.MULTILINE))
    return [(f.name, described[f.name]) for f in fields(owner) if f.name != "look"]


def _filled(owner: object, args: Namespace) -> object:
    names = [name for name, _ in _arguments(owner) if hasattr(args, name)]
    return replace(owner, **{name: getattr(args, name) for name in names})


def _progress(items, total):
    return tqdm(items, total=total, unit="video", disable=None)


def _tell_phases(spec: PhasesSpec) -> None:
    labels = np.array([clip.verb for clip in list_phase_clips(spec, "test")])
    print(f"  {len(CLASSES)} classes; the best constant prediction is right in "
          f"{best_constant(labels):.1%} of the test clips")  # fmt: skip
    for ratio in (0.25, 0.5, 1.0):
        print(f"  with {ratio:.0%} of each clip seen, at best {best_share(ratio):.1%}")


def _tell_sequences(spec: SequencesSpec) -> None:
    for split in SPLITS:
        labels = labelled(spec, split)
        constant = [best_constant(column) for column in labels.T]
        print(f"  {split}: {len(labels)} segments; the best constant prediction of verb, noun, "
              f"action is right in {_percent(constant)}, of five actions in "
              f"{best_constant(labels[:, 2], 5):.1%}")  # fmt: skip
    for time, shares in best_informed(spec, "test", TIMES).items():
        print(f"  test, {time} s before: who knows the grammar, {_percent(shares)}")


def _percent(shares: Sequence[float]) -> str:
    return ", ".join(f"{share:.1%}" for share in np.asarray(shares))


if __name__ == "__main__":
    sys.exit(run_tool(main))
