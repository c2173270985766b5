"""Persons keep their numbers from moment to moment."""

from collections import Counter

import numpy as np
import pytest

from mmvidformer.apis import tracks
from mmvidformer.apis.detector import Person
from mmvidformer.apis.tracks import PersonTracks
from mmvidformer.errors import MissingPackage

SIZE = (360, 640)  # of frames
WIDE, TALL = 0.05, 0.2  # of a person


@pytest.fixture(autouse=True)
def needs_package() -> None:
    pytest.importorskip("trackers", reason="needs trackers")


def person(x: float, y: float = 0.4, score: float = 0.9) -> Person:
    return Person((x, y, x + WIDE, y + TALL), score)


def numbers(found: list[Person]) -> dict[float, int | None]:
    """Numbers by the left of the boxes."""
    return {one.box[0]: one.track for one in found}


def test_who_meets_and_passes_keeps_the_number() -> None:
    """Two walk towards each other, at one distance to the camera and at another."""
    people = PersonTracks(rate=5)
    for number in range(20):
        left, right = 0.1 + 0.03 * number, 0.8 - 0.03 * number
        found = people.follow([person(right), person(left, 0.3)], number / 5, SIZE)
        assert numbers(found) == {right: 1, left: 2}
        assert [one.track for one in found] == [1, 2]


@pytest.mark.parametrize(("away", "is_same"), [(0.6, True), (3.0, False)])
def test_who_comes_back_late_has_a_new_number(away: float, is_same: bool) -> None:
    people = PersonTracks(rate=5)
    for number in range(5):
        (before,) = people.follow([person(0.3)], number / 5, SIZE)
    for number in range(5, 5 + round(5 * away)):
        assert people.follow([], number / 5, SIZE) == []
    after = [people.follow([person(0.3)], number / 5 + away, SIZE) for number in (5, 6)]
    assert before.track == 1
    assert [one.track for found in after for one in found] == ([1, 1] if is_same else [2])


def test_a_cut_ends_all_tracks_and_another_video_begins_at_1() -> None:
    people = PersonTracks(rate=5)
    seen = []
    for number in range(6):
        if number == 3:
            people.begin_shot()
        seen.append([one.track for one in people.follow([person(0.3)], number / 5, SIZE)])
    assert seen == [[1], [1], [1], [2], [2], [2]]
    (first,) = PersonTracks(rate=5).follow([person(0.3)], 0, SIZE)
    assert first.track == 1


def test_who_enters_is_followed_from_the_second_moment() -> None:
    """What is seen once may be no person."""
    people = PersonTracks(rate=5)
    found = []
    for number in range(6):
        there = [person(0.3)] + [person(0.6)] * (number in (2, 4, 5))
        found.append(people.follow(there, number / 5, SIZE))
    assert [len(one) for one in found] == [1, 1, 1, 1, 1, 2]


def test_who_is_hidden_is_followed_with_a_low_score() -> None:
    people = PersonTracks(rate=5)
    scores = [0.9, 0.9, 0.3, 0.3, 0.9]
    found = [people.follow([person(0.3, score=score), person(0.7, score=0.3)], number / 5, SIZE)
             for number, score in enumerate(scores)]  # fmt: skip
    assert [numbers(one) for one in found] == [{0.3: 1}] * 5


def test_a_hundred_persons() -> None:
    """They stand in rows, and each walks its own way; steps are up to a third of a box."""
    random = np.random.default_rng(0)
    places = np.stack(np.meshgrid(np.arange(10) / 11, np.arange(10) / 11), -1).reshape(-1, 2)
    steps = random.uniform(-0.004, 0.004, (100, 2))
    people, of_place = PersonTracks(rate=5), Counter[tuple[int, int | None]]()
    for number in range(12):
        now = [Person((x, y, x + 0.02, y + 0.06), 0.9) for x, y in places + steps * number]
        found = people.follow(now, number / 5, SIZE)
        of_place.update((now.index(one._replace(track=None)), one.track) for one in found)
    assert len(of_place) == 100 and set(of_place.values()) == {12}
    assert {track for _, track in of_place} == set(range(1, 101))


def test_times_may_be_irregular() -> None:
    people = PersonTracks(rate=5)
    for seconds in (0, 0.2, 0.33, 0.8, 0.85, 1.4, 1.6):
        (found,) = people.follow([person(0.2 + 0.1 * seconds)], seconds, SIZE)
        assert found.track == 1


def test_a_missing_package_is_named(monkeypatch) -> None:
    monkeypatch.setattr(tracks, "find_spec", lambda name: None)
    with pytest.raises(MissingPackage, match=r'needs a package: pip install "trackers>=2\.6"'):
        PersonTracks(rate=5)
