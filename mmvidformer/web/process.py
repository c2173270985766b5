"""The process that reads the videos of others and runs the models, which can be killed."""

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from mmvidformer.apis import Recognizer
from mmvidformer.apis.detector import load_detector
from mmvidformer.apis.factory import find_model
from mmvidformer.checkpoints import published
from mmvidformer.checkpoints.download import fetch, is_cached
from mmvidformer.config import is_recurrent
from mmvidformer.engine.errors import describe
from mmvidformer.engine.model_options import NamedModelOptions
from mmvidformer.engine.pipelines import set_video_backend
from mmvidformer.errors import UserError
from mmvidformer.web.answers import MAX_PIXELS, Answer, Limits, answer

_PROCESSES = get_context("spawn")  # not fork: this process has threads
KEPT_MODELS = 2


def offered_rows(names: Sequence[str]) -> list[published.Published]:
    """Return the published models of the page: those named, which are fetched, and those here."""
    rows = [published.row_of(published.PREFIX + name) for name in names]
    for row in rows:
        if not row.config:
            raise UserError(f"{row.name} has no classes, so the page cannot offer it")
        fetch(published.PREFIX + row.name)
    here = [r for r in published.rows() if r.config and is_cached(published.PREFIX + r.name)]
    return rows + [row for row in here if row not in rows]


class Model(NamedModelOptions):
    """A model of the page."""

    def load(self) -> Recognizer:
        """Load the model, whose weights must be here.

        Raises:
            UserError: If the weights are those of an address that was not fetched.
        """
        source = self.checkpoint or self.config
        if isinstance(source, str) and not is_cached(source):
            raise UserError(f"the weights of {source} are not in the cache; restart the page")
        cfg, checkpoint = find_model(self.config, self.checkpoint, self.cfg_options)
        set_video_backend(cfg, "pyav", max_pixels=MAX_PIXELS)
        clips = None if is_recurrent(cfg) else 1
        recognizer = Recognizer(cfg, checkpoint, self.device, self.classes, clips, **self.inexact)
        if recognizer.task.needs_boxes:
            load_detector(recognizer.device)
        return recognizer


class AnswerProcess:
    """A process that answers videos one after the other, and is killed if one takes too long.

    It starts with the first call, anew after it was killed, and keeps two models.

    Args:
        models: The models by name.
        limits: Which videos are refused.
        time_limit: Seconds for a video, and for loading a model.
    """

    def __init__(
        self, models: Mapping[str, Model], limits: Limits, time_limit: float = 300.0
    ) -> None:
        self.models, self.limits, self.time_limit = models, limits, time_limit
        self._idle: tuple | None = None

    def load(self, name: str) -> list[str]:
        """Load a model, and return its class names.

        Raises:
            UserError: If it cannot be loaded.
        """
        (names,) = self._ask(name, None, None)
        return names

    def answer(self, name: str, video: str, folder: str) -> Iterator[Answer | tuple[float, str]]:
        """Yield the answers of ``web.answers.answer``, and its progress between them.

        Raises:
            UserError: If the video is refused or cannot be read, took too long, or crashed the
                process.
        """
        yield from self._ask(name, video, folder)

    def _ask(self, *request: str | None) -> Iterator:
        process, pipe = self._idle or self._start()
        self._idle, is_idle = None, False
        try:
            pipe.send(request)
            for _ in ("loading", "answering"):
                end = time.monotonic() + self.time_limit
                while (message := self._receive(pipe, end)) is not None:
                    is_idle = isinstance(message, UserError)
                    if is_idle:
                        raise message
                    yield message
            is_idle = True
        except (EOFError, ConnectionError):
            process.join()
            code = process.exitcode
            reason = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            raise UserError(f"the video crashed the process that reads it ({reason})") from None
        finally:  # also if nobody waits for the rest
            if is_idle and self._idle is None:
                self._idle = process, pipe
            else:
                process.kill()
                process.join()

    def _receive(self, pipe: Connection, end: float) -> object:
        if not pipe.poll(max(end - time.monotonic(), 0)):
            raise UserError(f"the video took longer than {self.time_limit:g} s and was given up")
        return pipe.recv()

    def _start(self) -> tuple:
        pipe, end = _PROCESSES.Pipe()
        arguments = end, self.models, self.limits
        process = _PROCESSES.Process(target=_serve, args=arguments, daemon=True)
        process.start()
        end.close()
        pipe.recv()  # imports take longer than some time limits
        return process, pipe


def _serve(pipe: Connection, models: Mapping[str, Model], limits: Limits) -> None:
    """Answer requests (name of a model, video, folder) until the other end closes.

    None is sent at the start, when the model is loaded, and after the last answer; a refusal as
    ``UserError``.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the parent, which ends this one
    load = lru_cache(KEPT_MODELS)(lambda name: models[name].load())

    def progress(share: float, text: str) -> None:
        pipe.send((share, text))

    pipe.send(None)
    while True:
        try:
            name, video, folder = pipe.recv()
        except EOFError:
            return
        try:
            if name not in models:
                raise UserError(f"no model named {name!r} is offered")
            recognizer = load(name)
            pipe.send(None)
            if video is None:
                pipe.send(list(next(iter(recognizer.names.values()))))
            else:
                for part in answer(recognizer, video, folder, limits, progress):
                    pipe.send(part)
            pipe.send(None)
        except (UserError, OSError) as error:
            text = describe(error)
            if video is not None:  # names of folders are no business of a visitor
                text = text.replace(f"{Path(video).parent}{os.sep}", "")
            pipe.send(UserError(text))
