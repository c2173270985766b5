"""The options that the commands which train on your videos have in common."""

from argparse import ArgumentParser

from mmvidformer.engine.model_options import OverrideOptions
from mmvidformer.engine.options import add_options
from mmvidformer.finetune.settings import RunOptions, RunSettings


def add_run_options(
    parser: ArgumentParser, data: str, options: type[RunOptions], settings: type[RunSettings]
) -> None:
    """Add config, data (``data`` is its help text), options, and those of the settings."""
    parser.add_argument("--config", required=True, help="config file, or name of a shipped config")
    parser.add_argument("--data", required=True, help=data)
    add_options(parser, options)
    add_options(parser, settings)
    add_options(parser, OverrideOptions)
    used = parser.add_mutually_exclusive_group()
    used.add_argument("--force", action="store_true", help="start again in a used work dir")
    used.add_argument(
        "--resume",
        action="store_true",
        help="go on with the run in the work dir, with these settings, such as more --epochs",
    )
