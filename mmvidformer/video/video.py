"""A video: its frames and their seconds."""

import io
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from mmvidformer.video.cuts import find_cuts
from mmvidformer.video.facts import require_frames, require_one_size, require_rate
from mmvidformer.video.index import Index
from mmvidformer.video.reader import ArrayReader, Reader
from mmvidformer.video.readers import open_reader
from mmvidformer.video.times import EPSILON, FrameTimes

Source = str | Path | bytes | BinaryIO | np.ndarray


class _Content(io.BytesIO):
    """The content of a file, with a name for messages."""

    def __init__(self, content: bytes, name: str) -> None:
        super().__init__(content)
        self.name = name or "the file"


class Frames(list):
    """RGB images (H, W, 3), uint8, in the form that ``DecordDecode`` takes."""

    def asnumpy(self) -> "Frames":
        """Return the images."""
        return self


class Video:
    """The frames of a video, upright and in the order of display, and their seconds.

    Seconds count from the first frame that is shown. It is the best video stream of the file, not
    the first one, with its edit list and display matrix applied. ``get_batch`` and ``get_avg_fps``
    are named as in ``decord.VideoReader``, for MMAction2's transforms. Threads may share a video.

    Args:
        reader: Decodes the frames.
        numbers: Of each frame of this video its number in the reader. None: all in order.
        rate: Frames per second of ``numbers``.
    """

    def __init__(
        self, reader: Reader, numbers: np.ndarray | None = None, rate: float = 0.0
    ) -> None:
        self.reader, self._numbers, self._rate = reader, numbers, rate

    @classmethod
    def open(
        cls,
        source: Source,
        backend: str = "pyav",
        rate: float = 0.0,
        name: str = "",
        **options: int | str | Index | None,
    ) -> "Video":
        """Open a video.

        Args:
            source: Path or content of a file, a file object, or RGB frames (T, H, W, 3), uint8.
            backend: Name in ``READERS``. Files of which TorchCodec may return wrong frames are
                always read by PyAV (``torchcodec_reader.suits``).
            rate: Frames per second of an array; default: unknown.
            name: What messages call the content of a file.
            **options: ``num_threads`` and ``max_pixels`` of ``VideoInit``, ``index``, what is
                known of the frames already (``index_of``), and ``device``, on which TorchCodec
                decodes.

        Raises:
            BadVideo: If there is no such file, or no right to read it; if it has another format, no
                video that can be decoded, larger frames, or is damaged.
            UserError: If the array has another shape.
            ImportError: If the backend is not installed.
        """
        if isinstance(source, np.ndarray):
            return cls(ArrayReader(source, rate))
        if isinstance(source, bytes):
            source = _Content(source, name)
        if isinstance(source, str | Path):
            source = str(source)
        return cls(open_reader(source, backend, **options))

    def __len__(self) -> int:
        require_frames(self.reader.name, self.reader.index.length)
        return self.reader.index.length if self._numbers is None else len(self._numbers)

    @property
    def frame_times(self) -> FrameTimes:
        """Frames and seconds, to be converted to each other."""
        return self.reader.times if self._numbers is None else FrameTimes(self._rate)

    @property
    def times(self) -> np.ndarray:
        """Seconds (n,) at which each frame is first shown, from 0, float64.

        Raises:
            BadVideo: If the frame rate is unknown, and the file states no times.
        """
        if self.frame_times.starts is None:
            self._check_rate()
        return np.asarray(self.frame_times.seconds(np.arange(len(self))), float)

    @property
    def duration(self) -> float:
        """Seconds until the last frame ends, which lasts as long as most."""
        self._check_rate()
        rate = self.frame_times.constant_rate
        if self.frame_times.is_constant:
            return float(len(self) / rate)
        return float(self.frame_times.seconds(len(self) - 1)) + 1 / float(rate)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the frames; decodes the first one."""
        return self.frames([0])[0].shape[:2]

    @property
    def rotation(self) -> int:
        """Degrees by which the stored pictures are turned counterclockwise: 0, 90, 180 or 270."""
        return 90 * self.reader.orientation.turns

    @property
    def mirrored(self) -> bool:
        """Whether the stored pictures are mirrored, left to right, before they are turned."""
        return self.reader.orientation.mirrored

    def at(self, seconds: float | np.ndarray) -> int | np.ndarray:
        """Return the number of the frame that is shown at some seconds, or each of an array."""
        self._check_rate()
        numbers = np.clip(self.frame_times.at(seconds), 0, len(self) - 1)
        return numbers if np.ndim(seconds) else int(numbers)

    def between(self, start: float, end: float) -> range:
        """Return the frames that are shown from ``start`` until before ``end``; at least one."""
        first = self.at(start)
        return range(first, max(self.at(max(end - 2 * EPSILON, 0)), first) + 1)

    def frames(self, numbers: Sequence[int]) -> Frames:
        """Decode frames, each of them once.

        Numbers beyond the end are the last frame, with a warning, and negative ones the first.

        Returns:
            RGB images (H, W, 3), uint8.

        Raises:
            BadVideo: If the video has no frames, these differ in size, or one cannot be decoded.
        """
        wanted = np.ravel(numbers)
        if not wanted.size:
            return Frames()
        stored = self.numbers_in_file(wanted)
        stored, first, places = np.unique(stored, return_index=True, return_inverse=True)
        images = self.reader.decode(stored)
        require_one_size(self.reader.name, (image.shape[:2] for image in images))
        beyond = (wanted >= len(self)).sum() if wanted.any() else 0
        if beyond:
            part = f"{beyond} of {len(wanted)} sampled frames lie beyond its {len(self)} frames"
            text = f"{self.reader.name}: {part}; replaced by the last one"
            warnings.warn(text, stacklevel=2)
        # Transforms such as Flip work in place: no two images may be the same array.
        return Frames(
            images[place] if number == first[place] else images[place].copy()
            for number, place in enumerate(places)
        )

    def numbers_in_file(self, numbers: np.ndarray) -> np.ndarray:
        """Return which frames of the file are shown as these; the last one beyond the end."""
        last = len(self) - 1 if numbers.any() else 0  # the first frame alone needs no index
        shown = np.clip(numbers, 0, last)
        return shown if self._numbers is None else self._numbers[shown]

    def shots(self, cuts: str = "content") -> list[int]:
        """Return the first frame of each shot, from 0; decodes all frames, to small images.

        Args:
            cuts: How cuts are found (``video.cuts.find_cuts``); ``'none'``: it is one shot.

        Raises:
            UserError: If it is unknown.
        """
        firsts = np.array(find_cuts(self.reader, cuts), int)
        if self._numbers is not None:
            firsts = np.searchsorted(self._numbers, firsts)
        inside = (firsts > 0) & (firsts < len(self))
        return [0, *np.unique(firsts[inside]).tolist()]

    def at_constant_rate(self) -> "Video":
        """Return the same video with frame k being the one that is shown at ``k / rate`` seconds.

        At a rate that varies, as in recordings of telephones and screens, frames are left out and
        repeated for that (``FrameTimes.repeats``). Other files stay as they are.
        """
        times = self.frame_times
        repeats = times.repeats()
        if repeats is None:
            return self
        numbers = np.repeat(np.arange(len(repeats)), repeats)
        return Video(self.reader, numbers, float(times.constant_rate))

    def get_batch(self, indices: Sequence[int]) -> Frames:
        """Decode frames, as ``frames`` does."""
        return self.frames(indices)

    def get_avg_fps(self) -> float:
        """Return the average number of frames per second; 0 if it is unknown."""
        return self.reader.index.times.rate if self._numbers is None else self._rate

    def _check_rate(self) -> None:
        require_rate(self.reader.name, self.frame_times.rate)
