"""What a task says about its predictions: how they are made, written and drawn."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from mmvidformer.errors import UserError
from mmvidformer.tasks.prediction import Names, Prediction
from mmvidformer.tasks.rows import class_cells

if TYPE_CHECKING:
    from torch import Tensor

WINDOW_OPTIONS = ("window", "stride")
SURE = 2.0  # a class is named alone if it is at least so many times as likely as the next one


class Answers:
    """The answers of a task. The defaults are those of one class a video.

    Attributes:
        part: What the parts of a long video are: ``'windows'``, ``'steps'``, ``'segments'`` or
            ``'boxes'``.
        options: Names of the options of ``Recognizer.timeline`` and ``stream`` that it takes.
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
    options: tuple[str, ...] = (*WINDOW_OPTIONS, "cuts")
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

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raise a ``UserError`` if one of the options that are given is none of the task's."""
        for name, value in options.items():
            if name not in self.options:
                raise UserError(f"models of {self.part} take no {name}, got {value}")

    def is_whole(self, options: Mapping[str, Any]) -> bool:
        """Whether a video has one answer with these options, and not one for each part."""
        return self.has_windows and not asks_windows(options)

    def parts(
        self, reader: Any, video: Any, fps: float | None, options: Mapping[str, Any]
    ) -> Iterator[tuple]:
        """Answer for the parts of a video.

        Args:
            reader: What reads and answers them: a ``PartReader`` of ``apis``.
            video: Path or frames.
            fps: Frames per second of frames.
            options: Those of ``Recognizer.timeline`` that are given.

        Yields:
            ``(output, where)`` for each part: what the head returns of it, as ``answers`` takes it,
            and attributes of its predictions: ``seconds``, which is start and end, and perhaps
            ``static``. Outputs that have their own times, such as segments, need none.
        """
        return reader.windows_of(video, fps, options)

    def stream_parts(
        self, reader: Any, frames: Iterable, fps: float, options: Mapping[str, Any]
    ) -> Iterator[tuple]:
        """Answer for the parts of a stream; see ``parts``, and ``Recognizer.stream``."""
        return reader.windows_of_stream(frames, fps, options)

    def frames_late(self, reader: Any, fps: float, options: Mapping[str, Any]) -> int:
        """Return how many frames after a frame of a stream what is drawn on it is known."""
        return 1

    def frame_scores(self, head: Any, output: Any, steps_ahead: Sequence[int]) -> dict[str, Tensor]:
        """Map what a recurrent model returns for a frame to logits (times, classes) by output."""
        return {"class": head(output).flatten()[None]}

    def answer_frame(
        self, scores: Mapping[str, Tensor], names: Names, start: float, end: float, **where: Any
    ) -> Prediction:
        """Make a prediction of what a recurrent model returns for a frame.

        Args:
            scores: Logits (classes,) by output.
            names: Names of the classes.
            start: Seconds of the first frame that the model remembers.
            end: Seconds of the frame.
            **where: Further attributes of the prediction.
        """
        so_far = self.is_about_past
        seconds = (start if so_far else end, end)
        return self.predict(scores, names, seconds=seconds, so_far=so_far, **where)

    def example(self, names: Names, **where: Any) -> Prediction:
        """Return a prediction with all the attributes that others have, for columns of tables."""
        zeros = {name: np.zeros(len(classes), np.float32) for name, classes in names.items()}
        where = dict(source="", seconds=(0.0, 0.0), task=self) | where
        return Prediction(zeros, zeros if self.activation else {}, names, **where)

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

    def headline(self, summary: Mapping[str, float] | str) -> str:
        """Return a ``summary`` in a line: a class, or those of which none stands out."""
        if isinstance(summary, str):
            return summary
        ranked = sorted(summary.items(), key=lambda pair: -pair[1])
        most = ranked[0][1]
        likely = [f"{name} {share:.0%}" for name, share in ranked if SURE * share > most]
        is_unsure = self.has_one_class and len(likely) > 1
        return f"unsure: {' or '.join(likely)}" if is_unsure else likely[0]

    def none_found(self, options: Mapping[str, Any]) -> str:
        """Say that a video has no part."""
        return f"no {self.part}"

    def heading(self, prediction: Prediction) -> str:
        """Say what a prediction is about, above its classes in a picture."""
        if prediction.so_far:
            return "so far"
        if prediction.seconds is None:
            return "whole video"
        start, end = prediction.seconds
        return "now" if start == end else f"{start:.1f} to {end:.1f} s"

    @property
    def drawing(self) -> str:
        """How a timeline is drawn: ``'bars'``, ``'curves'``, ``'shaded curves'``; ``''``: not."""
        if self.finds_parts:
            return "bars"
        return "shaded curves" if self.has_one_class else "curves"


def asks_windows(options: Mapping[str, Any]) -> bool:
    """Whether options that are given ask for windows."""
    return any(name in options for name in WINDOW_OPTIONS)
