"""Measure how long commands and imports take to start: python -m benchmarks.starts [NAME ...].

Prints the CPU time of a new process, the best of five, and the modules that it loads.
"""

import os
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Sequence

TIMES = 5
HELP = "import mmvidformer.__main__ as m; m.main([*'{command}'.split(), '--help'])"
STARTS = {
    "torch": "import torch",
    "package": "import mmvidformer",
    "apis": "import mmvidformer.apis",
    "recognizer": "from mmvidformer.apis import Recognizer; Recognizer('camera_motion')",
    "demo": "import mmvidformer.__main__ as m; m.main(['demo', 'camera_motion'])",
    "worker": "import torch; from mmvidformer.data.workers import PRELOADED as names\n"
    "for name in names: __import__(name)",
    **{
        f"{command} --help": HELP.format(command=command)
        for command in ("demo", "label", "web", "export", "models", "data check", "finetune")
    },
}


def measure(code: str) -> tuple[float, int]:
    """Run code in a new interpreter; returns its CPU seconds and number of modules."""
    first = "import atexit, sys; atexit.register(lambda: print('\\nmodules', len(sys.modules)))\n"
    before = os.times()
    printed = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", first + code], capture_output=True, text=True
    )
    after = os.times()
    if printed.returncode:
        raise RuntimeError(f"{code}: {printed.stderr[-500:]}")
    seconds = after.children_user + after.children_system
    seconds -= before.children_user + before.children_system
    return seconds, int(printed.stdout.rpartition("modules")[2])


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(STARTS)}")
    parser.add_argument("--times", type=int, default=TIMES, help="runs of each (default: 5)")
    args = parser.parse_args(argv)
    for name in args.names or STARTS:
        seconds, modules = min(measure(STARTS[name]) for _ in range(args.times))
        print(f"{name:<20}{seconds:6.2f} s {modules:6} modules")


if __name__ == "__main__":
    main()
