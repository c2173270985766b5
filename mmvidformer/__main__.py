"""The command ``mmvidformer``, which runs the scripts of ``tools/``, from a wheel or a clone."""

import ast
import sys
import warnings
from collections.abc import Sequence
from importlib.util import module_from_spec, spec_from_file_location

from mmvidformer.lookup import config_folder, look_up

# The script of each command, and of the commands of each group.
SCRIPTS = {
    "train": "train.py",
    "test": "test.py",
    "demo": "demo.py",
    "stream": "demo_stream.py",
    "web": "web.py",
    "models": "list_models.py",
    "paper": "paper.py",
    "finetune": "finetune.py",
    "pretrain": "pretrain.py",
    "convert": "convert_checkpoint.py",
    "export": "export.py",
    "features": "extract_features.py",
    "data": {
        "list": "data/make_annotations.py",
        "check": "data/check_videos.py",
        "prepare": "data/prepare_videos.py",
        "generate": "data/make_motion_dataset.py",
    },
    "plot": {
        "confusion": "visualizations/confusion.py",
        "curves": "visualizations/training_curves.py",
        "field": "visualizations/receptive_field.py",
        "horst": "visualizations/horst_attention.py",
        "masked": "visualizations/masked.py",
        "rollout": "visualizations/rollout.py",
        "tsne": "visualizations/tsne.py",
        "views": "visualizations/views.py",
    },
    "count": "analysis/complexity.py",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: Command and its arguments; default: those of the command line.

    Returns:
        The exit status, 2 for a user's mistake.
    """
    args = list(sys.argv[1:] if argv is None else argv)
    name, script = "mmvidformer", SCRIPTS
    while isinstance(script, dict):
        if not args or args[0] in ("-h", "--help"):
            print(_help(name, script))
            return 0 if args else 2
        try:
            name, script = f"{name} {args[0]}", look_up(script, args.pop(0), "command")
        except KeyError as error:
            print(f"error: {error.args[0]}", file=sys.stderr)
            return 2
    path = config_folder().parent / "tools" / script
    warnings.filterwarnings("ignore", "Fail to import ``MultiScale")  # of mmcv-lite
    from mmvidformer.engine.errors import run_tool

    spec = spec_from_file_location("mmvidformer_tool", path)
    tool = module_from_spec(spec)
    spec.loader.exec_module(tool)
    sys.argv[:] = [name, *args]  # argparse prints the name
    return run_tool(tool.main)


def _help(name: str, scripts: dict) -> str:
    """List the commands with the titles of their scripts, and groups with their commands."""
    lines = [f"usage: {name} COMMAND [arguments]", ""]
    for command, script in scripts.items():
        if isinstance(script, dict):
            text = " | ".join(script)
        else:
            tree = ast.parse((config_folder().parent / "tools" / script).read_text("utf-8"))
            text = ast.get_docstring(tree).splitlines()[0].partition(":")[0].rstrip(".")
        lines.append(f"  {command:<11}{text}")
    return "\n".join([*lines, "", f"{name} COMMAND --help describes the arguments."])


if __name__ == "__main__":
    sys.exit(main())
