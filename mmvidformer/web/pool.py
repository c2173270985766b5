"""Processes that answer at the same time, and the requests that wait for one."""

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

from mmvidformer.web.process import AnswerProcess, Work
from mmvidformer.web.uploads import Refused

_END = object()


class Pool:
    """Processes, of which a request takes one, and a queue of requests that has an end.

    Args:
        processes: The processes of each device. The device with the most idle ones gets a request.
        most_waiting: Number of requests that may wait, from their first byte on.
        prepare: Loads what a process needs, so that no request waits for it.

    Attributes:
        inside: Number of requests that wait or are answered.
        running: Number of those that are answered.
    """

    def __init__(
        self,
        processes: Sequence[Sequence[AnswerProcess]],
        most_waiting: int,
        prepare: Callable[[AnswerProcess], object],
    ) -> None:
        self.processes = [process for of_device in processes for process in of_device]
        self.most_waiting, self._prepare = most_waiting, prepare
        self.inside = self.running = 0
        self._seconds = 1.0  # of an answer, on average of the last ones
        self._threads = ThreadPoolExecutor(len(self.processes))
        self._idle = [list(of_device) for of_device in processes]
        self._idle_count = asyncio.Semaphore(len(self.processes))
        self._offers: set[asyncio.Task] = set()

    def start(self) -> None:
        """Start and prepare all processes, before there is a loop of asyncio."""
        for _ in self._threads.map(self._prepare, self.processes):
            pass

    @contextmanager
    def place(self) -> Iterator[None]:
        """Take a place in the queue; ``Refused`` if there is none."""
        workers = len(self.processes)
        if self.inside >= workers + self.most_waiting:
            seconds = math.ceil(self._seconds * self.inside / workers)
            text = f"{self.most_waiting} requests wait already; try again in {seconds} s"
            raise Refused(503, text, seconds)
        self.inside += 1
        try:
            yield
        finally:
            self.inside -= 1

    async def ask(self, name: str, work: Work, *arguments: Any) -> AsyncGenerator[Any, None]:
        """Wait for a process, and yield what its ``ask`` does; to be closed."""
        await self._idle_count.acquire()
        idle = max(self._idle, key=len)
        process = idle.pop(0)
        self.running += 1
        began = time.monotonic()
        results = process.ask(name, work, *arguments)
        try:
            while (result := await self._run(partial(next, results, _END))) is not _END:
                yield result
            self._seconds += 0.1 * (time.monotonic() - began - self._seconds)
        finally:
            try:
                await self._run(results.close)
            finally:
                self.running -= 1
                offer = asyncio.create_task(self._offer(process, idle))
                self._offers.add(offer)
                offer.add_done_callback(self._offers.discard)

    def kill(self) -> None:
        """End all processes."""
        for process in self.processes:
            process.close()

    async def _offer(self, process: AnswerProcess, idle: list[AnswerProcess]) -> None:
        try:
            if not process.started:
                await self._run(partial(self._prepare, process))
        finally:
            idle.append(process)
            self._idle_count.release()

    async def _run(self, function: Callable[[], Any]) -> Any:
        """Run a function of a process in a thread, to its end even if this is cancelled."""
        future = asyncio.get_running_loop().run_in_executor(self._threads, function)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait([future])
            raise
