"""Models of the page whose process hangs, crashes, stops or answers when it looks at a video."""

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from mmvidformer.apis import Prediction, Recognizer
from mmvidformer.engine.offer_options import Limits
from mmvidformer.errors import UserError
from mmvidformer.tasks.changes import TooInexact
from mmvidformer.web.models import Model


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
            raise TooInexact("int8: 2 of 16 answers changed")
        raise UserError(f"process {os.getpid()}")


def class_names(recognizer: Recognizer | BadRecognizer, limits: Limits) -> Iterator[list[str]]:
    """A work of the process: the names of the classes, of the first output."""
    yield list(next(iter(recognizer.names.values())))


def hang_at_once(recognizer: BadRecognizer, limits: Limits) -> Iterator[None]:
    """A work of the process: tell that it hangs, and do so."""
    print("it hangs", flush=True)
    yield recognizer.task


class TrapModel(Model):
    """A good model, but for videos whose suffix is a deed: ``.hang``, ``.crash``, ``.slow``."""

    def load(self) -> Recognizer:
        """Return the model."""
        recognizer = super().load()
        recognizer.__class__ = TrapRecognizer
        return recognizer


class TrapRecognizer(Recognizer):
    """See ``TrapModel``."""

    def answers(self, video: Path, *arguments: Any, **options: Any) -> Iterator[Prediction]:
        """Answer, or do what the suffix says."""
        if video.suffix in (".hang", ".crash"):
            BadRecognizer(video.suffix[1:]).task  # noqa: B018
        for prediction in super().answers(video, *arguments, **options):
            time.sleep(0.5 * (video.suffix == ".slow"))
            yield prediction
        if video.suffix == ".late":
            raise UserError(f"{video}: it ends too early")
