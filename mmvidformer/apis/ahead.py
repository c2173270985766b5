"""Items that are made in a thread: some ahead of time, or the newest ones."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import TypeVar

Item = TypeVar("Item")


def read_ahead(items: Iterable[Item], count: int = 2) -> Iterator[Item]:
    """Compute items in a thread, ``count`` of them ahead; errors are raised in their places."""
    iterator, end = iter(items), object()
    with ThreadPoolExecutor(1) as pool:
        waiting = deque(pool.submit(next, iterator, end) for _ in range(count))
        while (item := waiting.popleft().result()) is not end:
            waiting.append(pool.submit(next, iterator, end))
            yield item  # type: ignore[misc]


def newest(items: Iterable[Item], size: int, drop: Callable[[], None]) -> Iterator[Item]:
    """Yield items, which a thread makes as fast as it can, in their order.

    Args:
        items: The items. An error among them is raised after those before it.
        size: Number of items that wait to be taken; if there are more, the oldest is dropped.
        drop: Called when one is dropped.
    """
    waiting, end, ended, errors = SimpleQueue(), object(), Event(), list[Exception]()

    def fill() -> None:
        try:
            for item in items:
                if ended.is_set():
                    return
                if waiting.qsize() == size:
                    with suppress(Empty):  # it was taken meanwhile
                        waiting.get_nowait()
                        drop()
                waiting.put(item)
        except Exception as error:  # raised where items are taken
            errors.append(error)
        finally:
            waiting.put(end)

    thread = Thread(target=fill, daemon=True)
    thread.start()
    try:
        yield from iter(waiting.get, end)
    finally:
        ended.set()
        thread.join(timeout=1)
    if errors:
        raise errors[0]
