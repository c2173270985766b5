"""Models whose weights one process has, for all processes that read videos."""

import os
import pickle
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from multiprocessing import AuthenticationError, current_process
from multiprocessing.connection import (  # type: ignore[attr-defined]
    Client,
    Connection,
    Listener,
    arbitrary_address,
    default_family,
)
from typing import Any, NamedTuple

from mmvidformer.apis import Recognizer
from mmvidformer.apis.stream import Step
from mmvidformer.engine.offer_options import Limits
from mmvidformer.errors import LostProcess, UserError
from mmvidformer.video.processes import send_copy
from mmvidformer.web.models import Model
from mmvidformer.web.process import AnswerProcess

PAUSE = 1.0  # seconds after which a process that ended is started again


class SharedModels:
    """The process that runs models for those that read videos; it is started again if it ends.

    Args:
        models: The models by name.
        limits: Those of the server.
        size: Number of samples that go through a model together.
        delay: Seconds for which the first one waits for others at most.

    Attributes:
        readers: What readers load, by name: models without weights, or whole ones if they are not
            shared (``can_share``).
        process: What runs the models.
    """

    def __init__(
        self, models: Mapping[str, Model], limits: Limits, size: int, delay: float
    ) -> None:
        self._size, self._delay = size, delay
        self.readers = {
            name: Reader(model, arbitrary_address(default_family)) for name, model in models.items()
        }
        self.process = AnswerProcess(models, limits, kept_models=1)

    def start(self) -> None:
        """Load the models; a ``UserError`` says which one cannot be loaded, and why."""
        self._load()
        threading.Thread(target=self._start_again, daemon=True).start()

    def kill(self) -> None:
        """End the process."""
        self.process.close()

    def _load(self) -> None:
        for name, reader in self.readers.items():
            list(self.process.ask(name, offer_model, reader.address, self._size, self._delay))

    def _start_again(self) -> None:
        while True:
            self.process.wait()
            time.sleep(PAUSE)
            if self.process.is_closed:
                return
            with suppress(UserError):
                self._load()


class Reader(NamedTuple):
    """What loads a model where videos are read."""

    model: Model
    address: str  # of a socket of ``multiprocessing``, where the model answers

    def load(self) -> Recognizer:
        """Return the model."""
        recognizer = replace(self.model, device="cpu", int8=False, static=None).load()
        if not can_share(recognizer):
            return self.model.load()
        recognizer.run_elsewhere(partial(Link, self.address))
        return recognizer


def can_share(recognizer: Recognizer) -> bool:
    """Whether a model needs nothing but samples or frames of a stream, no persons."""
    return recognizer.has_windows({}, in_parts=True) or recognizer.is_frame_by_frame({})


class Link:
    """A way to the model at an address, for the samples of one video or the steps of a stream."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._connection: Connection | None = None

    def run(self, sample: dict | Step) -> Any:
        """Return what the model makes of a sample; it keeps the state until the link is gone."""
        try:
            if self._connection is None:
                self._connection = Client(self._address, authkey=current_process().authkey)
            send_copy(self._connection, sample)
            answer = pickle.loads(self._connection.recv_bytes())
        except (EOFError, OSError):
            raise LostProcess("the process of the model has ended, and starts again") from None
        if isinstance(answer, UserError):
            raise answer
        return answer


def offer_model(
    recognizer: Recognizer, limits: Limits, address: str, size: int, delay: float
) -> Iterator[str]:
    """A work of the process: let a model answer at an address from now on.

    Args:
        recognizer: The model.
        limits: Those of the server.
        address: Of a socket of ``multiprocessing``.
        size: As of ``SharedModels``.
        delay: As of ``SharedModels``.
    """
    if can_share(recognizer):
        with suppress(OSError):  # that of a process that was killed
            os.unlink(address)
        listener = Listener(address, backlog=64, authkey=current_process().authkey)
        arguments = recognizer, listener, size, delay
        threading.Thread(target=_listen, args=arguments, daemon=True).start()
    yield address


def _listen(recognizer: Recognizer, listener: Listener, size: int, delay: float) -> None:
    with recognizer.gathered(size, delay):
        while True:
            # Whoever asks may be killed at any time.
            with suppress(EOFError, OSError, AuthenticationError):
                arguments = recognizer, listener.accept()
                threading.Thread(target=_answer, args=arguments, daemon=True).start()


def _answer(recognizer: Recognizer, connection: Connection) -> None:
    """Answer for the samples of one video, or the steps of a stream, until they end."""
    shared, stream = recognizer.share_frames(), None
    with connection, suppress(EOFError, OSError):
        while True:
            sample = pickle.loads(connection.recv_bytes())
            try:
                if isinstance(sample, Step):
                    stream = stream or recognizer.open_stream()
                    answer = {task: x.cpu() for task, x in stream.run(sample).items()}
                else:
                    (output,) = recognizer.run_samples([sample], shared)
                    answer = output.to("cpu")
            except UserError as error:
                answer = error
            except Exception as error:
                traceback.print_exc()
                answer = LostProcess(f"the model failed: {type(error).__name__}")
            send_copy(connection, answer)
