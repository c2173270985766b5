"""Predictions, and what a task says about its own: how they are made, written and drawn.

Words for stretches of a video:

- frame: a picture. The task ``frames`` tells the class of each, which is that of its step.
- step: the frames that one token of the backbone stands for. A head of steps answers for each.
- window: the frames that the model sees at once, as if they were a whole video.
- span: what annotations state, start and end in seconds, and a class.
- segment: what a model of ``segments`` finds, start and end in seconds, a class and its score.
- part: what one answer for a long video is about: a window, a step, a segment or boxes, by task
  (``Answers.part``).
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from mmvidformer.errors import UserError
from mmvidformer.tasks.rows import class_cells, place_cells

if TYPE_CHECKING:
    from torch import Tensor

Names = Mapping[str, Sequence[str]]  # of classes or values, by output of the head


class Answers:
    """The answers of a task. The defaults are those of one class a video.

    Attributes:
        part: What the parts of a long video are: ``'windows'``, ``'steps'``, ``'segments'`` or
            ``'boxes'``. For messages.
        has_windows: Whether a long video is answered window by window.
        needs_boxes: Whether it answers for boxes that somebody gives.
        runs_frame_by_frame: Whether a recurrent model answers after each frame.
        is_about_past: Whether that answer is about all that was seen, and not about the frame.
        is_about_future: Whether it is about what comes next.
        has_one_class: Whether a part has one class.
        finds_parts: Whether start and end of the parts are answers too, each with its class.
        threshold: Probability from which a class counts as found; None: the most likely one does.
        combine: How probabilities of parts become those of the video, a function of their list
            and ``axis``.
        activation: What makes probabilities of logits: ``'softmax'``, ``'sigmoid'``, or None for
            values, which have no probabilities.
        units: Units of what is measured beside the classes, by name.
        limits: Values from which on it counts, by name.
        formats: How values are written for people, by name; default: 4 digits.
    """

    part = "windows"
    has_windows = True
    needs_boxes = False
    runs_frame_by_frame = True
    is_about_past = True
    is_about_future = False
    has_one_class = True
    finds_parts = False
    threshold: float | None = None
    combine: Callable = staticmethod(np.mean)
    activation: str | None = "softmax"
    units: Mapping[str, str] = MappingProxyType({})
    limits: Mapping[str, Sequence[float]] = MappingProxyType({})
    formats: Mapping[str, str] = MappingProxyType({})

    def answers(
        self, output: Any, names: Names, is_logits: bool = True, **where: Any
    ) -> list[Prediction]:
        """Make predictions of a data sample, which a head returns in testing.

        Args:
            output: Data sample with ``pred_score``.
            names: Names of the classes.
            is_logits: Whether scores are logits, or probabilities.
            **where: Further attributes of the predictions: source, seconds, static.
        """
        scores = output.pred_score
        scores = scores if isinstance(scores, dict) else {next(iter(names)): scores}
        return [self.predict(scores, names, is_logits, **where)]

    def predict(
        self, scores: Mapping[str, Tensor], names: Names, is_logits: bool = True, **where: Any
    ) -> Prediction:
        """Make a prediction of scores (classes,), or (views, classes), by output of the head."""
        arrays = {name: value.detach().float().cpu() for name, value in scores.items()}
        shares = {name: self.probabilities(value, is_logits) for name, value in arrays.items()}
        kept = {name: value.numpy() for name, value in arrays.items()}
        probabilities = {name: share.numpy() for name, share in shares.items() if share is not None}
        return Prediction(kept, probabilities, names, task=self, **where)

    def probabilities(self, scores: Tensor, is_logits: bool) -> Tensor | None:
        """Return probabilities (classes,), those of views averaged; None for values."""
        if self.activation is None:
            return None
        if is_logits:
            scores = scores.sigmoid() if self.activation == "sigmoid" else scores.softmax(dim=-1)
        return scores.mean(dim=0) if scores.dim() > 1 else scores

    def parts(self, reader: Any, video: dict, options: dict[str, Any]) -> Iterator[tuple]:
        """Answer for the parts of an opened video.

        Args:
            reader: What reads and answers them: a ``PartReader`` of ``apis``.
            video: Result of ``VideoPipeline.open``.
            options: Arguments of ``Recognizer.timeline``.

        Yields:
            ``(output, where)`` for each part: what the head returns of it, as ``answers`` takes it,
            and attributes of its predictions: ``seconds``, which is start and end, and perhaps
            ``static``. Outputs that have their own times, such as segments, need none.
        """
        return reader.windows_of(video, options)

    def stream_parts(
        self, reader: Any, frames: Iterable, fps: float, options: dict[str, Any]
    ) -> Iterator[tuple]:
        """Answer for the parts of a stream; see ``parts``, and ``Recognizer.stream``."""
        return reader.windows_of_stream(frames, fps, options)

    def top(self, prediction: Prediction, k: int, name: str) -> list[tuple[int, str, float]]:
        """Return number, name and probability of the k most likely classes of an output."""
        probabilities = prediction.probabilities[name]
        best = np.argsort(-probabilities, kind="stable")[:k]
        return [(int(i), prediction.names[name][i], float(probabilities[i])) for i in best]

    def cells(self, prediction: Prediction, k: int | None = None) -> dict[str, Any]:
        """Return the answer as cells of a row: the class and its score, or the values.

        With a ``threshold``, ``labels`` are all classes that reach it, joined by ``;``.

        Args:
            prediction: The prediction.
            k: Number of classes of ``top``; None: there is no such cell.
        """
        best_of = {name: prediction.top(k or 1, name) for name in prediction.scores}
        cells = class_cells(best_of, k is not None)
        if self.threshold is not None:
            (shares,) = prediction.probabilities.values()
            (names,) = prediction.names.values()
            cells["labels"] = ";".join(names[i] for i in np.flatnonzero(shares >= self.threshold))
        return cells

    def value_texts(self, values: Mapping[str, float | None]) -> list[str]:
        """Return values as people read them, such as ``'level 3.2'``."""
        numbers = {name: math.nan if value is None else value for name, value in values.items()}
        return [
            f"{name} {self.formats.get(name, '{:.4g}').format(number)}"
            for name, number in numbers.items()
        ]

    def shown_at(self, predictions: Sequence[Prediction], seconds: float) -> list[Prediction]:
        """Return what is drawn at a time: the nearest of the parts, of those that hold it first.

        The parts are in order. Those of a shot are of one length, so that one of the two around a
        time holds it, if any does.
        """
        after = bisect.bisect_left(predictions, seconds, key=lambda prediction: prediction.moment)
        neighbors = predictions[max(after - 1, 0) : after + 1]

        def distance(prediction: Prediction) -> tuple[bool, float]:
            start, end = prediction.seconds or (-math.inf, math.inf)
            return not start <= seconds < end, abs(prediction.moment - seconds)

        return [min(neighbors, key=distance)]

    def summary(self, predictions: Sequence[Prediction], k: int) -> dict[str, float] | str:
        """Return the answer for a whole video: the k most likely classes of its parts, or a text.

        Of several outputs the names begin with that of the output.
        """
        classes: dict[str, float] = {}
        names = predictions[0].names
        for name, labels in names.items():
            of_parts = [prediction.probabilities[name] for prediction in predictions]
            shares = self.combine(of_parts, axis=0)
            prefix = "" if len(names) == 1 else f"{name}: "
            best = np.argsort(-shares)[:k]
            classes |= {prefix + labels[i]: float(shares[i]) for i in best}
        return classes


ONE_CLASS = Answers()


@dataclass(frozen=True)
class Prediction:
    """Class scores or values of a video, of a part of it, or of a moment of a stream.

    Attributes:
        scores: What the head gives, by output of the head (``'class'`` if there is only one). For a
            video these are the scores that ``mmvidformer test`` evaluates.
        probabilities: The same as probabilities; empty for values, which have none.
        names: Names of the classes or values by output.
        source: Path of the file; None for arrays and streams of frames.
        seconds: Begin and end of the part; None for a whole video.
        shot: Number of the shot of a window, from 0; windows end at cuts. None: it is no window.
        ahead: Seconds until the predicted action, if the model anticipates at known times.
        box: Left, top, right and bottom, in shares of width and height, if it is about a box.
        track: Number of the person in the box, from 1 in each video, if persons are followed.
        static: Whether it is that of an earlier window, which hardly differs. None without
            ``--skip-static``.
        so_far: Whether it is about what happens at the end of the part, as a recurrent model, which
            saw all of it, tells.
        measured: Numbers beside the classes, by name, such as how fast a camera pans.
        labels: Classes that hold at once, where a task tells them.
        doubt: Why the classes say nothing, such as ``'too short'``; else empty.
        task: The task that it answers.
    """

    scores: dict[str, np.ndarray]
    probabilities: dict[str, np.ndarray]
    names: Names
    source: str | None = None
    seconds: tuple[float, float] | None = None
    shot: int | None = None
    ahead: float | None = None
    box: tuple[float, ...] | None = None
    track: int | None = None
    static: bool | None = None
    so_far: bool = False
    measured: Mapping[str, float] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    doubt: str = ""
    task: Answers = ONE_CLASS

    @property
    def start(self) -> float | None:
        """Begin of the part in seconds; None for a whole video."""
        return self.seconds and self.seconds[0]

    @property
    def end(self) -> float | None:
        """End of the part in seconds; None for a whole video."""
        return self.seconds and self.seconds[1]

    @property
    def span(self) -> tuple[float, float]:
        """Begin and end of the part in seconds.

        Raises:
            LookupError: If it is about a whole video.
        """
        if self.seconds is None:
            raise LookupError("an answer for a whole video has no begin and end")
        return self.seconds

    @property
    def label(self) -> str:
        """The most likely class, of the first output."""
        return self.top(1)[0][1]

    @property
    def score(self) -> float:
        """The probability of ``label``."""
        return self.top(1)[0][2]

    @property
    def moment(self) -> float:
        """What it is drawn at, in seconds: the middle of the part, or its end if ``so_far``."""
        if self.seconds is None:
            return 0.0
        return self.end if self.so_far else (self.start + self.end) / 2

    @property
    def values(self) -> dict[str, float]:
        """The values by name; of classes, those that are ``measured`` beside them."""
        if self.probabilities:
            return dict(self.measured)
        values: dict[str, float] = {}
        for output, numbers in self.scores.items():
            values |= zip(self.names[output], map(float, numbers), strict=True)
        return values

    def top(self, k: int = 5, task: str | None = None) -> list[tuple[int, str, float]]:
        """The k most likely classes: (number, name, probability).

        Args:
            k: Number of classes.
            task: Output of the head, such as ``'verb'``; default: the first.

        Raises:
            UserError: If the model predicts values.
        """
        if not self.probabilities:
            raise UserError("the model predicts values, not classes")
        return self.task.top(self, k, next(iter(self.scores)) if task is None else task)

    def classes(self, k: int = 5) -> dict[str, list[tuple[str, float]]]:
        """Names and scores of the k most likely classes of ``row``, by output; none of values."""
        row, outputs = self.row(k), list(self.probabilities)
        tops = ["top"] if len(outputs) == 1 else [f"{output}_top" for output in outputs]
        return {
            output: [(best["label"], best["score"]) for best in row[top]]
            for output, top in zip(outputs, tops, strict=True)
        }

    def value_texts(self) -> list[str]:
        """The values of ``row``, as people read them."""
        row = self.row()
        return self.task.value_texts({name: row[name] for name in self.values})

    def text(self, k: int = 5) -> str:
        """The ``row`` in a line, such as ``'left 97%, up 2%'``: classes, then values."""
        person = "" if self.track is None else f"person {self.track}: "
        if self.doubt:
            return f"{person}{self.label} ({self.doubt})"
        texts = []
        for output, best in self.classes(k).items():
            text = ", ".join(f"{label} {score:.0%}" for label, score in best)
            texts.append(text if len(self.probabilities) == 1 else f"{output}: {text}")
        values = ", ".join(self.value_texts())
        return person + "; ".join([*texts, values] if values else texts)

    def row(self, k: int | None = None) -> dict[str, Any]:
        """The prediction as all outputs write it.

        ``video``; ``start`` and ``end`` in seconds, 3 digits, None for a whole video; where there
        is one, the ``track``, the box as ``x1``, ``y1``, ``x2``, ``y2``, shares of width and
        height, ``ahead`` in seconds, ``shot``, and whether the window is ``static``. Then ``label``
        and ``score``, of several outputs such as ``verb`` and ``verb_score``; ``labels`` that hold
        at once, joined by ``;``; values by name; and ``doubt``. What is no number is None.

        Args:
            k: Number of classes of ``top``, for formats that nest: a list of ``label`` and
                ``score``, of several outputs such as ``verb_top``. Default: there is none.
        """
        place = self.source, self.seconds, self.track, self.box
        cells = place_cells(*place, self.ahead, self.shot, self.static)
        return cells | self.task.cells(self, k)
