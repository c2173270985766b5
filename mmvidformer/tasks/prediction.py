"""Predictions: what a model says of a video, or of a part of it.

Words for stretches of a video:

- frame: a picture. The task ``frames`` tells the class of each, which is that of its step.
- step: the frames that one token of the backbone stands for. A head of steps answers for each.
- window: the frames that the model sees at once, as if they were a whole video.
- span: what annotations state, start and end in seconds, and a class.
- segment: what a model of ``segments`` finds, start and end in seconds, a class and its score.
- part: what one answer for a long video is about: a window, a step, a segment or boxes, by task
  (``Answers.part``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mmvidformer.errors import UserError
from mmvidformer.tasks.rows import place_cells

Names = Mapping[str, Sequence[str]]  # of classes or values, by output of the head


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
        so_far: Whether it is about what happens at the end of the part, as a recurrent model, which
            saw all of it, tells.
        measured: Numbers beside the classes, by name, such as how fast a camera pans.
        labels: Classes that hold at once, where a task tells them.
        doubt: Why the classes say nothing, such as ``'too short'``; else empty.
        task: The task that it answers and that spells it: ``Answers``, which make predictions.
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
    so_far: bool = False
    measured: Mapping[str, float] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    doubt: str = ""
    task: Any = field(kw_only=True)

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
        height, ``ahead`` in seconds, and ``shot``. Then ``label`` and ``score``, of several outputs
        such as ``verb`` and ``verb_score``; ``labels`` that hold at once, joined by ``;``; values
        by name; and ``doubt``. What is no number is None.

        Args:
            k: Number of classes of ``top``, for formats that nest: a list of ``label`` and
                ``score``, of several outputs such as ``verb_top``. Default: there is none.
        """
        place = self.source, self.seconds, self.track, self.box
        cells = place_cells(*place, self.ahead, self.shot)
        return cells | self.task.cells(self, k)
