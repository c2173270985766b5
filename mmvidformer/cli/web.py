"""Classify videos on a page in the browser: mmvidformer web [--config C --checkpoint FILE].

Needs Gradio: pip install "gradio>=6".
"""

import os
import signal
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from mmengine.config import Config

from mmvidformer.apis import Recognizer
from mmvidformer.apis.factory import find_model
from mmvidformer.config import config_name, load_config
from mmvidformer.convert import published
from mmvidformer.datasets.motion.camera.spec import CameraSpec
from mmvidformer.engine.arguments import add_classes_argument, add_overrides
from mmvidformer.engine.pipelines import set_video_backend
from mmvidformer.web import MAX_PIXELS, build_page


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tool."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--config", help="config file, or name of a shipped config, of your model")
    parser.add_argument("--checkpoint", help="checkpoint of your model")
    add_overrides(parser)
    add_classes_argument(parser)
    parser.add_argument("--device", help="such as cuda:1 (default: a GPU if there is one)")
    parser.add_argument("--host", default="127.0.0.1", help="address (default: this machine only)")
    parser.add_argument("--port", type=int, help="port (default: the first free one from 7860)")
    parser.add_argument("--max-mb", type=float, default=100, help="size of a file (default: 100)")
    parser.add_argument("--max-seconds", type=float, default=60, help="duration (default: 60)")
    args = parser.parse_args(argv)
    if (args.config is None) != (args.checkpoint is None):
        parser.error("--config and --checkpoint go together")
    if find_spec("gradio") is None:
        raise ImportError('the page needs Gradio: pip install "gradio>=6"')

    def load(
        config: str | Config, checkpoint: str | None = None, names: list[str] | None = None
    ) -> Recognizer:
        cfg, checkpoint = find_model(config, checkpoint)
        set_video_backend(cfg, "pyav", max_pixels=MAX_PIXELS)
        clips = None if "Recurrent" in cfg.model.type else 1
        return Recognizer(cfg, checkpoint, args.device, names, clips)

    models, load_published = {}, lru_cache(maxsize=1)(load)
    if args.config:
        own = load(load_config(args.config, args.cfg_options), args.checkpoint, args.classes)
        names = next(iter(own.names.values()))
        known = ", ".join([*names[:3], "..."] if len(names) > 3 else names)
        models[f"{config_name(args.config)} ({len(names)} classes: {known})"] = lambda: own
    for row in published.rows():
        if row.config:
            title = f"{row.name} ({row.license or 'license unknown'})"
            models[title] = partial(load_published, published.PREFIX + row.name)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # to delete the files
    with TemporaryDirectory(prefix="mmvidformer_web_") as folder:
        os.environ.update(GRADIO_TEMP_DIR=folder, GRADIO_RUN_HISTORY="False")
        CameraSpec(train=0, val=0, test=0).write(folder)
        build_page(models, str(Path(folder, "film.mp4")), args.max_mb, args.max_seconds).launch(
            server_name=args.host,
            server_port=args.port,
            share=False,
            max_file_size=int(args.max_mb * 1e6),
            ssr_mode=False,
        )
