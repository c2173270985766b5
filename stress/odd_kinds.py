"""Bad and odd videos, and what is expected of decoders that read them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import av
import cv2
import numpy as np
from av.stream import Disposition


def encode(
    path: Path,
    size: tuple[int, int] = (64, 48),
    count: int = 12,
    codec: str = "mpeg4",
    container: str | None = None,
    times: Sequence[int] | None = None,
) -> None:
    """Write a video of noise, with the times of the frames in units of frames."""
    rng = np.random.default_rng(0)
    with av.open(str(path), "w", format=container) as file:
        stream = file.add_stream(codec, rate=25)
        stream.width, stream.height = size
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        for number in range(count):
            image = rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
            frame = av.VideoFrame.from_ndarray(image, "rgb24")
            frame.pts = number if times is None else times[number]
            file.mux(stream.encode(frame))
        file.mux(stream.encode())


def sound_only(path: Path) -> None:
    """Write an mp4 without a video stream."""
    with av.open(str(path), "w", format="mp4") as file:
        stream = file.add_stream("aac", rate=16000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 16000), np.float32), "fltp", "mono")
        frame.sample_rate = 16000
        file.mux(stream.encode(frame))
        file.mux(stream.encode())


def no_frames(path: Path) -> None:
    """Write a video that ends before its first frame."""
    code = cv2.VideoWriter_fourcc(*"mp4v")
    cv2.VideoWriter(str(path), code, 25, (64, 48)).release()


def cut_off(path: Path) -> None:
    """Write the first half of a video."""
    encode(path, count=50)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def two_sizes(path: Path) -> None:
    """Write two streams of different size in one file."""
    parts = []
    for size in ((64, 48), (128, 96)):
        encode(path, size, codec="mpeg1video", container="mpeg1video")
        parts.append(path.read_bytes())
    path.write_bytes(b"".join(parts))


def picture(path: Path) -> None:
    """Write a PNG under another name."""
    path.write_bytes(cv2.imencode(".png", np.full((48, 64, 3), 99, np.uint8))[1].tobytes())


def cover(path: Path) -> None:
    """Write a song, with a picture as its cover."""
    sound_only(path.with_suffix(".m4a"))
    with av.open(str(path.with_suffix(".m4a"))) as song, av.open(str(path), "w") as file:
        sound = file.add_stream_from_template(song.streams.audio[0])
        stream = file.add_stream("mjpeg", rate=1)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuvj420p"
        stream.disposition = Disposition.attached_pic
        image = av.VideoFrame.from_ndarray(np.full((48, 64, 3), 99, np.uint8), "rgb24")
        file.mux(stream.encode(image) + stream.encode())
        for packet in song.demux(audio=0):
            if packet.size:
                packet.stream = sound
                file.mux(packet)


def picture_first(path: Path) -> None:
    """Write a film, before which a stream has a single small picture."""
    with av.open(str(path), "w", format="matroska") as file:
        still, film = (file.add_stream("mpeg4", rate=25) for _ in range(2))
        film.disposition = Disposition.default
        still.width, still.height, still.pix_fmt = 32, 32, "yuv420p"
        film.width, film.height, film.pix_fmt = 64, 48, "yuv420p"
        for stream, count in ((still, 1), (film, 12)):
            for number in range(count):
                image = np.full((stream.height, stream.width, 3), 9 * number, np.uint8)
                file.mux(stream.encode(av.VideoFrame.from_ndarray(image, "rgb24")))
            file.mux(stream.encode())


def variable_rate(path: Path) -> None:
    """Write frames that come at very different distances."""
    encode(path, times=[0, 1, 5, 6, 7, 30, 31, 40, 41, 42, 43, 90])


class Kind(NamedTuple):
    """How to write a video, and what decoders must do with it.

    ``read`` is whether all must read it (True) or refuse it (False). None if both are right, as
    long as a refusal has a reason. ``at_moment`` is whether it is read around a moment in seconds
    instead of as a whole.
    """

    make: Callable[[Path], object]
    read: bool | None
    at_moment: bool = False


KINDS = {
    "missing": Kind(lambda path: None, False),
    "empty": Kind(lambda path: path.write_bytes(b""), False),
    "no_frames": Kind(no_frames, False),
    "text": Kind(lambda path: path.write_text("no video\n" * 99), False),
    "sound_only": Kind(sound_only, False),
    "cover": Kind(cover, False),
    "cut_off": Kind(cut_off, False),
    "png": Kind(picture, None),
    "two_sizes": Kind(two_sizes, None),
    "picture_first": Kind(picture_first, True),
    "one_frame": Kind(lambda path: encode(path, count=1), True),
    "three_frames": Kind(lambda path: encode(path, count=3), True),
    "odd_size": Kind(lambda path: encode(path, (65, 49), codec="mjpeg", container="avi"), True),
    "other_container": Kind(lambda path: encode(path, container="avi"), True),
    "variable_rate": Kind(variable_rate, True),
    "variable_rate_at_a_moment": Kind(variable_rate, False, at_moment=True),
}
