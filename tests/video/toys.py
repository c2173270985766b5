"""Small videos, good and bad, and data sets of them."""

import av
import numpy as np
from av.stream import Disposition

from mmvidformer.data.bad_videos import SafeDataset
from mmvidformer.video.errors import BadVideo
from stress.odd_kinds import encode

SIDE, LENGTH = 16, 4
# Seconds of frames at a variable rate: 25 in the first second, then two per second.
BURST = [*(i / 25 for i in range(25)), *(1 + i / 2 for i in range(8))]
# Seconds of frames at a variable rate, in 1 / 25 s, of a telephone that slows down in the dark, a
# recording of a screen, which has a frame where something changes, and a meeting that lost some.
VARIABLE = {
    "phone": [*(i / 25 for i in range(50)), *(2 + i / 5 for i in range(15))],
    "screen": [*(i / 25 for i in range(10)), *(2 + i / 25 for i in range(25)), 4.4, 4.44, 4.48],
    "meeting": [*(i / 12.5 for i in range(16)), *(2.4 + i / 12.5 for i in range(8)), 4.24, 4.32],
}
READ = [
    dict(type="DecordInit", num_threads=1),
    dict(type="SampleFrames", clip_len=LENGTH, frame_interval=2),
    dict(type="DecordDecode"),
]
PACK = [
    dict(type="Resize", scale=(SIDE, SIDE), keep_ratio=False),
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs"),
]


def write(path, count=12, size=(40, 24), **options):
    """A video of noise, as ``stress.odd_kinds.encode`` writes it.

    decord2 3.4 cannot read widths of 32 and 96 pixels, among others.
    """
    encode(path, size, count, **options)


def write_clock(path, seconds=BURST, size=(40, 24)):
    """A video at 25 frames per second or fewer whose brightness tells the time (``read_clock``)."""
    with av.open(str(path), "w") as file:
        stream = file.add_stream("libx264", rate=25, options={"qp": "0"})  # with B-frames
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        for time in seconds:
            level = round(20 + 45 * time)
            image = np.full((size[1], size[0], 3), level, np.uint8)
            frame = av.VideoFrame.from_ndarray(image, "rgb24")
            frame.pts = round(25 * time)
            file.mux(stream.encode(frame))
        file.mux(stream.encode())


def read_clock(images):
    """Seconds that images (..., H, W, 3) or (..., 3, H, W) of ``write_clock`` tell."""
    return (np.asarray(images, float).mean(axis=(-3, -2, -1)) - 20) / 45


def shown_at(seconds, times=BURST, rate=25):
    """Times of the frames that are shown at some seconds of a video."""
    starts = np.round(np.asarray(times) * rate) / rate
    numbers = np.searchsorted(starts, np.asarray(seconds) + 1e-6, side="right") - 1
    return np.asarray(times)[numbers]


def write_sound(path):
    with av.open(str(path), "w", format="mp4") as file:
        stream = file.add_stream("aac", rate=16000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 16000), np.float32), "fltp", "mono")
        frame.sample_rate = 16000
        file.mux(stream.encode(frame))
        file.mux(stream.encode())


def write_cover(path):
    """A song: sound, and a picture as its cover."""
    with av.open(str(path), "w", format="mp4") as file:
        sound = file.add_stream("aac", rate=16000)
        cover = file.add_stream("mjpeg", rate=1)
        cover.width, cover.height, cover.pix_fmt = 48, 48, "yuvj420p"
        cover.disposition = Disposition.attached_pic
        image = np.full((48, 48, 3), 99, np.uint8)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 16000), np.float32), "fltp", "mono")
        frame.sample_rate = 16000
        packets = cover.encode(av.VideoFrame.from_ndarray(image, "rgb24")) + cover.encode()
        file.mux([*packets, *sound.encode(frame), *sound.encode()])
    return path


def write_with_picture(path, count=12, size=(64, 48)):
    """A film whose first stream is a single small picture."""
    rng = np.random.default_rng(0)
    with av.open(str(path), "w") as file:
        streams = [file.add_stream("mpeg4", rate=25) for _ in range(2)]
        for stream, sides in zip(streams, ((32, 32), size), strict=True):
            stream.width, stream.height, stream.pix_fmt = *sides, "yuv420p"
        picture, film = streams
        film.disposition = Disposition.default
        image = av.VideoFrame.from_ndarray(np.full((32, 32, 3), 99, np.uint8), "rgb24")
        file.mux(picture.encode(image) + picture.encode())
        for number in range(count):
            image = rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
            frame = av.VideoFrame.from_ndarray(image, "rgb24")
            frame.pts = number
            file.mux(film.encode(frame))
        file.mux(film.encode())
    return path


def some_good(root, count=6):
    names = [f"good{i}.mp4" for i in range(count)]
    for i, name in enumerate(names):
        write(root / name, count=8 + i)
    return names


def videos(root, names, pipeline=None, test_mode=False, **policy):
    """A SafeDataset of files, whose labels are their numbers."""
    (root / "list.txt").write_text("".join(f"{name} {i}\n" for i, name in enumerate(names)))
    return SafeDataset(
        dict(
            type="VideoDataset",
            ann_file=str(root / "list.txt"),
            data_prefix=dict(video=str(root)),
            pipeline=[*READ, *PACK] if pipeline is None else pipeline,
            test_mode=test_mode,
        ),
        **policy,
    )


class Numbers:
    """The numbers below a size, some of which cannot be read."""

    metainfo: dict = {}

    def __init__(self, size, bad=()):
        self.size, self.bad = size, set(bad)

    def __len__(self):
        return self.size

    def __getitem__(self, idx):
        if idx in self.bad:
            raise BadVideo(f"{idx}.mp4", "is bad")
        return {"x": float(idx)}


class Index(int):
    """An index with a seed, as a sampler gives it."""

    def __new__(cls, number, seed):
        made = super().__new__(cls, number)
        made.seed = seed
        return made
