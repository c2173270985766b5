"""What is done when an answer of a camera fulfils a rule: an address, a command, or a clip."""

import json
import operator
import re
import shlex
import shutil
import subprocess
import sys
import time
import traceback
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from http.client import HTTPException
from math import inf
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

import cv2
import numpy as np
from tqdm import tqdm

from mmvidformer.errors import UserError
from mmvidformer.sinks.base import Begun, Sink, SinkOptions
from mmvidformer.tasks.prediction import Prediction
from mmvidformer.video.connection import public_name
from mmvidformer.video.writer import VideoOutput

NUMBER = r"(\d+\.?\d*|\.\d+)"
FORM = re.compile(rf"(.+?)\s*(>=|<=|>|<)\s*{NUMBER}(?:\s+for\s+{NUMBER}\s*s)?")
COMPARE = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
PAUSE = 60.0  # seconds for which a rule rests then, of each camera
LIMIT = 30.0  # seconds for an address, and for a command
MOST = 64  # actions that run or wait
BEFORE, RATE, SIDE = 10.0, 10, 640  # of a clip: seconds, pictures a second, and the long side


class Rule(NamedTuple):
    """When something is done, and what.

    Attributes:
        text: As a user types it: ``NAME > SCORE for SECONDS s``.
        action: An address, a command, or the name of clips.
        name: A class, or a value that a model predicts.
        comparison: A key of ``COMPARE``.
        limit: What the score is compared with.
        seconds: For which answers must fulfil it.
    """

    text: str
    action: str
    name: str
    comparison: str
    limit: float
    seconds: float

    @classmethod
    def parse(cls, text: str, action: str) -> "Rule":
        """Read a rule; a ``UserError`` if it has another form, or there is no such command."""
        form = FORM.fullmatch(text.strip())
        if form is None:
            raise UserError(f"--when is such as 'fall > 0.8 for 2 s', got {text!r}")
        rule = cls(text, action, form[1], form[2], float(form[3]), float(form[4] or 0))
        if not rule.is_clip and not rule.is_address:
            try:
                words = shlex.split(action)
            except ValueError as error:
                raise UserError(f"--then {action}: {error}") from None
            if not words or shutil.which(words[0]) is None:
                what = "an http address, a command that is there, or a name of clips (.mp4)"
                raise UserError(f"--then is {what}, got {action!r}")
        return rule

    @property
    def is_address(self) -> bool:
        """Whether the row is posted."""
        return self.action.startswith(("http://", "https://"))

    @property
    def is_clip(self) -> bool:
        """Whether a clip is saved."""
        return not self.is_address and self.action.lower().endswith(".mp4")

    def check_names(self, names: Mapping[str, Sequence[str]]) -> None:
        """Raise a ``UserError`` if a model has no such class."""
        if not any(self.name in of_output for of_output in names.values()):
            some = ", ".join([name for of_output in names.values() for name in of_output][:10])
            raise UserError(f"--when {self.text}: the model has no {self.name!r}, but {some}")

    def is_met(self, prediction: Prediction) -> bool:
        """Whether a prediction fulfils it at its time."""
        scores = prediction.probabilities or prediction.scores
        for output, names in prediction.names.items():
            if self.name in names:
                score = float(scores[output][[*names].index(self.name)])
                return COMPARE[self.comparison](score, self.limit)
        return False


