"""How the answers of a faster model differ from the exact ones."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from mmvidformer.errors import UserError

MOST_CHANGED = 0.1  # share of the answers

Scores = Mapping[str, Tensor]  # (..., classes) or values, by output of the head


class TooInexact(UserError, RuntimeError):
    """A faster model changes too many answers."""


def largest_difference(expected: Tensor, found: Tensor) -> float:
    """Return that of two tensors of a shape, infinite if one alone is no number somewhere."""
    expected, found = expected.float(), found.float()
    equal = (expected == found) | (expected.isnan() & found.isnan())
    differences = (found - expected).abs().nan_to_num(nan=math.inf, posinf=math.inf)
    return differences.masked_fill(equal, 0).max().item()


@dataclass
class Change:
    """How answers differ from the exact ones.

    Attributes:
        answers: Number of answers, each the most likely class of an output.
        changed: Number of those that changed.
        difference: Largest difference of a score.
    """

    answers: int = 0
    changed: int = 0
    difference: float = 0.0

    def add(self, expected: Scores, found: Scores, has_classes: bool = True) -> None:
        """Compare the scores of a sample. Those of another shape, as of other boxes, changed."""
        for name, exact in expected.items():
            scores = found[name]
            if scores.shape != exact.shape:
                self.answers += has_classes
                self.changed += has_classes
                continue
            if exact.numel():
                self.difference = max(self.difference, largest_difference(exact, scores))
            if has_classes and exact.dim():
                changed = scores.argmax(dim=-1) != exact.argmax(dim=-1)
                changed |= scores.isnan().any(dim=-1) != exact.isnan().any(dim=-1)
                self.answers += changed.numel()
                self.changed += int(changed.sum())

    def __str__(self) -> str:
        if not self.answers:
            return f"largest difference of a number {self.difference:.2g}"
        answers = f"{self.changed} of {self.answers} answers changed"
        return f"{answers}, largest difference of a score {self.difference:.2g}"

    def check(self, what: str) -> None:
        """Raise ``TooInexact`` if more than a tenth of the answers changed.

        Args:
            what: What makes the model faster, for the message.
        """
        if self.changed > MOST_CHANGED * self.answers:
            raise TooInexact(f"{what}: {self}, more than {MOST_CHANGED:.0%}; leave it out")
