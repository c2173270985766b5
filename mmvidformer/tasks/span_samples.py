"""The samples of a list of spans, which may be long."""

from collections.abc import Mapping, Sequence
from itertools import chain
from os.path import join
from typing import Any

import numpy as np

from mmvidformer.data.listed_videos import shared

NO_LABEL = -1  # of time that no span covers, if no class is that of the background


class SpanSamples(Sequence):
    """The samples of videos with spans, each made when it is asked for.

    Names and spans are in shared memory: workers get no copies.

    Args:
        videos: For each video its spans: start, end, name of the class, and what else.
        classes: Number of each class by its name.
        folder: Folder of the videos.
        suffix: What is added to the names of the files.
        background: Number of the class of other time.
    """

    def __init__(
        self,
        videos: Mapping[str, Sequence[tuple]],
        classes: Mapping[str, int],
        folder: str,
        suffix: str,
        background: int,
    ) -> None:
        self._folder, self._suffix, self._background = folder, suffix, background
        names = [video.encode() for video in videos]
        self._names = shared(np.frombuffer(b"".join(names), np.uint8))
        self._name_ends = shared(np.cumsum([0, *map(len, names)]))
        self._span_ends = shared(np.cumsum([0, *map(len, videos.values())]))
        rows = chain.from_iterable(videos.values())
        values = chain.from_iterable((start, end, classes[name]) for start, end, name, *_ in rows)
        count = int(self._span_ends[-1])
        self._spans = shared(np.fromiter(values, float, 3 * count).reshape(count, 3))

    def __len__(self) -> int:
        return len(self._name_ends) - 1

    def __getitem__(self, number: int | slice) -> Any:
        """Return ``filename``, ``spans`` (n, 3) and ``background`` of a video, or of several."""
        numbers = range(len(self))[number]
        if isinstance(numbers, range):
            return [self[place] for place in numbers]
        start, end = self._name_ends[numbers : numbers + 2].tolist()
        name = self._names[start:end].numpy().tobytes().decode()
        first, last = self._span_ends[numbers : numbers + 2].tolist()
        return dict(
            filename=join(self._folder, f"{name}{self._suffix}"),
            spans=self._spans[first:last].numpy().copy(),
            background=self._background,
        )