class Rules(Sink):
    """Does what rules say, at most once a minute for each camera and rule.

    Actions run in threads, with limited time. Their errors are printed.

    Args:
        target: None.
        options: ``rules``.
    """

    _begun: Begun
    _met: dict[tuple[Rule, int | None], tuple[float, float]]  # seconds, by rule and track
    _done: dict[Rule, float]  # seconds of the last time
    _pictures: deque[tuple[float, np.ndarray]]  # seconds, and JPEG

    def __init__(self, target: Path, options: SinkOptions) -> None:
        self._rules = options.rules
        self._runner = ThreadPoolExecutor(8)
        self._running: list[Future] = []

    def begin(self, begun: Begun) -> Sink:
        """Forget what other sources fulfilled."""
        rules = copy(self)
        rules._begun = begun
        rules._met, rules._done, rules._pictures = {}, {}, deque()
        return rules

    def append(self, prediction: Prediction) -> None:
        """Begin what the rules say that are fulfilled for long enough."""
        for rule in self._rules if prediction.seconds is not None else ():
            start, end = prediction.span
            if not rule.is_met(prediction):
                self._met.pop((rule, prediction.track), None)
                continue
            # Windows overlap, and a recurrent model saw all: these count from end to end.
            begin = end if prediction.so_far or prediction.shot is not None else start
            first, last = self._met.get((rule, prediction.track), (begin, end))
            if start - last > rule.seconds:  # nobody knows what was in between
                first = begin
            self._met[rule, prediction.track] = first, end
            is_long = end - first >= rule.seconds - 1e-6
            if is_long and end - self._done.get(rule, -inf) >= PAUSE:
                self._done[rule] = end
                self._begin(rule, prediction)

    def see(self, number: int, seconds: float, pixels: Any) -> None:
        """Keep the last seconds for clips."""
        if not any(rule.is_clip for rule in self._rules):
            return
        pictures = self._pictures
        if pictures and seconds - pictures[-1][0] < 1 / RATE - 1e-3:
            return
        height, width = pixels.shape[:2]
        share = min(1.0, SIDE / max(height, width))
        size = [max(2, round(side * share / 2) * 2) for side in (width, height)]
        small = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
        pictures.append((seconds, cv2.imencode(".jpg", small)[1]))
        while seconds - pictures[0][0] > BEFORE:
            pictures.popleft()

    def close(self, *error: Any) -> None:
        """Wait for what has begun."""
        self._runner.shutdown()

    def _begin(self, rule: Rule, prediction: Prediction) -> None:
        self._running[:] = [action for action in self._running if not action.done()]
        if len(self._running) >= MOST:
            _note(rule, f"left out, since {MOST} actions have not ended")
            return
        row = prediction.row() | {"when": rule.text}
        pictures = [jpeg for _, jpeg in self._pictures] if rule.is_clip else []
        source = self._begun.source
        target = source.target(Path(), time.strftime("_%Y%m%d_%H%M%S")).name
        self._running.append(self._runner.submit(_act, rule, row, target, pictures))


def _act(rule: Rule, row: dict[str, Any], name: str, pictures: Sequence[np.ndarray]) -> None:
    """Do what a rule says; errors are printed.

    Args:
        rule: The rule.
        row: The answer.
        name: Of the camera and the time, for a clip.
        pictures: Of a clip, JPEG.
    """
    content = json.dumps(row, ensure_ascii=False).encode()
    try:
        if rule.is_clip:
            _save_clip(Path(rule.action), name, pictures)
        elif rule.is_address:
            request = Request(rule.action, content, {"Content-Type": "application/json"})
            with urlopen(request, timeout=LIMIT):
                pass
        else:
            words = shlex.split(rule.action)
            subprocess.run(
                words, input=content, stdout=subprocess.DEVNULL, timeout=LIMIT, check=True
            )
    except (OSError, HTTPException, subprocess.SubprocessError, UserError) as error:
        _note(rule, str(error))
    except Exception:
        traceback.print_exc()


def _save_clip(place: Path, name: str, pictures: Sequence[np.ndarray]) -> None:
    path = place.with_name(f"{place.stem}_{name}.mp4")
    number = 1
    while path.exists():
        number += 1
        path = place.with_name(f"{place.stem}_{name}_{number}.mp4")
    with VideoOutput(path, RATE) as output:
        for jpeg in pictures:
            output.add(np.asarray(cv2.imdecode(jpeg, cv2.IMREAD_COLOR))[..., ::-1])


def _note(rule: Rule, text: str) -> None:
    tqdm.write(f"--then {public_name(rule.action)}: {text}", file=sys.stderr)
