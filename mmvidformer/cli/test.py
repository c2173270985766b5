"""Test a recognizer on several views of each video: mmvidformer test CONFIG [CHECKPOINT]."""

import sys
from collections.abc import Sequence

from mmvidformer.engine.arguments import check_outputs
from mmvidformer.engine.options import parse_options
from mmvidformer.engine.run_options import TestOptions


def main(argv: Sequence[str] | None = None) -> int | None:
    """Test with the arguments of the command line."""
    argv = sys.argv[1:] if argv is None else argv
    options = parse_options(TestOptions, argv, __doc__)
    if options.dump is not None:
        check_outputs(vars(options), [("--dump", options.dump)], "dump")
    from mmvidformer.cli.testing import run_test

    return run_test(options, argv)
