"""Which models can compute still tubelets once (``run_lengths``), and what that is for them."""

from typing import Any, NamedTuple

from mmvidformer.errors import UserError
from mmvidformer.layers.abilities import Conflict


class Rule(NamedTuple):
    """What run lengths are for a model.

    Attributes:
        conflicts: Parts that cannot do with them.
        inexact: Parts for which a token that stands for several is not the same as these.
    """

    conflicts: tuple[Conflict, ...]
    inexact: tuple[str, ...]

    def __str__(self) -> str:
        if self.conflicts:
            return f"impossible: {self.conflicts[0]}"
        if self.inexact:
            return f"approximation: {self.inexact[0]}"
        return "exact for the clip whose still parts are frozen"


def rule_of(backbone: Any) -> Rule:
    """Return what run lengths are for a ``VideoTransformer``."""
    ruled_out = {"places", "tokens", "counts"}
    conflicts = [row for row in backbone.conflicts if row.rules_out in ruled_out]
    inexact: list[str] = []
    for encoder in backbone.encoders:
        if any("t" in table for table in encoder.pos_embed.tables):
            inexact.append("positions in time are those of the first tubelet of a run")
        if encoder.rope is not None and "t" in encoder.rope.axes:
            inexact.append("rotary positions in time are those of the first tubelet of a run")
    return Rule(tuple(conflicts), tuple(inexact))


def check_runs(backbone: Any, tolerance: float) -> None:
    """Raise a UserError if a ``VideoTransformer`` cannot have run lengths."""
    if not tolerance >= 0:
        raise UserError(f"the tolerance of still tubelets must be at least 0, got {tolerance}")
    if conflicts := rule_of(backbone).conflicts:
        raise UserError(
            f"{type(backbone).__name__} cannot compute still tubelets once: {conflicts[0]}; use "
            "joint attention, such as scheme 'spacetime' of ViViT"
        )
