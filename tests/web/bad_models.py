"""Models whose process hangs, crashes, stops or answers; no process imports PyTorch for them."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mmvidformer.engine.offer_options import Limits
from mmvidformer.errors import UserError

if TYPE_CHECKING:
    from mmvidformer.apis import Recognizer


class BadModel(NamedTuple):
    """A model that does something instead of reading the video (``BadRecognizer.task``)."""

    deed: str

    def load(self) -> "BadRecognizer":
        """Return the model."""
        if self.deed == "no load":
            raise ImportError("no module named 'kernels'")
        if self.deed == "no memory":
            os.kill(os.getpid(), signal.SIGKILL)
        return BadRecognizer(self.deed)

    def __reduce__(self) -> tuple:
        """Return what makes it in another process."""
        return _import_nothing if self.deed == "no import" else BadModel, (self.deed,)


def _import_nothing(deed: str) -> None:
    raise ImportError(deed)


class Inexact(UserError, RuntimeError):
    """As ``TooInexact``."""


class BadRecognizer:
    """See ``BadModel``."""

    names = {"class": ("a", "b")}

    def __init__(self, deed: str) -> None:
        self.deed = deed

    @property
    def task(self) -> str:
        """Do it."""
        if self.deed == "hang":
            re.match("(a+)+$", 99 * "a" + "b")  # holds the lock of the interpreter, as decoders do
        if self.deed == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if self.deed == "stop":
            raise Inexact("int8: 2 of 16 answers changed")
        raise UserError(f"process {os.getpid()}")


def class_names(recognizer: "Recognizer | BadRecognizer", limits: Limits) -> Iterator[list[str]]:
    """A work of the process: the names of the classes, of the first output."""
    yield list(next(iter(recognizer.names.values())))


def look_at(recognizer: BadRecognizer, limits: Limits, video: Path) -> Iterator[None]:
    """A work of the process: do what the model does."""
    yield recognizer.task


def hang_at_once(recognizer: BadRecognizer, limits: Limits) -> Iterator[None]:
    """A work of the process: tell that it hangs, and do so."""
    print("it hangs", flush=True)
    yield recognizer.task
