"""Projects of BORIS (.boris, .boris.gz): states and points that a person coded.

An observation has files, one after the other in a player, and events: time, subject, behavior,
modifiers, comment. A state alternates between start and stop, of each subject and its modifiers.
Times count from the begin of the first file of player 1, and include the offset of the observation.
Checked with BORIS 73bdf077, tests/files/test.boris and its exports.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mmvidformer.data.importers.export import Export, reading

Rows = Iterator[tuple[dict[str, str], str]]
MILLISECONDS = 1000  # to which BORIS rounds lengths down
PLAYER = "1"  # whose clock the events have


class MediaFiles(NamedTuple):
    """Files that were watched one after the other: names, and seconds at which each begins."""

    names: Sequence[str]
    begins: Sequence[float]

    @classmethod
    def in_a_row(cls, names: Sequence[str], lengths: Sequence[float]) -> "MediaFiles":
        """Let each file begin where the one before it ends."""
        begins = [0.0]
        for length in lengths[: len(names) - 1]:
            length = math.floor(round(float(length) * MILLISECONDS, 3)) / MILLISECONDS
            begins.append(begins[-1] + length)
        return cls(names, begins)

    def parts(self, start: float, end: float) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield file and times in it of a segment or a moment, which may go on in the next file."""
        ends = [*self.begins[1:], math.inf]
        for name, begin, file_end in zip(self.names, self.begins, ends, strict=True):
            if start == end and begin <= start < file_end:
                yield name, {"time": say(start - begin)}
            elif max(start, begin) < min(end, file_end):
                times = (max(start, begin) - begin, min(end, file_end) - begin)
                yield name, dict(zip(("start", "end"), map(say, times), strict=True))


def recognize(export: Export) -> bool:
    """Whether it has observations and an ethogram."""
    return isinstance(export.json, dict) and {"observations", "behaviors_conf"} <= {*export.json}


def read(export: Export) -> Rows:
    """Yield the states and points of the files of player 1."""
    with reading(f"{export.path}, ethogram"):
        points = {
            behavior["code"]: str(behavior.get("type", "")).startswith("Point")
            for behavior in export.json["behaviors_conf"].values()
        }
    with reading(f"{export.path}, observations"):
        observations = [*export.json["observations"].items()]
    for name, observation in observations:
        place = f"{export.path}, observation {name!r}"
        with reading(place):
            rows = [*_read_observation(export, observation, points)]
        for row, seconds in rows:
            yield row, f"{place}, {seconds} s"


def _read_observation(
    export: Export, observation: Mapping[str, Any], points: Mapping[str, bool]
) -> Iterator[tuple[dict[str, str], float]]:
    """Yield rows, and the seconds at which BORIS lists them."""
    events = observation.get("events") or []
    files = _find_files(export, observation)
    if files is None:
        export.leave_out(f"{str(observation.get('type', '')).lower()} observation")
        return
    if not events:
        export.leave_out("observation without events")
    for event, end in _pair_events(export, events, points):
        rows = [*_read_event(observation, files, event, end)]
        if not rows:
            export.leave_out("event outside of the videos")
        yield from ((row, event[0]) for row in rows)


def _find_files(export: Export, observation: Mapping[str, Any]) -> MediaFiles | None:
    """Return the files of player 1; None if there are none, or of unknown lengths."""
    players = observation.get("file") or {}
    names = players.get(PLAYER) if isinstance(players, dict) else None
    if observation.get("type") != "MEDIA" or not names:
        return None
    if not all(isinstance(name, str) for name in names):
        raise TypeError("names of files must be text")
    others = [player for player in players if player != PLAYER and players[player]]
    if others:
        export.leave_out("video of other players", len(others))
    facts = observation.get("media_info") or {}
    if observation.get("media_creation_date_as_offset"):
        begins = facts["media_creation_time"]
        return MediaFiles(names, [float(begins[name]) for name in names])
    known = facts.get("length") or {}
    lengths = [known.get(name) or export.duration(name) for name in names[:-1]]
    return None if None in lengths else MediaFiles.in_a_row(names, lengths)


def _pair_events(
    export: Export, events: Sequence[Sequence], points: Mapping[str, bool]
) -> Iterator[tuple[Sequence, float]]:
    """Yield each event with its end; a state's is the next event of the same kind."""
    begun: dict[tuple, Sequence] = {}
    for event in sorted(events, key=lambda event: float(event[0])):
        state = tuple(event[1:4])
        if event[2] not in points:
            export.leave_out("event of a behavior that is not in the ethogram")
        elif points[event[2]]:
            yield event, float(event[0])
        elif state in begun:
            yield begun.pop(state), float(event[0])
        else:
            begun[state] = event
    if begun:
        export.leave_out("state without an end", len(begun))


def _read_event(
    observation: Mapping[str, Any], files: MediaFiles, event: Sequence, end: float
) -> Iterator[dict[str, str]]:
    """Yield a row for each file that the event is in."""
    offset = float(observation.get("time offset") or 0)
    _, subject, code, modifiers, comment, *_ = map(str, event)
    facts = {"label": code, "subject": subject, "modifiers": modifiers, "comment": comment}
    for name, times in files.parts(float(event[0]) - offset, end - offset):
        yield {"video": name, **times, **facts}


def say(seconds: float) -> str:
    """Return seconds as text, to the millisecond."""
    return str(round(seconds, 3))
