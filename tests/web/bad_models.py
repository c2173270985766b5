"""Models of the page whose process hangs, crashes, stops or answers when it looks at a video."""

import os
import re
import signal
from typing import NamedTuple

from mmvidformer.errors import UserError
from mmvidformer.tasks.changes import TooInexact


class BadModel(NamedTuple):
    """A model that does something instead of reading the video (``BadRecognizer.task``)."""

    deed: str

    def load(self) -> "BadRecognizer":
        """Return the model."""
        return BadRecognizer(self.deed)


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
