"""Data sets that wrap others."""

from collections.abc import Iterator


def with_inner(dataset: object) -> Iterator[object]:
    """A data set and all that it wraps, outermost first.

    Wrappers keep what they wrap as ``dataset`` (MMEngine's ``RepeatDataset``,
    ``ClassBalancedDataset``, ``SafeDataset``) or ``datasets`` (``ConcatDataset``).
    """
    yield dataset
    for inner in [*getattr(dataset, "datasets", ()), getattr(dataset, "dataset", None)]:
        if inner is not None:
            yield from with_inner(inner)
