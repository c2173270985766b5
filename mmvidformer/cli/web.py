"""Classify videos on a page in the browser: mmvidformer web [MODEL ...].

The page offers published models that are named here, which are fetched before it opens, and those
whose weights are on this machine. With --config and --checkpoint it offers your own too.
Needs Gradio: pip install "gradio>=6".
"""

import os
import shutil
import signal
import socket
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from mmvidformer.apis.factory import find_model
from mmvidformer.checkpoints import published
from mmvidformer.config import config_name
from mmvidformer.config.shipped import PACKAGE
from mmvidformer.engine.model_options import NamedModelOptions
from mmvidformer.engine.options import add_options, read_options
from mmvidformer.errors import MissingPackage, UserError
from mmvidformer.web.answers import Limits
from mmvidformer.web.page import UploadQuota, build_page
from mmvidformer.web.process import AnswerProcess, Model, offered_rows

EXAMPLE = PACKAGE / "weights" / "camera_motion.mp4"  # video that the page offers
YOUR_MODEL = "own"  # beside the names of published models


def check_port(host: str, port: int) -> None:
    """Raise a ``UserError`` if nothing can listen there, before a model is loaded."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host, port))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error).rstrip(".")
            raise UserError(f"--port {port} of --host {host}: {reason}; choose another") from None


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tool."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="names of published checkpoints")
    parser.add_argument("--config", help="config file, or name of a shipped config, of your model")
    parser.add_argument("--checkpoint", help="checkpoint of your model")
    add_options(parser, NamedModelOptions)
    parser.add_argument("--host", default="127.0.0.1", help="address (default: this machine only)")
    parser.add_argument("--port", type=int, help="port (default: the first free one from 7860)")
    parser.add_argument(
        "--max-mb", type=float, default=100, help="size of a file (default: 100)", metavar="MB"
    )
    parser.add_argument(
        "--max-seconds", type=float, default=60, help="duration (default: 60)", metavar="SECONDS"
    )
    parser.add_argument(
        "--max-wait",
        type=float,
        default=300,
        help="seconds for the answer to a video, which is then given up (default: 300)",
        metavar="SECONDS",
    )
    parser.add_argument(
        "--max-stored-mb",
        type=float,
        default=2000,
        help="size of all files that the page keeps, for 10 minutes (default: 2000)",
        metavar="MB",
    )
    args = parser.parse_args(argv)
    if (args.config is None) != (args.checkpoint is None):
        parser.error("--config and --checkpoint go together")
    your_model = read_options(Model, args)
    if args.config is None and your_model.inexact:
        parser.error("--int8 and --static are for the model of --config")
    if find_spec("gradio") is None:
        raise MissingPackage('the page needs Gradio: pip install "gradio>=6"')
    if args.port is not None:
        check_port(args.host, args.port)
    from starlette.middleware import Middleware  # comes with Gradio

    models, titles = {}, {}
    for row in offered_rows(args.models):
        models[row.name] = Model(config=published.PREFIX + row.name, device=your_model.device)
        titles[row.name] = f"{row.name} ({row.license or 'license unknown'})"
    if args.config:
        _, weights = find_model(your_model.config, your_model.checkpoint, your_model.cfg_options)
        models[YOUR_MODEL] = replace(your_model, checkpoint=weights)
    # From now on nothing is fetched: the process that answers inherits this.
    os.environ.update(HF_HUB_OFFLINE="1")
    process = AnswerProcess(models, Limits(args.max_mb, args.max_seconds), args.max_wait)
    if args.config:
        names = process.load(YOUR_MODEL)
        known = ", ".join([*names[:3], "..."] if len(names) > 3 else names)
        title = f"{config_name(args.config)} ({len(names)} classes: {known})"
        titles = {YOUR_MODEL: title, **titles}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # to delete the files
    with TemporaryDirectory(prefix="mmvidformer_web_") as folder:
        os.environ.update(GRADIO_TEMP_DIR=folder, GRADIO_RUN_HISTORY="False")
        quota = Middleware(UploadQuota, folder=Path(folder), most_mb=args.max_stored_mb)
        example = shutil.copy(EXAMPLE, folder)
        build_page(titles, process, example).launch(
            server_name=args.host,
            server_port=args.port,
            share=False,
            max_file_size=int(args.max_mb * 1e6),
            ssr_mode=False,
            app_kwargs={"middleware": [quota]},
        )
