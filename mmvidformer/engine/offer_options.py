"""Options of the commands that answer the videos of others: the page and the server."""

import re
from argparse import ArgumentTypeError
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from mmvidformer.engine.arguments import not_negative, positive, positive_number
from mmvidformer.engine.model_options import CONFIG, NamedModelOptions
from mmvidformer.engine.options import Options, argument, option, part
from mmvidformer.errors import UserError


def address_prefix(text: str) -> str:
    """Check the beginning of addresses: a host, and a folder or none."""
    if not re.fullmatch(r"https?://[^\s/@?#]+/([^\s?#]*/)?", text):
        raise ArgumentTypeError(f"must be as https://HOST/ or https://HOST/FOLDER/, got {text!r}")
    return text


@dataclass(frozen=True)
class Limits(Options):
    """What is refused, of one video and of all together."""

    title: ClassVar = "limits"
    max_mb: float = option("megabytes of a file", 100.0, type=positive_number, metavar="MB")
    max_seconds: float = option("seconds of a video", 60.0, type=positive_number, metavar="SECONDS")
    max_wait: float = option(
        "seconds for the answer to a video, which is then given up",
        300.0,
        type=positive_number,
        metavar="SECONDS",
    )
    max_stored_mb: float = option(
        "megabytes of all files that are stored", 2000.0, type=positive_number, metavar="MB"
    )


@dataclass(frozen=True)
class OfferOptions(NamedModelOptions):
    """The models that are offered, and where."""

    models: Sequence[str] = argument("names of published checkpoints", nargs="*", metavar="MODEL")
    config: str = option(f"{CONFIG}, of your model", "")
    checkpoint: str | None = option("checkpoint of your model")
    host: str = option("address (default: this machine only)", "127.0.0.1")
    port: int | None = option("port (default: the first free one from 7860)", type=int)
    limits: Limits = part(Limits)

    def _check(self) -> None:
        if bool(self.config) != bool(self.checkpoint):
            raise UserError("--config and --checkpoint go together")
        if not self.config and self.inexact:
            raise UserError("--int8 and --static are for the model of --config")


@dataclass(frozen=True)
class ServeOptions(OfferOptions):
    """How requests are answered."""

    port: int = option("port", 8000, type=int)
    device: str | None = option(
        "such as cuda:1, or several: cuda:0,cuda:1 (default: a GPU if there is one)", None, False
    )
    workers: int = option(
        "processes that read, a video each at a time, for each device", 1, type=positive
    )
    batch: int = option(
        "most windows or videos, of different requests, that a model takes together",
        8,
        type=positive,
    )
    delay: float = option(
        "seconds for which one waits for others to join it at most",
        0.01,
        type=positive_number,
        metavar="SECONDS",
    )
    queue: int = option("requests that may wait; others get status 503", 32, type=positive)
    streams: int = option(
        "streams that may be open at a time, which have a process each", 0, type=not_negative
    )
    allow_addresses: Sequence[str] = option(
        "beginnings of addresses, as https://HOST/FOLDER/, from which videos are fetched that "
        "requests name (default: none)",
        (),
        nargs="+",
        type=address_prefix,
        metavar="PREFIX",
    )
    token: Path | None = option(
        "file with the token that clients send (default: none is needed)", type=Path, metavar="FILE"
    )

    def _check(self) -> None:
        super()._check()
        if not self.models and not self.config:
            raise UserError("name a MODEL, or your own by --config and --checkpoint")

    def read_token(self) -> str | None:
        """Read the token."""
        if self.token is None:
            return None
        text = self.token.read_text(encoding="utf-8").strip()
        if not re.fullmatch("[!-~]{8,}", text):
            what = "a token of at least 8 letters, digits or signs, without spaces"
            raise UserError(f"{self.token} must have {what}")
        return text
