"""Models whose weights one process has, for all processes that read videos."""

import pickle
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from multiprocessing import current_process
from multiprocessing.connection import (  # type: ignore[attr-defined]
    Client,
    arbitrary_address,
    default_family,
)
from typing import Any, NamedTuple

from mmvidformer.apis import Recognizer
from mmvidformer.engine.offer_options import Limits
from mmvidformer.errors import LostProcess, UserError
from mmvidformer.video.processes import send_copy
from mmvidformer.web.batches import can_share, offer_model
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
        self._address = arbitrary_address(default_family)
        self._size, self._delay = size, delay
        self.readers = {name: _Reader(model, name, self._address) for name, model in models.items()}
        self.process = AnswerProcess(models, limits, kept_models=1)

    def start(self) -> None:
        """Load the models; a ``UserError`` says which one cannot be loaded, and why."""
        self._load()
        threading.Thread(target=self._start_again, daemon=True).start()

    def kill(self) -> None:
        """End the process."""
        self.process.close()

    def _load(self) -> None:
        for name in self.readers:
            list(self.process.ask(name, offer_model, name, self._address, self._size, self._delay))

    def _start_again(self) -> None:
        while True:
            self.process.wait()
            time.sleep(PAUSE)
            if self.process.is_closed:
                return
            with suppress(UserError):
                self._load()


class _Reader(NamedTuple):
    """What loads a model where videos are read."""

    model: Model
    name: str
    address: str

    def load(self) -> Recognizer:
        """Return the model."""
        recognizer = replace(self.model, device="cpu", int8=False, static=None).load()
        if not can_share(recognizer):
            return self.model.load()
        recognizer.run_elsewhere(partial(run_remotely, self.address, self.name))
        return recognizer


def run_remotely(address: str, name: str, samples: Sequence[dict]) -> list[Any]:
    """Let the process at an address do ``Recognizer.run_samples`` of a model."""
    try:
        with Client(address, authkey=current_process().authkey) as connection:
            send_copy(connection, (name, samples))
            answer = pickle.loads(connection.recv_bytes())
    except (EOFError, OSError):
        raise LostProcess("the process of the model has ended, and starts again") from None
    if isinstance(answer, UserError):
        raise answer
    return answer
