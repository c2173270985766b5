"""Convert a checkpoint of a video transformer.

mmvidformer convert SRC DST.pth

The format of SRC is recognized by the names of its weights: scenic (msgpack or npz), HuggingFace,
official or MMAction2's TimeSformer, official feature fixation, BN-Inception, or mmvidformer. Prints
which weights were ignored and missing, and the shipped config that they belong to. The exit status
is 2 if the weights do not fit, or are those of an image model, which init_from reads as it is.
"""

from argparse import ArgumentTypeError
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mmvidformer.engine.arguments import check_outputs
from mmvidformer.engine.model_options import ForceOptions
from mmvidformer.engine.options import argument, flag, option, parse_options
from mmvidformer.errors import UserError
from mmvidformer.storage.atomic import write_atomically


def _grid(text: str) -> tuple[int, int, int]:
    sizes = tuple(int(part) for part in text.split(","))
    if len(sizes) != 3 or min(sizes) < 1:
        raise ArgumentTypeError(f"must be three positive numbers T,H,W, got {text!r}")
    return sizes


@dataclass(frozen=True)
class ConvertOptions(ForceOptions):
    """A checkpoint, what it becomes, and what its names do not tell."""

    source: str = argument("checkpoint file, folder or address", metavar="SRC")
    target: str = argument(
        ".pth, .safetensors, HuggingFace folder, or official file", metavar="DST"
    )
    to: str = option(
        "format of DST: mmvidformer (the default), huggingface or official",
        "mmvidformer",
        metavar="FORMAT",
    )
    grid: tuple[int, int, int] | None = option(
        "tokens of the positions, if ambiguous", type=_grid, metavar="T,H,W"
    )
    scheme: str | None = option("attention scheme, if the names are ambiguous")
    num_heads: int | None = option("attention heads, if SRC does not tell", type=int)
    half: bool = flag("store matrices of layers as float16")
    config_out: Path | None = option(
        "write the config of the model (.py)", type=Path, metavar="FILE"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Convert the checkpoint and return the exit status."""
    options = parse_options(ConvertOptions, argv, __doc__)
    from mmvidformer.apis.checkpoint_config import config_of_checkpoint
    from mmvidformer.apis.saved_config import read_saved_config
    from mmvidformer.checkpoints import convert_file
    from mmvidformer.checkpoints.download import fetch
    from mmvidformer.checkpoints.huggingface import FILES
    from mmvidformer.checkpoints.partial import base_file

    arguments = {**vars(options)}
    config, _ = arguments.pop("config_out"), arguments.pop("force")
    source, target = Path(options.source), Path(options.target)
    files = [target / name for name in FILES] if options.to == "huggingface" else [target]
    targets = [("DST", file) for file in files] + [("--config-out", config)] * bool(config)
    inputs = [*source.glob("*")]  # of a folder
    if target.is_file() and source.is_file():
        inputs.append(base_file(source))
    check_outputs({**vars(options), "files": inputs}, targets, "target", "config_out")
    print(convert_file(**arguments))
    try:
        model = options.source if read_saved_config(fetch(options.source)) else options.target
        fitting = config_of_checkpoint(model, options.num_heads)
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
