"""Persons at moments of a video, so many times a second."""

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from mmvidformer.apis.detector import Person
from mmvidformer.apis.shots import list_shots, stream_shots
from mmvidformer.apis.tracks import PersonTracks, check_package
from mmvidformer.apis.windows import times_of
from mmvidformer.errors import UserError
from mmvidformer.tasks.stated_boxes import StatedBoxes
from mmvidformer.video.choices import NONE
from mmvidformer.video.errors import path_of
from mmvidformer.video.facts import require_second
from mmvidformer.video.times import FrameTimes

Detector = Callable[[np.ndarray, float], list[Person]]  # of an RGB frame, and the least score

RATE, TRACK_RATE = 1.0, 5.0  # times a second, alone and if persons are followed
# Least scores of the detector. Followed persons may be less sure: hidden ones, as ByteTrack says.
MIN_SCORE, MIN_TRACK_SCORE = 0.8, 0.1


class Moment(NamedTuple):
    """Persons at a time of a video.

    Attributes:
        seconds: The time.
        persons: Who is there.
        shot: First and last frame of the shot; None: shots do not matter.
    """

    seconds: float
    persons: list[Person]
    shot: tuple[int, int] | None = None


def find_persons(
    opened: dict[str, Any],
    detector: Detector,
    rate: float | None = None,
    track: bool = False,
    cuts: str | None = None,
) -> Iterator[Moment]:
    """Find persons at regular times of a video; moments without any are left out.

    Args:
        opened: A result of ``VideoPipeline.open`` for a file.
        detector: What finds them in a frame.
        rate: Times a second, at most those of the frames; default: 1, of followed persons 5.
        track: Whether to follow them from moment to moment (``PersonTracks``), within shots.
        cuts: How cuts are found, of followed persons (``list_shots``).

    Raises:
        UserError: As ``times_of``; or if ``rate`` is not positive.
    """
    rate = choose_rate(rate, track)
    times, video, total = times_of(opened), opened["video_reader"], opened["total_frames"]
    tracks = PersonTracks(rate) if track else None
    starts = list_shots(opened, cuts) if track else [0]
    min_score = MIN_TRACK_SCORE if track else MIN_SCORE
    last_frame, last_shot = -1, 0
    for number in range(math.ceil(times.seconds(total) * rate)):
        seconds = number / rate
        frame = min(int(times.at(seconds)), total - 1)
        if frame == last_frame:
            continue
        (picture,) = video.get_batch([frame]).asnumpy()
        persons = detector(picture, min_score)
        shot = bisect_right(starts, frame) - 1
        if tracks is not None:
            if shot != last_shot:
                tracks.begin_shot()
            persons = tracks.follow(persons, seconds, picture.shape)
        last_frame, last_shot = frame, shot
        if persons:
            ends = [*starts[1:], total]
            yield Moment(seconds, persons, (starts[shot], ends[shot] - 1) if track else None)


def stated_persons(
    opened: dict[str, Any],
    moments: Sequence[StatedBoxes],
    track: bool = False,
    cuts: str | None = None,
) -> Iterator[Moment]:
    """Yield the persons whose boxes are stated, and number them if that is asked for.

    Args:
        opened: As of ``find_persons``.
        moments: The boxes, in the order of time.
        track: Whether to follow them, if the moments state no tracks.
        cuts: As of ``find_persons``.

    Raises:
        BadVideo: If the last moment is after the end of the video.
        MissingPackage: If they are to be followed, and the package for it is not installed.
    """
    times, total = times_of(opened), opened["total_frames"]
    if moments:
        end = float(times.span(0, total - 1)[1])
        require_second(path_of(opened), moments[-1].seconds, end, "its last box")
    if not track or any(number is not None for _, _, tracks in moments for number in tracks):
        for seconds, boxes, numbers in moments:
            pairs = zip(boxes, numbers, strict=True)
            yield Moment(seconds, [Person(box, track=number) for box, number in pairs])
        return
    apart = np.diff([moment.seconds for moment in moments])
    tracks = PersonTracks(1 / float(np.median(apart)) if len(apart) else TRACK_RATE)
    starts = list_shots(opened, cuts)
    ends, last_shot = [*starts[1:], total], 0
    (picture,) = opened["video_reader"].get_batch([0]).asnumpy()
    for seconds, boxes, _ in moments:
        shot = bisect_right(starts, min(int(times.at(seconds)), total - 1)) - 1
        if shot != last_shot:
            tracks.begin_shot()
        last_shot = shot
        persons = tracks.follow([Person(box) for box in boxes], seconds, picture.shape)
        yield Moment(seconds, persons, (starts[shot], ends[shot] - 1))


class StreamPersons:
    """Finds persons at regular times of a stream, and gives each moment when its clip is there.

    Args:
        detector: What finds them in a frame.
        fps: Frames per second.
        rate: See ``find_persons``.
        track: See ``find_persons``.
        around: Frames before and after a moment that belong to its clip.
    """

    def __init__(
        self, detector: Detector, fps: float, rate: float | None, track: bool, around: int
    ) -> None:
        self.rate = choose_rate(rate, track)
        self.tracks = PersonTracks(self.rate) if track else None
        self.detector, self.times, self.around = detector, FrameTimes(fps), around
        self.min_score = MIN_TRACK_SCORE if track else MIN_SCORE

    def find(
        self, frames: Iterable[np.ndarray], cuts: str | None = None
    ) -> Iterator[tuple[Moment, list[np.ndarray], int]]:
        """Take frames without a gap; those that were before are another shot.

        Yields:
            The moment, the frames around it, and the place of its frame among them.
        """
        number = 0  # of the next moment
        for first, shot in stream_shots(frames, cuts if self.tracks else NONE):
            if self.tracks is not None:
                self.tracks.begin_shot()
            kept: deque[np.ndarray] = deque(maxlen=2 * self.around + 1)
            waiting: deque[tuple[int, Moment]] = deque()
            last = first
            for last, picture in enumerate(shot, first):
                kept.append(picture)
                seconds = number / self.rate
                if self.times.at(seconds) <= last:
                    while self.times.at(number / self.rate) <= last:
                        number += 1
                    persons = self._look(picture, seconds)
                    waiting += [(last, Moment(seconds, persons))] * bool(persons)
                if waiting and waiting[0][0] + self.around <= last:
                    yield self._cut_out(*waiting.popleft(), kept, last)
            for place, moment in waiting:
                yield self._cut_out(place, moment, kept, last)

    def _look(self, picture: np.ndarray, seconds: float) -> list[Person]:
        persons = self.detector(picture, self.min_score)
        if self.tracks is not None:
            persons = self.tracks.follow(persons, seconds, picture.shape)
        return persons

    def _cut_out(
        self, place: int, moment: Moment, kept: Sequence[np.ndarray], last: int
    ) -> tuple[Moment, list[np.ndarray], int]:
        return moment, list(kept), place - (last - len(kept) + 1)


def choose_rate(rate: float | None, track: bool) -> float:
    """Return how many times a second persons are looked for.

    Raises:
        MissingPackage: If they are to be followed, and the package for it is not installed.
        UserError: If the rate is not positive.
    """
    if track:
        check_package()
    if rate is None:
        return TRACK_RATE if track else RATE
    if not 0 < rate < math.inf:
        raise UserError(f"rate must be positive, got {rate:g} times a second")
    return rate
