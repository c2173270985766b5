"""Persons at moments of a video, so many times a second."""

import math
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, NamedTuple

from mmvidformer.apis.detector import Person, PersonDetector
from mmvidformer.apis.shots import list_shots
from mmvidformer.apis.tracks import PersonTracks, check_package
from mmvidformer.apis.windows import times_of
from mmvidformer.errors import UserError

PERSONS = "persons"  # instead of a file of boxes
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
    detector: PersonDetector,
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


def choose_rate(rate: float | None, track: bool) -> float:
    """Return how many times a second persons are looked for.

    Raises:
        TracksError: If they are to be followed, and the package for it is not installed.
        UserError: If the rate is not positive.
    """
    if track:
        check_package()
    if rate is None:
        return TRACK_RATE if track else RATE
    if not 0 < rate < math.inf:
        raise UserError(f"rate must be positive, got {rate:g} times a second")
    return rate
