"""A stream of a client, in the process that answers it: pieces of video in, rows out."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from mmvidformer.apis import Prediction, Recognizer
from mmvidformer.apis.together import Send, Threads
from mmvidformer.engine.offer_options import Limits
from mmvidformer.errors import LostProcess, UserError
from mmvidformer.video.video import Video
from mmvidformer.web.limits import MAX_PIXELS, check_video
from mmvidformer.web.query import Asked
from mmvidformer.web.rows import Row

_STREAMS: dict[str, "RunningStream"] = {}  # of this process: the last one


def open_stream(recognizer: Recognizer, limits: Limits, key: str, asked: Asked) -> Iterator[Row]:
    """A work of the process: begin a stream, which ends the last one."""
    while _STREAMS:
        _, last = _STREAMS.popitem()
        list(last.push(None))
    stream = RunningStream(recognizer, asked)
    list(stream.push(()))  # an option may be wrong
    _STREAMS[key] = stream
    yield dict(stream=key)


def push_piece(
    recognizer: Recognizer, limits: Limits, video: Path, title: str, key: str, asked: Asked
) -> Iterator[Row]:
    """A work of the process: give a picture or a short video to a stream, and answer for it.

    A path that does not exist ends the stream.
    """
    if key not in _STREAMS:
        raise LostProcess("the stream has ended with its process")
    frames = read_frames(video, limits) if video.exists() else None
    for prediction in _STREAMS[key].push(frames):
        yield replace(prediction, source=title).row(asked.top)


def read_frames(path: Path, limits: Limits) -> Iterator[np.ndarray]:
    """Read the RGB frames (H, W, 3), uint8, of a JPEG, a PNG, or a video.

    Raises:
        UserError: If it is refused, or cannot be read.
    """
    try:
        with Image.open(path, formats=("JPEG", "PNG")) as picture:
            if picture.width * picture.height > MAX_PIXELS:
                raise UserError(f"a picture must have at most {MAX_PIXELS} pixels")
            pixels = np.asarray(ImageOps.exif_transpose(picture).convert("RGB"))
        yield pixels
        return
    except UnidentifiedImageError:
        check_video(str(path), limits)
    except (OSError, SyntaxError, Image.DecompressionBombError):
        raise UserError("the picture is damaged, cut off, or huge") from None
    video = Video.open(path, max_pixels=MAX_PIXELS)
    for number in range(len(video)):
        yield from video.frames([number])


class RunningStream:
    """Runs ``Recognizer.stream`` in a thread, which waits for the next piece.

    Args:
        recognizer: The model.
        asked: Options; ``fps`` is the rate of the frames.
    """

    def __init__(self, recognizer: Recognizer, asked: Asked) -> None:
        self._pieces: SimpleQueue[Iterable[np.ndarray] | None] = SimpleQueue()
        self._results = Threads([partial(self._run, recognizer, asked)])

    def push(self, frames: Iterable[np.ndarray] | None) -> Iterator[Prediction]:
        """Give frames, or None at the end; yield what is known after them, then raise an error."""
        error = None
        self._pieces.put(frames)
        for (result,) in self._results:
            if result is frames:
                break
            if isinstance(result, Prediction):
                yield result
            elif isinstance(result, Exception):
                error = result
        else:
            if frames is not None:
                raise LostProcess("the stream has ended by an error; begin another one")
        if error:
            raise error

    def _run(self, recognizer: Recognizer, asked: Asked, send: Send) -> None:
        for prediction in recognizer.stream(self._take(send), asked.fps, **asked.asked()):
            send(prediction)

    def _take(self, send: Send) -> Iterator[np.ndarray]:
        shape = None
        while (frames := self._pieces.get()) is not None:
            try:
                for frame in frames:
                    shape = shape or frame.shape
                    if frame.shape != shape:
                        raise UserError(f"a stream has frames of {shape}, not {frame.shape}")
                    yield frame
            except (UserError, OSError) as error:  # of this piece alone
                send(error)
            send(frames)  # all is known of them
