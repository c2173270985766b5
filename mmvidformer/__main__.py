"""The command ``mmvidformer``, whose commands are the modules of ``mmvidformer.cli``."""

import io
import sys
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import NamedTuple

import mmvidformer

# Title of each command, and of the commands of each group.
COMMANDS: dict[str, str | dict[str, str]] = {
    "train": "Train a recognizer",
    "test": "Test a recognizer on several views of each video",
    "demo": "Answer for videos, cameras and addresses",
    "web": "Classify videos on a page in the browser",
    "serve": "Answer for videos over HTTP",
    "models": "List shipped configs and published weights",
    "finetune": "Fine-tune on videos of your own",
    "pretrain": "Pretrain on videos without labels",
    "convert": "Convert a checkpoint of a video transformer",
    "export": "Export a recognizer",
    "push": "Share a trained model",
    "label": "Label many videos",
    "features": "Extract features of many videos",
    "speed": "Measure how fast a model can be here",
    "data": {
        "list": "List your own videos for MMAction2",
        "check": "Find bad videos",
        "prepare": "Re-encode a dataset for fast decoding",
        "shard": "Pack the videos of lists into shards",
    },
    "plot": {
        "confusion": "Draw the confusions of a test",
        "errors": "Show the errors of a test as a page",
        "rollout": "Show what a model attends to",
    },
    "count": "Count parameters and multiply-accumulates",
}


class Program(NamedTuple):
    """Commands under one name.

    Attributes:
        name: What is typed before a command.
        room: Package of the commands' modules.
        commands: As ``COMMANDS``.
    """

    name: str
    room: str
    commands: Mapping[str, str | dict[str, str]]


MMVIDFORMER = Program("mmvidformer", "mmvidformer.cli", COMMANDS)


def main(argv: Sequence[str] | None = None, program: Program = MMVIDFORMER) -> int:
    """Run a command.

    Args:
        argv: Command and its arguments; default: those of the command line.
        program: Where it is looked up.

    Returns:
        The exit status, 2 for a user's mistake.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # names of files may be any bytes
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return run_command(argv, program)
    except KeyboardInterrupt:  # while modules are imported; later, ``run_tool`` ends processes
        print("interrupted", file=sys.stderr)
        return 130


def run_command(argv: Sequence[str] | None, program: Program) -> int:
    """Import and run a command, as ``main`` does."""
    # Not above: processes that check a video import this module, and need no PyTorch.
    from mmvidformer.engine.errors import run_tool
    from mmvidformer.errors import UserError
    from mmvidformer.lookup import look_up

    args = list(sys.argv[1:] if argv is None else argv)
    if args == ["--version"]:
        return run_tool(partial(print, f"mmvidformer {mmvidformer.__version__}"))
    words: list[str] = []
    commands: Mapping | str = program.commands
    while isinstance(commands, Mapping):
        if not args or args[0] in ("-h", "--help"):
            text = list_commands([program.name, *words], commands)
            return run_tool(partial(print, text)) or (0 if args else 2)
        try:
            commands = look_up(commands, args[0], "command")
        except UserError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        words.append(args.pop(0))
    warnings.filterwarnings("ignore", "Fail to import ``MultiScale")  # of mmcv-lite
    # MMEngine reloads that module for each of MMAction2's configs.
    warnings.filterwarnings("ignore", "pkg_resources is deprecated")
    command = import_module(".".join([program.room, *words]))
    sys.argv[:] = [" ".join([program.name, *words]), *args]  # argparse prints the name
    return run_tool(command.main)


def list_commands(words: Sequence[str], commands: Mapping[str, str | Mapping]) -> str:
    """List the commands with their titles, and groups with their commands."""
    name = " ".join(words)
    lines = [f"usage: {name} COMMAND [arguments]", ""]
    for command, title in commands.items():
        text = title if isinstance(title, str) else " | ".join(title)
        lines.append(f"  {command:<11}{text}")
    return "\n".join([*lines, "", f"{name} COMMAND --help describes the arguments."])


if __name__ == "__main__":
    sys.exit(main())
