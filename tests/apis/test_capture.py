from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from mmvidformer.apis import Capture
from mmvidformer.video import capture
from mmvidformer.video.containers import decode_frames
from mmvidformer.video.errors import BadVideo, CaptureLost


@pytest.mark.parametrize(
    ("fps", "pace", "numbers"),
    [
        (8, {}, [*range(20)]),
        (8, {"interval": 3}, [0, 3, 6, 9, 12, 15, 18]),
        (8, {"time_step": 0.25}, [*range(0, 20, 2)]),
        (30, {"time_step": 0.25}, [0, 8, 15]),  # frame 7 is before 7.5
        (4, {"time_step": 0.25}, [*range(20)]),
    ],
)
def test_frames_are_read_at_the_pace(
    gray_video: Callable, fps: float, pace: dict, numbers: list[int]
) -> None:
    with Capture(gray_video(20, fps)) as video:
        assert (video.fps, video.total) == (fps, 20)
        found = list(video.frames(**pace))
    assert [number for number, _, _ in found] == numbers
    for number, seconds, pixels in found:
        assert seconds == pytest.approx(number / fps)
        assert pixels.shape == (48, 64, 3)
        assert abs(pixels.mean() - 10 * number % 250) < 3


def test_sources_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="video gone.mp4 does not exist"):
        Capture("gone.mp4")
    text = tmp_path / "text.mp4"
    text.write_text("no video")
    with pytest.raises(ValueError, match="text.mp4: it is damaged, cut off, or no video"):
        Capture(text)
    with pytest.raises(ConnectionError, match="camera 97 does not exist"):
        Capture("97")


def test_a_file_without_frames_is_reported(gray_video: Callable) -> None:
    complete = gray_video(20, 8)
    data = complete.read_bytes()
    empty = complete.with_name("empty.avi")
    empty.write_bytes(data[: data.index(b"movi") + 4])
    with pytest.raises(ValueError, match="empty.avi"), Capture(empty) as video:
        list(video.frames())


def test_a_damaged_frame_is_said_after_those_before_it(gray_video: Callable, monkeypatch) -> None:
    def decode(container: object, name: str) -> Iterator:
        yield from islice(decode_frames(container, name), 5)
        raise BadVideo(name, "frame 5 is damaged")

    monkeypatch.setattr(capture, "decode_frames", decode)
    numbers = []
    with (
        Capture(gray_video(20, 8)) as video,
        pytest.raises(BadVideo, match="gray_20_8.avi: frame 5 is damaged"),
    ):
        numbers.extend(number for number, _, _ in video.frames(interval=2))
    assert numbers == [0, 2, 4]


def camera(monkeypatch: pytest.MonkeyPatch, times: list[float]) -> Capture:
    """A camera whose frames come at some times, and which then stops."""
    now, left = [100.0], list(times)

    class Camera:
        def __init__(self, number: int) -> None:
            assert number == 0

        def isOpened(self) -> bool:
            return True

        def get(self, what: int) -> float:
            return -1.0

        def read(self) -> tuple[bool, np.ndarray]:
            now[0] = 100 + left[0] if left else now[0]
            return bool(left and (left.pop(0), True)), np.full((4, 6, 3), [1, 2, 3], np.uint8)

        def release(self) -> None:
            left.clear()

    monkeypatch.setattr("mmvidformer.video.connection.cv2.VideoCapture", Camera)
    monkeypatch.setattr("mmvidformer.video.capture.time.perf_counter", lambda: now[0])
    return Capture("0")


def test_a_missing_camera_is_told_once(capfd) -> None:
    with pytest.raises(CaptureLost, match="^camera 97 does not exist or is in use$"):
        Capture("97")
    assert capfd.readouterr() == ("", "")


def test_a_camera_goes_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    with (
        camera(monkeypatch, [i / 10 for i in range(12)]) as source,
        pytest.raises(ConnectionError, match="camera 0 stopped after 12 frames"),
    ):
        assert (source.is_live, source.fps, source.total) == (True, 30, None)
        found.extend(source.frames(time_step=0.25))  # keeps what came before the error
    numbers, seconds, pictures = zip(*found, strict=True)
    assert numbers == (0, 3, 5, 8, 10)
    assert seconds == pytest.approx([0, 0.3, 0.5, 0.8, 1.0])
    assert pictures[0][0, 0].tolist() == [3, 2, 1]  # RGB


def test_frames_are_not_made_up_for_after_a_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    source = camera(monkeypatch, [0.0, 0.1, 0.26, 1.9, 1.95, 2.01, 2.2])
    with source, pytest.raises(ConnectionError):
        found.extend(number for number, _, _ in source.frames(time_step=0.25))
    assert found == [0, 2, 3, 5]
