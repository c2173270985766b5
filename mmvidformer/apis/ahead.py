"""Items that are made in a thread, ahead of time."""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
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
