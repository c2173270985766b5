"""Classify videos on a page in the browser: mmvidformer web [MODEL ...].

The page offers published models that are named here, which are fetched before it opens, and those
whose weights are on this machine. With --config and --checkpoint it offers your own too.
Needs Gradio: pip install "gradio>=6".
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from mmvidformer.engine.offer_options import OfferOptions
from mmvidformer.engine.options import parse_options
from mmvidformer.engine.stops import stopped_by_signals

EXAMPLE = "camera_motion.mp4"  # video that the page offers


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tool."""
    options = parse_options(OfferOptions, argv, __doc__)
    from mmvidformer.cli.offering import fetch_offer

    models, limits = fetch_offer(options, package="gradio", clips=1), options.limits
    from starlette.middleware import Middleware

    from mmvidformer.checkpoints import published
    from mmvidformer.config import config_name
    from mmvidformer.config.shipped import PACKAGE
    from mmvidformer.web.models import YOUR_MODEL, models_here
    from mmvidformer.web.page import build_page
    from mmvidformer.web.process import AnswerProcess
    from mmvidformer.web.rows import describe_model
    from mmvidformer.web.uploads import UploadQuota

    for name, model in models_here(options.device).items():
        models.setdefault(name, model)
    process = AnswerProcess(models, limits)
    titles = {name: name for name in models}
    for name in titles.keys() & published.by_name():
        license_name = published.by_name()[name].license or "license unknown"
        titles[name] = f"{name} ({license_name})"
    if options.config:
        (about,) = process.ask(YOUR_MODEL, describe_model)
        names = next(iter(about["classes"].values()))
        known = ", ".join([*names[:3], "..."] if len(names) > 3 else names)
        titles[YOUR_MODEL] = f"{config_name(options.config)} ({len(names)} classes: {known})"
    with stopped_by_signals(0), TemporaryDirectory(prefix="mmvidformer_web_") as folder:
        os.environ.update(GRADIO_TEMP_DIR=folder, GRADIO_RUN_HISTORY="False")
        quota = Middleware(UploadQuota, folder=Path(folder), most_mb=limits.max_stored_mb)
        example = shutil.copy(PACKAGE / "weights" / EXAMPLE, folder)
        try:
            build_page(titles, process, example).launch(
                server_name=options.host,
                server_port=options.port,
                share=False,
                max_file_size=int(limits.max_mb * 1e6),
                ssr_mode=False,
                app_kwargs={"middleware": [quota]},
            )
        finally:
            process.close()
