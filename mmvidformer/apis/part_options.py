"""What parts of videos are answered: options of the demo and of labels."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmvidformer.apis.persons import PERSONS, choose_rate
from mmvidformer.apis.recognizer import Recognizer
from mmvidformer.data.sources import VideoSource
from mmvidformer.engine.arguments import positive_number
from mmvidformer.engine.options import option
from mmvidformer.errors import UserError
from mmvidformer.tasks.prediction import Prediction
from mmvidformer.tasks.stated_boxes import StatedBoxes, VideoBoxes
from mmvidformer.video.cuts import WAYS

Need = tuple[bool, str]  # whether what an option needs is there, and what that is


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
        "(default), or not at all",
        choices=WAYS,
    )
    min_score: float | None = option(
        "of models of segments: the least score of those that are kept, 0 to 1 (default: 0.3)",
        type=float,
        metavar="SCORE",
    )
    boxes: Path | None = option(
        "of models of boxes: csv in AVA's format, or an export of a tool, whose tracks are kept; "
        "or the word persons, to detect them (default)",
        type=Path,
        metavar="FILE",
    )
    rate: float | None = option(
        "of persons that are detected: how often a second (default: 1, with --track 5)",
        type=positive_number,
        metavar="N",
    )
    track: bool = option(
        "of models of boxes: number the persons, the same person alike (needs trackers)",
        False,
        action="store_true",
    )

    @property
    def box_file(self) -> Path | None:
        """The file of boxes; None: persons are detected."""
        return None if str(self.boxes) == PERSONS else self.boxes

    def check(self, recognizer: Recognizer) -> None:
        """Raise a ``UserError`` if the model has no use for an option."""
        task = recognizer.task
        if not task.needs_boxes:
            recognizer.check_windows(dict(window=self.window, stride=self.stride))
        recognizer.least_score(self.min_score)
        of_boxes = task.needs_boxes, f"a model of boxes, not of {task.part}"
        without = not task.needs_boxes, "a model without boxes"
        finds_persons = task.needs_boxes and self.box_file is None
        needs = dict(boxes=of_boxes, track=of_boxes, window=without, stride=without)
        needs["rate"] = finds_persons, "a model of boxes that detects persons"
        check_needs(vars(self), needs)
        if finds_persons:
            choose_rate(self.rate, self.track)

    def read_boxes(self, videos: Sequence[str]) -> VideoBoxes | None:
        """Read the boxes of videos; None: persons are detected."""
        return VideoBoxes(self.box_file, videos) if self.box_file else None

    def answer_boxes(
        self, recognizer: Recognizer, video: VideoSource, stated: Sequence[StatedBoxes] | None
    ) -> Iterator[Prediction]:
        """Answer for the boxes of a video, or for persons that are detected."""
        return recognizer.persons(video, self.rate, self.track, self.cuts, stated)


def check_needs(options: Mapping[str, Any], needs: Mapping[str, Need]) -> None:
    """Raise a ``UserError`` if an option is given without what it needs."""
    for name, (is_there, needed) in needs.items():
        value = options[name]
        if value not in (None, False) and not is_there:
            shown = "" if value is True else f", got {value}"
            raise UserError(f"--{name.replace('_', '-')} needs {needed}{shown}")
