"""A problem and how it is told."""

from collections.abc import Sequence
from dataclasses import dataclass

KINDS = (
    "columns",
    "labels",
    "duplicates",
    "missing_files",
    "outside",
    "clip_len",
    "crop_size",
    "checkpoint",
    "dataset",
)


@dataclass(frozen=True)
class Problem:
    """Something that is wrong.

    Args:
        kind: One of ``KINDS``.
        where: File and line, or setting of the config.
        what: What is wrong there.
        remedy: What to do about it.
    """

    kind: str
    where: str
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}. {self.remedy} [{self.kind}]"


class WrongSetup(ValueError):
    """A run that should not begin.

    Args:
        problems: What is wrong.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = list(problems)
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        lines = "\n".join(f"- {problem}" for problem in self.problems)
        super().__init__(
            f"{count}; nothing was started or written\n{lines}\nTo pass over a kind that you mean "
            "as it is: --cfg-options preflight.skip=[KIND]"
        )
