"""The process that reads the videos of others and runs the models, which can be killed."""

import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

from mmvidformer.engine.errors import describe
from mmvidformer.engine.offer_options import Limits
from mmvidformer.errors import LostProcess, UserError
from mmvidformer.video.processes import end_with_parent

_PROCESSES = get_context("spawn")  # not fork: this process has threads
LOADING = 900.0  # seconds for imports and a model at least, which no video is to blame for
# Of a model, the limits, and what is asked of it; no result is None.
Work = Callable[..., Iterator[Any]]


class Loadable(Protocol):
    """What makes a model, in the process that runs it."""

    def load(self) -> Any:
        """Return the model; a ``UserError`` says why it cannot be loaded."""


class AnswerProcess:
    """A process that does one work after the other, and is killed if one takes too long.

    It starts with the first call, and anew after it was killed. It ends with this process.

    Args:
        models: The models by name.
        limits: Which videos are refused; ``max_wait`` is for a work.
        kept_models: How many models stay in memory.

    Attributes:
        kills: How often it was killed, or crashed.
        started: The process, and a pipe to it; None before the first call, or after it ended.
        is_closed: Whether it never starts again.
    """

    def __init__(
        self, models: Mapping[str, Loadable], limits: Limits, kept_models: int = 2
    ) -> None:
        self.models, self.limits, self.kept_models = models, limits, kept_models
        self.kills, self._is_idle = 0, True
        self.started: tuple[Any, Connection] | None = None
        self.is_closed, self._lock = False, threading.Lock()

    def ask(self, name: str, work: Work, *arguments: Any) -> Generator[Any, None, None]:
        """Yield what ``work(model, limits, *arguments)`` yields; it stops if nobody waits for more.

        Raises:
            LostProcess: If it took too long, or crashed the process.
            UserError: If the model cannot be loaded, or the work raised one.
        """
        wait, blamed, deed = self.limits.max_wait, f"the model {name}", "loads"
        process, pipe = self._start()
        self._is_idle = False
        try:
            pipe.send((name, work, arguments))
            list(self._receive(pipe, max(LOADING, wait), blamed))
            self._is_idle, blamed, deed = False, "the video", "reads"
            try:
                yield from self._receive(pipe, wait, blamed)
            except GeneratorExit:
                pipe.send(None)
                with suppress(UserError):
                    list(self._receive(pipe, wait, blamed))
                raise
        except (EOFError, ConnectionError):
            process.join()
            code = process.exitcode
            reason = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            raise LostProcess(f"{blamed} crashed the process that {deed} it ({reason})") from None
        finally:
            if not self._is_idle:
                self.kills += 1
                self.kill()

    def wait(self) -> None:
        """Wait until the process ends, whoever ends it."""
        if self.started is not None:
            process, _ = self.started
            process.join()
            self.kill()

    def kill(self) -> None:
        """End the process; a thread that waits for it sees that it crashed."""
        with self._lock:
            started, self.started = self.started, None
        if started is not None:
            process, _ = started
            process.kill()
            process.join()

    def close(self) -> None:
        """End the process for good, also if a thread is about to start it."""
        self.is_closed = True
        self.kill()

    def _receive(self, pipe: Connection, seconds: float, blamed: str) -> Iterator[Any]:
        """Yield results until there are no more; the process is idle then, or if it refuses."""
        end = time.monotonic() + seconds
        while pipe.poll(max(end - time.monotonic(), 0)):
            result = pipe.recv()
            self._is_idle = result is None or isinstance(result, UserError)
            if result is None:
                return
            if self._is_idle:
                raise result
            yield result
        raise LostProcess(f"{blamed} took longer than {seconds:g} s and was given up")

    def _start(self) -> tuple[Any, Connection]:
        with self._lock:
            if self.is_closed:
                raise LostProcess("the process has ended")
            if self.started and not self.started[0].is_alive():  # it crashed between two works
                self.kills, self.started = self.kills + 1, None
            if self.started is None:
                pipe, end = _PROCESSES.Pipe()
                arguments = end, self.models, self.limits, self.kept_models
                process = _PROCESSES.Process(target=_work, args=arguments, daemon=True)
                process.start()
                end.close()
                self.started = process, pipe
            return self.started


def _work(
    pipe: Connection, models: Mapping[str, Loadable], limits: Limits, kept_models: int
) -> None:
    """Do what is asked (name of a model, work, its arguments) until the other end closes.

    None is sent when the model is loaded, and after the last result; a refusal as ``UserError``.
    None comes if nobody waits for further results.
    """
    # Ctrl-C and the system's end of a service are for the parent, which ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end_with_parent()
    load = lru_cache(kept_models)(partial(_load, models))
    while True:
        try:
            request = pipe.recv()
        except EOFError:
            return
        if request is None:  # it came after the last result
            continue
        name, work, arguments = request
        try:
            model = load(name)
            pipe.send(None)
            for result in work(model, limits, *arguments):
                pipe.send(result)
                if pipe.poll():
                    pipe.recv()
                    break
            pipe.send(None)
        except (UserError, OSError) as error:
            text = describe(error)
            for argument in arguments:  # names of folders are no business of a visitor
                if isinstance(argument, Path):
                    text = text.replace(f"{argument.parent}{os.sep}", "")
            lost = isinstance(error, LostProcess)
            pipe.send(LostProcess(text) if lost else UserError(text))


def _load(models: Mapping[str, Loadable], name: str) -> Any:
    if name not in models:
        raise UserError(f"no model named {name!r} is offered")
    try:
        return models[name].load()
    except (UserError, OSError):
        raise
    except Exception as error:  # a bug, or a package that does not fit
        traceback.print_exc()
        text = f"{type(error).__name__}: {error}"
        raise UserError(f"the model {name} cannot be loaded: {text}") from error
