"""Train a recognizer: mmvidformer train CONFIG [options]."""

import sys
from collections.abc import Sequence

from mmvidformer.engine.options import parse_options
from mmvidformer.engine.run_options import TrainOptions


def main(argv: Sequence[str] | None = None) -> int | None:
    """Train with the arguments of the command line."""
    argv = sys.argv[1:] if argv is None else argv
    options = parse_options(TrainOptions, argv, __doc__)
    from mmvidformer.cli.training import train

    return train(options, argv)
