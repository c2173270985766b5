"""Videos whose frames show their numbers, written by a process of its own."""

import json
import sys
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from mmvidformer.video.readers import READERS

FRAMES = 40

try:
    import torchcodec

    has_torchcodec = torchcodec.ffmpeg_major_version is not None
except ImportError:
    has_torchcodec = False

needs_torchcodec = pytest.mark.skipif(not has_torchcodec, reason="needs torchcodec and FFmpeg")
ALL = [
    pytest.param(name, marks=needs_torchcodec if name == "torchcodec" else ()) for name in READERS
]


def picture(number: int, size: tuple[int, int] = (64, 48)) -> np.ndarray:
    """A grey that tells the frame's number, red on the left."""
    image = np.full((size[1], size[0], 3), 5 * number + 20, np.uint8)
    image[:, : size[0] // 2] = (240, 20, 20)
    return image


def number_of(image: np.ndarray) -> int:
    return round((float(image[8:40, 44:60].mean()) - 20) / 5)


def results_of(path: str, *indices: int) -> dict:
    return dict(filename=path, frame_inds=np.array(indices))


def write(
    path, codec: str, times=range(FRAMES), movflags: str = "", size=(64, 48), **options: str
) -> str:
    with av.open(str(path), "w", options={"movflags": movflags} if movflags else {}) as container:
        stream = container.add_stream(codec, rate=25, options=options)
        (stream.width, stream.height), stream.pix_fmt = size, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 25)
        for number, time in enumerate(times):
            frame = av.VideoFrame.from_ndarray(picture(number, size), format="rgb24")
            frame.pts = time
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return str(path)


def write_all(root: Path) -> dict[str, str]:
    """A short and a long distance of key frames, B-frames, uneven times, no times, no header."""
    uneven = np.cumsum([0] + [1, 1, 3, 1, 2] * 8)[:FRAMES].tolist()
    return {
        "b_frames": write(root / "b.mp4", "libx264", g="12", bf="3", crf="8"),
        "header_first": write(root / "h.mp4", "libx264", movflags="faststart"),
        "one_key": write(root / "one.mp4", "libx264", g="1000", bf="2", crf="8"),
        "uneven": write(root / "uneven.mp4", "libx264", uneven, g="8", bf="2", crf="8"),
        "mpeg4.avi": write(root / "m.avi", "mpeg4", g="12", bf="2", qmin="2", qmax="2"),
        "vp9.webm": write(root / "v.webm", "libvpx-vp9", g="12", crf="10", b="0"),
        "camera": write(root / "camera.webm", "libvpx", [i + i // 3 for i in range(FRAMES)]),
        "stream.ts": write(root / "s.ts", "libx264", g="12", bf="2", crf="8"),
        "stream.mpg": write(root / "s.mpg", "mpeg2video", g="12", bf="2", qmin="2", qmax="2"),
    }


if __name__ == "__main__":
    print(json.dumps(write_all(Path(sys.argv[1]))))
