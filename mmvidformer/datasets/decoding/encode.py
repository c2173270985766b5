"""Re-encoding of a video for fast decoding: fewer pixels, more key frames, no sound."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import chain
from math import ceil
from pathlib import Path

import av
import numpy as np
from av import VideoFrame, VideoStream

from mmvidformer.atomic import write_atomically
from mmvidformer.datasets.decoding.containers import open_container
from mmvidformer.datasets.decoding.errors import BadVideo, first_line

# Containers round the times of frames, so a frame may start this part of a frame late.
TOLERANCE = Fraction(1, 4)
# Tags by which decoders convert the colors of a video to RGB.
COLOR_TAGS = ("color_range", "colorspace", "color_primaries", "color_trc")


@dataclass(frozen=True)
class Encoding:
    """How videos are re-encoded: as H.264 in mp4, without sound.

    Videos keep their aspect ratio in stored pixels, and are turned upright by their rotation tags.
    Sample aspect ratios are ignored. Both are what the decoders of training do.

    Attributes:
        short_side: Short side in pixels. Smaller videos keep their size. Both sides are even.
        key_frames: Largest distance of key frames, in frames.
        crf: Quality of x264, from 0 (lossless) to 51.
        fps: Frames per second; frame k is what the original shows at k / fps seconds. None to keep
            each frame with its time.

    Raises:
        ValueError: If a value is out of range.
    """

    short_side: int = 256
    key_frames: int = 16
    crf: int = 20
    fps: int | None = None

    def __post_init__(self) -> None:
        rate = 1 if self.fps is None else self.fps
        if min(self.short_side, self.key_frames, rate) < 1 or not 0 <= self.crf <= 51:
            raise ValueError(f"sides and rates must be positive and crf from 0 to 51, got {self}")


def encode_video(source: str, target: str, encoding: Encoding) -> None:
    """Re-encode a video. The result is complete or missing at any moment, and kept if it exists.

    Encoding takes one thread.

    Raises:
        BadVideo: If the video cannot be decoded to its end, or the target cannot be written.
    """
    if os.path.exists(target):  # another run on the same folder was faster
        return
    try:
        with write_atomically(target) as part:
            _encode(source, part, encoding)
    except Exception as error:  # PyAV raises several kinds
        if os.path.exists(target):  # another run has finished, and removed what was unfinished
            return
        reason = getattr(error, "strerror", None) or first_line(error)
        raise BadVideo(source, f"PyAV cannot re-encode it: {reason}") from error


def _encode(source: str, target: Path, encoding: Encoding) -> None:
    options = {"movflags": "faststart"}  # the index first, so that one read opens the file
    with open_container(source) as video, av.open(str(target), "w", "mp4", options) as output:
        stream = video.streams.video[0]
        stream.codec_context.thread_count = 1
        frames = _timed_frames(stream, encoding.fps)
        first = next(frames, None)
        if first is None:
            raise ValueError("there is no frame in it")
        sides = first[1].width, first[1].height
        shrink = min(1, encoding.short_side / min(sides))
        width, height = size = [max(2, round(side * shrink / 2) * 2) for side in sides]
        turns = first[1].rotation // 90 % 4
        options = dict(width=width, height=height, interpolation="BICUBIC", threads=1)
        pixels = "yuv444p" if turns else "yuv420p"  # planes of one size can be turned
        scale = partial(av.video.reformatter.VideoReformatter().reformat, format=pixels, **options)
        # Without the loop filter and arithmetic coding, decoding takes a third less time.
        tuning = {"crf": str(encoding.crf), "tune": "fastdecode"}
        encoder = output.add_stream("libx264", encoding.fps or stream.average_rate or 25, tuning)
        codec = encoder.codec_context
        codec.width, codec.height = size[::-1] if turns % 2 else size
        codec.time_base = Fraction(1, encoding.fps) if encoding.fps else stream.time_base
        codec.pix_fmt, codec.gop_size, codec.thread_count = "yuv420p", encoding.key_frames, 1
        sample = scale(first[1])
        for tag in COLOR_TAGS:
            setattr(codec, tag, getattr(sample, tag))
        for time, frame in chain([first], frames):
            image = scale(frame)
            if turns:
                turned = np.ascontiguousarray(np.rot90(image.to_ndarray(), turns, (1, 2)))
                image = VideoFrame.from_ndarray(turned, "yuv444p")
            image.pts, image.time_base, image.pict_type = time, codec.time_base, 0
            output.mux(encoder.encode(image))
        output.mux(encoder.encode())


def _timed_frames(stream: VideoStream, fps: int | None) -> Iterator[tuple[int, VideoFrame | None]]:
    """Yield frames in order of display with ascending times from 0, in units of stream or fps."""
    # AVI states no times of display, and FFmpeg makes up wrong ones.
    has_times = stream.container.format.name != "avi"
    step = max(1, round(1 / (stream.time_base * (stream.average_rate or 25))))
    start, time, count, shown = None, -step, 0, None
    for frame in stream.container.decode(stream):
        if has_times and frame.pts is not None:
            start = frame.pts - time - step if start is None else start
            time = max(frame.pts - start, time + 1)
        else:
            time += step
        if fps is None:
            yield time, frame
            continue
        due = ceil(time * stream.time_base * fps - TOLERANCE)
        yield from ((number, shown) for number in range(count, due))
        count, shown = max(count, due), frame
    if shown is not None:
        end = round((time + (shown.duration or step)) * stream.time_base * fps)
        yield from ((number, shown) for number in range(count, max(end, 1)))
