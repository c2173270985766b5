"""What the commands that offer models to others, ``web`` and ``serve``, have in common."""

import os
import socket
from dataclasses import replace
from importlib.util import find_spec

from mmvidformer.engine.offer_options import OfferOptions
from mmvidformer.engine.options import read_options
from mmvidformer.errors import MissingPackage, UserError
from mmvidformer.web.models import Model, fetch_models


def fetch_offer(options: OfferOptions, package: str, clips: int | None) -> dict[str, Model]:
    """Check what is needed, and fetch the models by name; from then on nothing is fetched.

    Args:
        options: The models.
        package: What is needed of the extra ``web``.
        clips: Number of clips that are read of a video; None: the views of the test pipeline.
    """
    if find_spec(package) is None:
        raise MissingPackage(f'{package} is needed: pip install "gradio>=6" brings it')
    if options.port is not None:
        listen(options.host, options.port).close()  # before a model is loaded
    models = fetch_models(options.models, replace(read_options(Model, options), clips=clips))
    os.environ.update(HF_HUB_OFFLINE="1")  # processes that are started inherit this
    return models


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at a port, 0: a free one; a ``UserError`` if it is taken."""
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or str(error).rstrip(".")
        raise UserError(f"--port {port} of --host {host}: {reason}; choose another") from None
    return listening
