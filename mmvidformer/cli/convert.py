"""Convert a checkpoint of a video transformer.

mmvidformer convert SRC DST.pth

The format of SRC is recognized by the names of its weights: scenic (msgpack or npz), HuggingFace,
official or MMAction2's TimeSformer, official feature fixation, BN-Inception, or mmvidformer. Prints
which weights were ignored and missing, and the shipped config that they belong to. The exit status
is 2 if the weights do not fit, or are those of an image model, which init_from reads as it is.
"""

from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

from mmvidformer.apis.checkpoint_config import config_of_checkpoint
from mmvidformer.checkpoints import convert_file
from mmvidformer.checkpoints.convert import OUTPUTS
from mmvidformer.checkpoints.huggingface import FILES
from mmvidformer.checkpoints.partial import base_file
from mmvidformer.engine.arguments import add_force_argument, check_outputs
from mmvidformer.errors import UserError
from mmvidformer.storage.atomic import write_atomically


def _grid(text: str) -> tuple[int, int, int]:
    sizes = tuple(int(part) for part in text.split(","))
    if len(sizes) != 3 or min(sizes) < 1:
        raise ArgumentTypeError(f"must be three positive numbers T,H,W, got {text!r}")
    return sizes


def main(argv: Sequence[str] | None = None) -> int:
    """Convert the checkpoint and return the exit status."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="SRC", help="checkpoint file, folder or address")
    parser.add_argument(
        "target", metavar="DST", help=".pth, .safetensors, HuggingFace folder, or official file"
    )
    parser.add_argument("--to", choices=OUTPUTS, default="mmvidformer", help="format of DST")
    parser.add_argument(
        "--grid", type=_grid, metavar="T,H,W", help="tokens of the positions, if ambiguous"
    )
    parser.add_argument("--scheme", help="attention scheme, if the names are ambiguous")
    parser.add_argument(
        "--num-heads", type=int, help="attention heads, if SRC does not tell", metavar="N"
    )
    parser.add_argument("--half", action="store_true", help="store matrices of layers as float16")
    parser.add_argument(
        "--config-out", type=Path, help="write the config of the model (.py)", metavar="FILE"
    )
    add_force_argument(parser)
    parsed = parser.parse_args(argv)
    args = {**vars(parsed)}
    config, _ = args.pop("config_out"), args.pop("force")
    target = Path(args["target"])
    files = [target / name for name in FILES] if args["to"] == "huggingface" else [target]
    targets = [("DST", file) for file in files] + [("--config-out", config)] * bool(config)
    source = Path(parsed.source)
    parsed.files = [*source.glob("*")]  # of a folder
    if target.is_file() and source.is_file():
        parsed.files.append(base_file(source))
    check_outputs(vars(parsed), targets, "target", "config_out")
    print(convert_file(**args))
    try:
        fitting = config_of_checkpoint(args["target"], args["num_heads"])
    except ValueError as error:
        if config:
            raise UserError(f"{target} is written, but not {config}: {error}") from error
        print(f"config: none ({error})")
        return 0
    change = ", changed; --config-out writes it" if fitting.changed else ""
    print(f"config: {fitting.name}{change}")
    if config:
        with write_atomically(config) as part:
            part.write_text(fitting.cfg.pretty_text, encoding="utf-8")
        print(f"wrote {config}")
    return 0
