"""Who is who: boxes of a person at successive moments have one number."""

from collections.abc import Sequence
from importlib.util import find_spec
from itertools import count

import numpy as np

from mmvidformer.apis.detector import Person
from mmvidformer.data.folders import NamedVideos
from mmvidformer.engine.part_options import PartOptions
from mmvidformer.errors import MissingPackage
from mmvidformer.tasks.answers import Answers
from mmvidformer.tasks.stated_boxes import VideoBoxes

LOST = 1.0  # seconds after which a person who was not seen is another one
FRAME_RATE = 30  # of the frames in which the package counts that time


def has_package() -> bool:
    """Whether the package is installed."""
    return find_spec("trackers") is not None


def read_boxes(options: PartOptions, videos: Sequence[str]) -> VideoBoxes | None:
    """Read the file of boxes of videos, by their paths; None: persons are detected."""
    if not options.boxes:
        return None
    named = NamedVideos(videos=videos)
    return VideoBoxes(options.reading.open(options.boxes, named), named)


def check_asked(options: PartOptions, task: Answers) -> None:
    """Raise a ``UserError`` if a model has no use for an option, or a package is missing."""
    task.check_options(options.asked(options.boxes))
    if options.track:
        check_package()


def check_package() -> None:
    """Raise a ``MissingPackage`` if the package is missing."""
    if not has_package():
        raise MissingPackage('following persons needs a package: pip install "trackers>=2.6"')


class PersonTracks:
    """Numbers persons by place and motion, by the package ``trackers``.

    It is C-BIoU (Yang et al. 2023): boxes belong together if they overlap once they are enlarged,
    as those of few moments a second hardly overlap. A person has a number from the second moment
    on; who is seen once is left out, but at the first moment of a shot. Who is away for more than
    a second, or comes back after a cut, gets a new number: nobody looks at faces or clothes.

    Args:
        rate: Moments a second.

    Raises:
        MissingPackage: If the package is missing.
    """

    def __init__(self, rate: float) -> None:
        check_package()
        self._rate, self._next = rate, count(1)
        self.begin_shot()

    def begin_shot(self) -> None:
        """Forget all persons; their numbers are not given again."""
        from trackers import CBIoUTracker

        frames = round(LOST * FRAME_RATE)
        self._tracker = CBIoUTracker(lost_track_buffer=frames, frame_rate=self._rate)
        self._numbers: dict[int, int] = {}  # by those of the tracker

    def follow(
        self, persons: Sequence[Person], seconds: float, size: Sequence[int]
    ) -> list[Person]:
        """Return the persons of the next moment that have a number, by their numbers.

        Args:
            persons: All that the detector found, also those that it is not sure of.
            seconds: The time.
            size: Height and width of the frame in pixels.
        """
        from supervision import Detections

        detections = Detections.empty()
        if persons:
            pixels = np.array([person.box for person in persons]) * np.tile(size[1::-1], 2)
            scores = np.array([person.score for person in persons])
            places = {"place": np.arange(len(persons))}
            detections = Detections(pixels, confidence=scores, data=places)
        detections = self._tracker.update(detections, timestamp=seconds)
        places = detections.data.get("place", ())
        followed = []
        for place, number in zip(places, detections.tracker_id, strict=True):
            if number >= 0:
                if number not in self._numbers:
                    self._numbers[number] = next(self._next)
                followed.append(persons[place]._replace(track=self._numbers[number]))
        return sorted(followed, key=lambda person: person.track)
