"""What parts of videos are answered: options of the demo and of labels."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from mmvidformer.engine.annotation_options import ReadingOptions
from mmvidformer.engine.arguments import positive_number
from mmvidformer.engine.options import Options, flag, option, part
from mmvidformer.errors import UserError
from mmvidformer.video.choices import WAYS

Need = tuple[bool, str]  # whether what an option needs is there, and what that is


@dataclass(frozen=True)
class PartOptions(Options):
    """What is asked of a model; None is what the model does by itself."""

    title: ClassVar = "answers"
    window: float | None = option(
        "seconds of a window (default: whole videos; 2 where windows are needed)",
        type=positive_number,
        metavar="SECONDS",
    )
    stride: float | None = option(
        "seconds between windows (default: half)", type=positive_number, metavar="SECONDS"
    )
    cuts: str | None = option(
        "how cuts are found, which no window crosses: by the content of successive frames "
        "(default), or not at all",
        choices=WAYS,
    )
    min_score: float | None = option(
        "of models of segments: the least score of those that are kept, 0 to 1 (default: 0.3)",
        type=float,
        metavar="SCORE",
    )
    boxes: Path | None = option(
        "of models of boxes: csv in AVA's format, or an export of a tool, whose tracks are kept "
        "(default: those of persons who are detected)",
        type=Path,
        metavar="FILE",
    )
    reading: ReadingOptions = part(ReadingOptions)
    rate: float | None = option(
        "of persons that are detected: how often a second (default: 1, with --track 5)",
        type=positive_number,
        metavar="N",
    )
    track: bool = flag(
        "of models of boxes: number the persons, the same person alike (needs trackers)"
    )

    def asked(self, boxes: Any = None) -> dict[str, Any]:
        """Return the options of ``Recognizer.timeline`` that are given.

        Args:
            boxes: What stands for the file of boxes: those of a video.
        """
        names = ("window", "stride", "cuts", "min_score", "rate", "track")
        options = {name: getattr(self, name, None) for name in names} | dict(boxes=boxes)
        return {
            name: value
            for name, value in options.items()
            if value is not None and value is not False
        }


def check_needs(options: Mapping[str, Any], needs: Mapping[str, Need]) -> None:
    """Raise a ``UserError`` if an option is given without what it needs."""
    for name, (is_there, needed) in needs.items():
        value = options[name]
        if value not in (None, False) and not is_there:
            shown = "" if value is True else f", got {value}"
            raise UserError(f"--{name.replace('_', '-')} needs {needed}{shown}")
