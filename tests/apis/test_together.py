"""Threads whose results come in one loop, and whose requests to a model run in one batch."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from mmvidformer.apis.together import Batches, Send, Threads


def test_what_comes_while_a_batch_runs_is_the_next_batch() -> None:
    batches, is_waiting, go_on = [], Event(), Event()

    def run(requests: list[int]) -> list[int]:
        batches.append(sorted(requests))
        if requests == [0]:
            is_waiting.set()
            assert go_on.wait(60)
        return [10 * request for request in requests]

    with Batches(run) as ask, ThreadPoolExecutor(5) as pool:
        first = pool.submit(ask, [0])
        assert is_waiting.wait(60)
        others = [pool.submit(ask, [number]) for number in range(1, 4)]
        others.append(pool.submit(ask, [4, 5]))
        while ask._waiting.qsize() < 5:
            pass
        go_on.set()
        assert first.result() == [0]
        assert [other.result() for other in others] == [[10], [20], [30], [40, 50]]
    assert batches == [[0], [1, 2, 3, 4, 5]]


def test_the_first_waits_for_as_many_as_a_batch_takes() -> None:
    """And for no longer than the delay."""
    batches: list[list[int]] = []

    def run(requests: list[int]) -> list[int]:
        batches.append(sorted(requests))
        return requests

    with Batches(run, size=3, delay=300) as ask, ThreadPoolExecutor(6) as pool:
        assert sorted(sum(pool.map(ask, [[number] for number in range(6)]), [])) == [*range(6)]
    assert [len(batch) for batch in batches] == [3, 3]
    with Batches(run, size=3, delay=0.01) as ask:
        assert ask([7]) == [7]
    assert batches[-1] == [7]


def test_nobody_waits_for_more_than_may_ask() -> None:
    """Those who ask no more count no more, and nobody is asked to tell."""
    batches: list[list[int]] = []
    askers = [Event(), Event(), Event()]

    def run(requests: list[int]) -> list[int]:
        batches.append(sorted(requests))
        return requests

    with Batches(run, size=8, delay=300) as ask, ThreadPoolExecutor(3) as pool:
        for asker in askers:
            ask.askers.add(asker)
        assert sorted(sum(pool.map(ask, [[1], [2], [3]]), [])) == [1, 2, 3]
        del askers[0], asker
        assert sorted(sum(pool.map(ask, [[4], [5]]), [])) == [4, 5]
        askers.pop()
        assert ask([6]) == [6]
    assert batches == [[1, 2, 3], [4, 5], [6]]


def test_a_request_that_fails_is_no_error_of_others() -> None:
    def run(requests: list[int]) -> list[float]:
        return [6 / request for request in requests]

    with Batches(run) as ask:
        for batch in ([3, 0, 2], [0]):
            futures = [ask.submit(request) for request in batch]
            for request, future in zip(batch, futures, strict=True):
                if request:
                    assert future.result() == 6 / request
                else:
                    with pytest.raises(ZeroDivisionError):
                        future.result()


def numbers(first: int, count: int) -> Callable[[Send], None]:
    def send_numbers(send: Send) -> None:
        for number in range(first, first + count):
            send("number", number)

    return send_numbers


def test_each_thread_sends_in_its_order() -> None:
    with Threads([numbers(100 * place, 50) for place in range(4)]) as sent:
        found = [number for name, number in sent if name == "number"]
    for place in range(4):
        assert [x for x in found if x // 100 == place] == [*range(100 * place, 100 * place + 50)]


def test_an_error_comes_in_its_place_and_the_loop_may_go_on() -> None:
    def fail(send: Send) -> None:
        send("number", 7)
        raise OSError("broken")

    with Threads([fail]) as sent:
        assert next(sent) == ("number", 7)
        with pytest.raises(OSError, match="broken"):
            next(sent)
        assert list(sent) == []


def test_threads_that_hang_or_go_on_are_left() -> None:
    """After the time that is given; and those that send to nobody end."""
    go_on, ended = Event(), Event()

    def hang(send: Send) -> None:
        go_on.wait(60)

    def send_for_ever(send: Send) -> None:
        try:
            while True:
                send("again")
        finally:
            ended.set()

    with Threads([hang]) as sent:
        sent.end_within(0.1)
        assert list(sent) == []
    go_on.set()
    with Threads([send_for_ever]) as sent:
        assert next(sent) == ("again",)
    assert ended.wait(60)
