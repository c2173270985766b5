"""Cuts: where a shot of a video ends, and the next one begins."""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import chain, groupby, product
from operator import itemgetter
from os import stat
from os.path import realpath
from typing import NamedTuple, TypeVar

import cv2
import numpy as np

from mmvidformer.errors import UserError
from mmvidformer.video.choices import CONTENT, NONE, WAYS
from mmvidformer.video.reader import Reader
from mmvidformer.video.readers import READERS

SIZE = (64, 36)  # width and height of the pictures that are compared
AROUND = 4  # pictures before and after a step that it is compared with
LEAST, RATIO = 10.0, 2.5  # of a step: its size, and how much larger than those around it
DARK = 8.0  # mean brightness, of 255, of a black picture

Picture = TypeVar("Picture")


class _Step(NamedTuple):
    """A picture, and how much it differs from the one before.

    Attributes:
        picture: The picture.
        colors: Its brightness and two differences of color (36, 64, 3), uint8.
        change: Mean difference of these from the picture before; inf for the first one.
    """

    picture: object
    colors: np.ndarray
    change: float


class _CutFinder:
    """Decides of successive pictures whether a shot begins with them; see ``mark_cuts``."""

    def __init__(self) -> None:
        self._before: deque[_Step] = deque(maxlen=AROUND)  # the last ones that are decided
        self._waiting: deque[_Step] = deque()
        self._colors: np.ndarray | None = None  # of the last picture
        self._darkness = 0  # number of black pictures, up to the last that is decided

    def add(self, picture: Picture, image: np.ndarray) -> Iterator[tuple[Picture, bool]]:
        """Take a picture, and yield those that are decided now."""
        small = cv2.resize(image, SIZE, interpolation=cv2.INTER_AREA)
        colors = cv2.cvtColor(small, cv2.COLOR_RGB2YUV)
        change = math.inf if self._colors is None else _difference(self._colors, colors)
        self._colors = colors
        self._waiting.append(_Step(picture, colors, change))
        while self._waiting:
            is_open = _stands_out(self._waiting[0], self._before)
            if is_open and len(self._waiting) <= AROUND:
                return
            yield self._decide()

    def finish(self) -> Iterator[tuple[Picture, bool]]:
        """Yield the pictures that are left."""
        while self._waiting:
            yield self._decide()

    def _decide(self) -> tuple:
        step = self._waiting.popleft()
        brightness = step.colors[..., 0].mean()
        ends_black = self._darkness > AROUND and brightness >= 2 * DARK
        is_dark = brightness < (2 * DARK if self._darkness else DARK)
        self._darkness = self._darkness + 1 if is_dark else 0
        is_cut = ends_black or self._is_cut(step)
        self._before.append(step)
        return step.picture, is_cut

    def _is_cut(self, step: _Step) -> bool:
        """Whether all pictures from a step on differ from all before it."""
        if not self._before or not _stands_out(step, (*self._before, *self._waiting)):
            return False
        after = [step, *self._waiting][:AROUND]
        pairs = product(self._before, after)
        return min(_difference(a.colors, b.colors) for a, b in pairs) >= step.change / 2


def _difference(colors: np.ndarray, others: np.ndarray) -> float:
    return float(cv2.absdiff(colors, others).mean())


def _stands_out(step: _Step, around: Iterable[_Step]) -> bool:
    """Whether a change is large, also beside all but the largest of those around it."""
    changes = sorted(other.change for other in around)
    return len(changes) > 1 and step.change >= max(LEAST, RATIO * changes[-2])


def mark_cuts(
    pictures: Iterable[Picture], look: Callable[[Picture], np.ndarray]
) -> Iterator[tuple[Picture, bool]]:
    """Yield pictures, each with whether a shot begins with it; False for the first one.

    The measure is the mean difference of brightness and color (YUV) from the picture before; that
    of PySceneDetect's ``ContentDetector`` is in HSV. A cut is a difference of at least ``LEAST``
    that is ``RATIO`` times the second largest of those around it: those of fast motion are alike.
    And all pictures after a cut differ from all before it: those around a flash do not. A shot
    begins, too, where a black part ends. Dissolves are not found.

    A picture comes at once; but ``AROUND`` pictures later if it may be the first of a shot.

    Args:
        pictures: Pictures of a video, in their order.
        look: Returns the RGB image (H, W, 3), uint8, of a picture.
    """
    finder = _CutFinder()
    for picture in pictures:
        yield from finder.add(picture, look(picture))
    yield from finder.finish()


def split_shots(images: Iterable[np.ndarray]) -> Iterator[tuple[int, Iterator[np.ndarray]]]:
    """Split RGB images (H, W, 3), uint8, of a stream at cuts, as they come.

    Yields:
        The number of the first image of a shot, and the images of the shot.

    Raises:
        UserError: If an image has another shape or type.
    """
    shot = 0

    def number_shots() -> Iterator[tuple[int, int, np.ndarray]]:
        nonlocal shot
        for number, (image, is_cut) in enumerate(mark_cuts(images, _checked)):
            shot += is_cut
            yield shot, number, image

    for _, members in groupby(number_shots(), itemgetter(0)):
        start = next(members)
        yield start[1], (image for _, _, image in chain([start], members))


def _checked(image: np.ndarray) -> np.ndarray:
    is_array = isinstance(image, np.ndarray)
    if not is_array or image.shape[2:] != (3,) or not image.size or image.dtype != np.uint8:
        shape = f"{image.shape} of {image.dtype}" if is_array else f"a {type(image).__name__}"
        raise UserError(f"frames must be (H, W, 3) of one size and type uint8, got {shape}")
    return image


def find_cuts(reader: Reader, how: str = CONTENT) -> tuple[int, ...]:
    """Return the first frames of the shots of a video, but the first, by their numbers in a reader.

    All frames are decoded, to small images. The cuts of a local file are remembered until the file
    changes. Cuts end where a file cannot be decoded any more.

    Args:
        reader: What decodes the video.
        how: ``'content'`` (``mark_cuts``), or ``'none'``.

    Raises:
        UserError: If there is no such way.
    """
    check_way(how)
    if how == NONE:
        return ()
    source = getattr(reader, "source", None)
    if not isinstance(source, str):
        return _first_frames(reader)
    status = stat(source)
    return _cuts_of_file(realpath(source), status.st_mtime_ns, status.st_size)


def check_way(how: str) -> None:
    """Raise a ``UserError`` if there is no such way to find cuts."""
    if how not in WAYS:
        raise UserError(f"cuts must be {' or '.join(WAYS)}, got {how!r}")


@lru_cache(maxsize=1024)
def _cuts_of_file(path: str, changed: int, size: int) -> tuple[int, ...]:
    return _first_frames(READERS["pyav"](path))


def _first_frames(reader: Reader) -> tuple[int, ...]:
    marked = mark_cuts(reader.previews(), itemgetter(1))
    return tuple(number for (number, _), is_cut in marked if is_cut)
