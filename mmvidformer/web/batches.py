"""Samples of several processes, which go through a model together."""

import os
import pickle
import queue
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from multiprocessing import current_process
from multiprocessing.connection import Connection, Listener
from typing import Any, NamedTuple

from mmvidformer.apis import Recognizer
from mmvidformer.engine.offer_options import Limits
from mmvidformer.errors import LostProcess, UserError
from mmvidformer.video.processes import send_copy


def offer_model(
    recognizer: Recognizer, limits: Limits, name: str, address: str, size: int, delay: float
) -> Iterator[str]:
    """A work of the process: run a model on samples that come to an address from now on.

    Args:
        recognizer: The model.
        limits: Those of the server.
        name: What others call the model.
        address: Of a socket of ``multiprocessing``.
        size: As of ``Batches``.
        delay: As of ``Batches``.
    """
    if can_share(recognizer):
        _batches_at(address, size, delay).models[name] = recognizer
    yield name


def can_share(recognizer: Recognizer) -> bool:
    """Whether a model needs nothing but samples, neither the last state nor persons."""
    return recognizer.has_windows({}, in_parts=True) and not recognizer.is_frame_by_frame({})


class _Asked(NamedTuple):
    connection: Connection
    name: str
    samples: Sequence[dict]


class Batches:
    """Takes samples from an address, and runs models on those that come at about the same time.

    Args:
        address: Where they come.
        size: Number of samples for which it waits.
        delay: Seconds for which the first one waits at most.

    Attributes:
        models: By name.
    """

    def __init__(self, address: str, size: int, delay: float) -> None:
        self.models: dict[str, Recognizer] = {}
        self._size, self._delay = size, delay
        self._waiting: queue.Queue[_Asked] = queue.Queue()
        with suppress(OSError):  # that of a process that was killed
            os.unlink(address)
        self._listener = Listener(address, backlog=64, authkey=current_process().authkey)
        for work in (self._listen, self._run):
            threading.Thread(target=work, daemon=True).start()

    def _listen(self) -> None:
        while True:
            with suppress(EOFError, OSError):  # whoever asks may be killed at any time
                connection = self._listener.accept()
                threading.Thread(target=self._receive, args=(connection,), daemon=True).start()

    def _receive(self, connection: Connection) -> None:
        with suppress(EOFError, OSError):
            self._waiting.put(_Asked(connection, *pickle.loads(connection.recv_bytes())))

    def _run(self) -> None:
        while True:
            by_name: dict[str, list[_Asked]] = {}
            for asked in self._gather():
                by_name.setdefault(asked.name, []).append(asked)
            for name, batch in by_name.items():
                answers = _answer(self.models.get(name), batch)
                for asked, answer in zip(batch, answers, strict=True):
                    with suppress(OSError), asked.connection:
                        send_copy(asked.connection, answer)

    def _gather(self) -> list[_Asked]:
        batch = [self._waiting.get()]
        end = time.monotonic() + self._delay
        while sum(len(asked.samples) for asked in batch) < self._size:
            try:
                batch.append(self._waiting.get(timeout=max(end - time.monotonic(), 0)))
            except queue.Empty:
                break
        return batch


_batches_at = cache(Batches)  # a process has one


def _answer(recognizer: Recognizer | None, batch: Sequence[_Asked]) -> list[Any]:
    """Return for each of a batch its outputs, or a ``UserError``."""
    if recognizer is None:
        return [LostProcess("the model is not loaded yet") for _ in batch]
    samples = [sample for asked in batch for sample in asked.samples]
    try:
        outputs = iter([output.to("cpu") for output in recognizer.run_samples(samples)])
    except Exception as error:
        if len(batch) > 1:  # one of them may be to blame, or there are too many for the memory
            return [answer for asked in batch for answer in _answer(recognizer, [asked])]
        if isinstance(error, UserError):
            return [error]
        traceback.print_exc()
        return [LostProcess(f"the model failed: {type(error).__name__}")]
    return [[next(outputs) for _ in asked.samples] for asked in batch]
