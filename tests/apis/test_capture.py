from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mmvidformer.apis import Capture, Pace


@pytest.mark.parametrize(
    ("fps", "pace", "numbers"),
    [
        (8, Pace(), [*range(20)]),
        (8, Pace(frames=3), [0, 3, 6, 9, 12, 15, 18]),
        (8, Pace(seconds=0.25), [*range(0, 20, 2)]),
        (30, Pace(seconds=0.25), [0, 8, 15]),  # 7.5 is not there yet at frame 7
        (4, Pace(seconds=0.25), [*range(20)]),
    ],
)
def test_frames_are_taken_at_the_pace(
    film: Callable, fps: float, pace: Pace, numbers: list[int]
) -> None:
    with Capture(film(20, fps)) as video:
        assert (video.fps, video.total) == (fps, 20)
        found = list(video.frames(pace))
    assert [number for number, _, _ in found] == numbers
    for number, seconds, pixels in found:
        assert seconds == pytest.approx(number / fps)
        assert pixels.shape == (48, 64, 3)
        assert abs(pixels.mean() - 10 * number % 250) < 3


def test_a_stall_is_not_caught_up_with() -> None:
    pace = Pace(seconds=0.25)
    times = [0.0, 0.1, 0.26, 1.9, 1.95, 2.01, 2.2]
    assert [pace(i, t) for i, t in enumerate(times)] == [1, 0, 1, 1, 0, 1, 0]


def test_sources_that_cannot_be_read_are_named(film: Callable, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no video file gone.mp4"):
        Capture("gone.mp4")
    text = tmp_path / "text.mp4"
    text.write_text("no video")
    with pytest.raises(ValueError, match="text.mp4 cannot be read as a video"):
        Capture(text)
    with pytest.raises(ConnectionError, match="there is no camera 97"):
        Capture("97")


def test_a_file_that_breaks_off_is_told(film: Callable) -> None:
    whole = film(20, 8)
    data = whole.read_bytes()
    with Capture(whole) as video, pytest.warns(UserWarning, match=r"after 20 of the 33 frames"):
        video.total = 33
        assert len(list(video.frames(Pace()))) == 20
    empty = whole.with_name("empty.avi")
    empty.write_bytes(data[: data.index(b"movi") + 4])
    with pytest.raises(ValueError, match="empty.avi"), Capture(empty) as video:
        list(video.frames(Pace()))


def test_a_camera_goes_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A camera that gives a frame every 0.1 s, and stops after 12."""
    now = [100.0]

    class Camera:
        def __init__(self, number: int) -> None:
            assert number == 0
            self.left = 12

        def isOpened(self) -> bool:
            return True

        def get(self, what: int) -> float:
            return -1.0

        def grab(self) -> bool:
            now[0] += 0.1
            self.left -= 1
            return self.left >= 0

        def retrieve(self) -> tuple[bool, np.ndarray]:
            return True, np.full((4, 6, 3), [1, 2, 3], np.uint8)

        def release(self) -> None:
            self.left = 0

    monkeypatch.setattr("mmvidformer.apis.capture.cv2.VideoCapture", Camera)
    monkeypatch.setattr("mmvidformer.apis.capture.time.perf_counter", lambda: now[0])
    found = []
    with Capture("0") as camera, pytest.raises(ConnectionError, match="camera 0 .* after 12"):
        assert (camera.is_camera, camera.fps, camera.total) == (True, 30, None)
        found.extend(camera.frames(Pace(seconds=0.25)))  # keeps what came before the error
    numbers, seconds, pictures = zip(*found, strict=True)
    assert numbers == (0, 3, 5, 8, 10)
    assert seconds == pytest.approx([0, 0.3, 0.5, 0.8, 1.0])
    assert pictures[0][0, 0].tolist() == [3, 2, 1]  # RGB
