"""Datasets inside other datasets."""

from collections.abc import Iterator


def with_inner(dataset: object) -> Iterator[object]:
    """Yield a dataset and all that it wraps, outermost first.

    Wrappers have what they wrap as ``dataset`` (``SafeDataset``, and MMEngine's ``RepeatDataset``
    and ``ClassBalancedDataset``) or ``datasets`` (``ConcatDataset``).
    """
    yield dataset
    inner = getattr(dataset, "dataset", None)
    for one in getattr(dataset, "datasets", ()) if inner is None else (inner,):
        yield from with_inner(one)
