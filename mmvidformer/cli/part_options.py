"""What parts of videos are answered: options of the demo and of labels."""

from dataclasses import dataclass
from pathlib import Path

from mmvidformer.engine.arguments import CUTS, cuts_finder, positive_number
from mmvidformer.engine.options import option


@dataclass(frozen=True)
class PartOptions:
    """What is asked of a model; None is what the model does by itself."""

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
        "(default), by PySceneDetect, or not at all",
        type=cuts_finder,
        metavar=CUTS,
    )
    min_score: float | None = option(
        "of models of segments: the least score of those that are kept, 0 to 1 (default: 0.3)",
        type=float,
        metavar="SCORE",
    )
    boxes: Path | None = option(
        "of models that need boxes: csv in AVA's format, or the word persons, to detect them",
        type=Path,
        metavar="FILE",
    )
    rate: float | None = option(
        "of persons that are detected: how often a second (default: 1, with --track 5)",
        type=positive_number,
        metavar="N",
    )
    track: bool = option(
        "of persons that are detected: number them, the same person alike (needs trackers)",
        False,
        action="store_true",
    )
