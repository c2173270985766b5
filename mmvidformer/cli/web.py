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
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from mmvidformer.engine.model_options import CONFIG, NamedModelOptions
from mmvidformer.engine.options import argument, option, parse_options, read_options
from mmvidformer.errors import MissingPackage, UserError

EXAMPLE = "camera_motion.mp4"  # video that the page offers
YOUR_MODEL = "own"  # beside the names of published models


@dataclass(frozen=True)
class WebOptions(NamedModelOptions):
    """Models, and what the page takes."""

    models: Sequence[str] = argument("names of published checkpoints", nargs="*", metavar="MODEL")
    config: str = option(f"{CONFIG}, of your model", "")
    checkpoint: str | None = option("checkpoint of your model")
    host: str = option("address (default: this machine only)", "127.0.0.1")
    port: int | None = option("port (default: the first free one from 7860)", type=int)
    max_mb: float = option("size of a file", 100.0, type=float, metavar="MB")
    max_seconds: float = option("duration", 60.0, type=float, metavar="SECONDS")
    max_wait: float = option(
        "seconds for the answer to a video, which is then given up",
        300.0,
        type=float,
        metavar="SECONDS",
    )
    max_stored_mb: float = option(
        "size of all files that the page keeps, for 10 minutes", 2000.0, type=float, metavar="MB"
    )

    def _check(self) -> None:
        if bool(self.config) != bool(self.checkpoint):
            raise UserError("--config and --checkpoint go together")
        if not self.config and self.inexact:
            raise UserError("--int8 and --static are for the model of --config")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tool."""
    options = parse_options(WebOptions, argv, __doc__)
    if find_spec("gradio") is None:
        raise MissingPackage('the page needs Gradio: pip install "gradio>=6"')
    if options.port is not None:
        check_port(options.host, options.port)
    from starlette.middleware import Middleware  # comes with Gradio

    from mmvidformer.apis.factory import find_model
    from mmvidformer.checkpoints import published
    from mmvidformer.config import config_name
    from mmvidformer.config.shipped import PACKAGE
    from mmvidformer.web.answers import Limits
    from mmvidformer.web.page import UploadQuota, build_page
    from mmvidformer.web.process import AnswerProcess, Model, offered_rows

    your_model = read_options(Model, options)
    models, titles = {}, {}
    for row in offered_rows(options.models):
        models[row.name] = Model(config=published.PREFIX + row.name, device=your_model.device)
        titles[row.name] = f"{row.name} ({row.license or 'license unknown'})"
    if options.config:
        _, weights = find_model(your_model.config, your_model.checkpoint, your_model.cfg_options)
        models[YOUR_MODEL] = replace(your_model, checkpoint=weights)
    # From now on nothing is fetched: the process that answers inherits this.
    os.environ.update(HF_HUB_OFFLINE="1")
    process = AnswerProcess(models, Limits(options.max_mb, options.max_seconds), options.max_wait)
    if options.config:
        names = process.load(YOUR_MODEL)
        known = ", ".join([*names[:3], "..."] if len(names) > 3 else names)
        title = f"{config_name(options.config)} ({len(names)} classes: {known})"
        titles = {YOUR_MODEL: title, **titles}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # to delete the files
    with TemporaryDirectory(prefix="mmvidformer_web_") as folder:
        os.environ.update(GRADIO_TEMP_DIR=folder, GRADIO_RUN_HISTORY="False")
        quota = Middleware(UploadQuota, folder=Path(folder), most_mb=options.max_stored_mb)
        example = shutil.copy(PACKAGE / "weights" / EXAMPLE, folder)
        build_page(titles, process, example).launch(
            server_name=options.host,
            server_port=options.port,
            share=False,
            max_file_size=int(options.max_mb * 1e6),
            ssr_mode=False,
            app_kwargs={"middleware": [quota]},
        )


def check_port(host: str, port: int) -> None:
    """Raise a ``UserError`` if nothing can listen there, before a model is loaded."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host, port))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error).rstrip(".")
            raise UserError(f"--port {port} of --host {host}: {reason}; choose another") from None
