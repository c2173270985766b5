"""Files of a generated dataset: videos whose frames are encoded one by one, and csv files.

A codec that predicts frames from earlier ones leaves traces of the past in each of them. In clips
encoded as MPEG-4 Part 2 at OpenCV's bit rate, hand-made features of the surroundings of the object
identified one of four directions from a single decoded frame in 59% of cases. A frame that is
encoded on its own holds what was drawn and nothing else.
"""

import csv
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np

QUALITY = 92
ENCODING = f"Motion JPEG, quality {QUALITY}"
EPIC_COLUMNS = (
    "narration_id", "participant_id", "video_id", "narration_timestamp", "start_timestamp",
    "stop_timestamp", "start_frame", "stop_frame", "narration", "verb", "verb_class", "noun",
    "noun_class", "all_nouns", "all_noun_classes",
)  # fmt: skip


def write_video(path: Path, frames: np.ndarray, fps: int) -> None:
    """Write RGB frames (T, H, W, 3), uint8, to a Motion JPEG mp4."""
    with av.open(str(path), "w") as file:
        stream = file.add_stream("mjpeg", rate=fps)
        stream.height, stream.width, stream.pix_fmt = *frames.shape[1:3], "yuvj420p"
        for number, frame in enumerate(frames):
            _, jpeg = cv2.imencode(".jpg", frame[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
            packet = av.Packet(jpeg.tobytes())
            packet.stream, packet.time_base = stream, Fraction(1, fps)
            packet.pts, packet.dts, packet.is_keyframe = number, number, True
            file.mux(packet)


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence]) -> None:
    """Write a csv file with a header."""
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])


def epic_row(
    video_id: str,
    participant_id: str,
    number: int,
    span: tuple[int, int],
    fps: float,
    verb: tuple[int, str],
    noun: tuple[int, str],
) -> tuple[str | int, ...]:
    """Build the row of a segment, from its first frame to the one after its last, from 0."""
    start, stop = (_clock(frame / fps) for frame in span)
    return (
        f"{video_id}_{number}", participant_id, video_id, f"{start}0", start, stop,
        span[0] + 1, span[1], f"move {noun[1]} {verb[1]}", verb[1], verb[0], noun[1], noun[0],
        f"['{noun[1]}']", f"[{noun[0]}]",
    )  # fmt: skip


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(seconds, 60)
    return f"{int(minutes) // 60:02}:{int(minutes) % 60:02}:{seconds:05.2f}"
