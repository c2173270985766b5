"""Threads that work at once: what they send in one loop, what they ask of a model in one batch."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from queue import Empty, Full, Queue, SimpleQueue
from threading import Thread
from typing import Any, Generic, TypeVar
from weakref import WeakSet

Item = TypeVar("Item")
Send = Callable[..., None]
TICK = 0.5  # seconds after which a loop that waits can be interrupted


class Threads(AbstractContextManager):
    """Runs functions at once, a thread each, and yields what they send; a context manager.

    An error of one is raised in its place. Unlike a generator, the loop may go on after an
    interruption. A thread that hangs does not keep the process from its end.

    Args:
        functions: Each takes ``send``, which takes any values. It waits if too many wait.
    """

    def __init__(self, functions: Sequence[Callable[[Send], None]]) -> None:
        self._sent: Queue = Queue(len(functions))
        self._running, self._is_closed = len(functions), False
        self._end = float("inf")
        for function in functions:
            Thread(target=self._run, args=(function,), daemon=True).start()

    def end_within(self, seconds: float) -> None:
        """Yield nothing any more after so many seconds."""
        self._end = time.monotonic() + seconds

    def __iter__(self) -> Iterator[tuple]:
        return self

    def __next__(self) -> tuple:
        while self._running and time.monotonic() < self._end:
            try:
                values, error = self._sent.get(timeout=TICK)
            except Empty:
                continue
            if values is not None:
                return values
            self._running -= 1
            if error is not None:
                raise error
        raise StopIteration

    def __exit__(self, *error: object) -> None:
        self._is_closed = True

    def _run(self, function: Callable[[Send], None]) -> None:
        error = None
        try:
            function(self._send)
        except BaseException as raised:
            error = raised
        self._put(None, error)

    def _send(self, *values: Any) -> None:
        self._put(values, None)
        if self._is_closed:
            raise SystemExit  # of this thread

    def _put(self, *item: Any) -> None:
        while not self._is_closed:
            with suppress(Full):
                return self._sent.put(item, timeout=TICK)


class Batches(AbstractContextManager, Generic[Item]):
    """Runs what threads ask for: requests that come while a batch runs are the next batch.

    Args:
        run: Maps a batch to results, in the same order. If it fails, each request runs alone.
        size: Most requests of a batch.
        delay: Seconds for which the first one waits for others at most.

    Attributes:
        askers: Who may ask, each for one thing at a time, so that none waits for more than these;
            empty if that is not known.
    """

    def __init__(
        self, run: Callable[[list[Item]], Sequence[Any]], size: float = math.inf, delay: float = 0.0
    ) -> None:
        self._run, self._runner = run, ThreadPoolExecutor(1)
        self._size, self._delay = size, delay
        self.askers: WeakSet = WeakSet()
        self._waiting: SimpleQueue[tuple[Item, Future]] = SimpleQueue()

    def __call__(self, requests: Sequence[Item]) -> list[Any]:
        """Return the results of requests, or raise the error of one."""
        return [result.result() for result in [*map(self.submit, requests)]]

    def submit(self, request: Item) -> Future:
        """Return what gets the result of a request."""
        result: Future = Future()
        self._waiting.put((request, result))
        self._runner.submit(self._run_waiting)
        return result

    def _run_waiting(self) -> None:
        batch = []
        with suppress(Empty):
            batch.append(self._waiting.get_nowait())
            end = time.monotonic() + self._delay
            while len(batch) < min(self._size, len(self.askers) or math.inf):
                batch.append(self._waiting.get(timeout=max(end - time.monotonic(), 0)))
        if batch:
            self._run_batch(batch)

    def _run_batch(self, batch: list[tuple[Item, Future]]) -> None:
        try:
            outputs = self._run([request for request, _ in batch])
        except Exception as error:
            if len(batch) == 1:
                batch[0][1].set_exception(error)
                return
            for request in batch:
                self._run_batch([request])
            return
        for (_, result), output in zip(batch, outputs, strict=True):
            result.set_result(output)

    def __exit__(self, *error: object) -> None:
        self._runner.shutdown(wait=False)
