"""Results of benchmarks are written over nothing that they read, and over others with --force."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from mmvidformer.engine.errors import describe
from mmvidformer.errors import UserError
from mmvidformer.storage.targets import check_targets

Results = Callable[[Namespace], Iterable[str | Path]]


def parse_with_results(
    parser: ArgumentParser, argv: Sequence[str] | None, results: Results
) -> Namespace:
    """Parse arguments, and end with a line if a result may not be written.

    Args:
        parser: Gets ``--force``.
        argv: The arguments; None: those of the command line.
        results: Returns the files that will be written, for parsed arguments.
    """
    parser.add_argument("--force", action="store_true", help="replace results that are there")
    args = parser.parse_args(argv)
    given = [value for value in vars(args).values() if isinstance(value, str | Path | list)]
    inputs = [name for value in given for name in (value if isinstance(value, list) else [value])]
    try:
        check_targets([("a result", path) for path in results(args)], inputs, args.force)
    except (UserError, OSError) as error:
        parser.error(describe(error))
    return args


def with_suffixes(*suffixes: str) -> Results:
    """Return the results of ``--out``, if it is given: its path with each suffix."""

    def results(args: Namespace) -> list[str]:
        return [f"{args.out}{suffix}" for suffix in suffixes if args.out]

    return results
