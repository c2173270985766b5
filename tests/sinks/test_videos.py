from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest

from mmvidformer.video.writer import VideoOutput


def test_pages_are_the_frames_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "images.mp4"
    levels = [[20, 100, 180], [180, 20, 100]]
    with VideoOutput(path, fps=5) as output:
        for level in levels:
            assert output.add(np.full((48, 64, 3), level, np.uint8))
    video = cv2.VideoCapture(str(path))
    assert video.get(cv2.CAP_PROP_FPS) == 5
    assert int(video.get(cv2.CAP_PROP_FOURCC)).to_bytes(4, "little") == b"h264"
    assert video.get(cv2.CAP_PROP_FRAME_COUNT) == 2
    for level in levels:
        np.testing.assert_allclose(video.read()[1][..., ::-1].mean((0, 1)), level, atol=5)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(OSError, match="folder.mp4 was written by another process"),
        VideoOutput(tmp_path / "folder.mp4") as output,
    ):
        (tmp_path / "folder.mp4").mkdir()
        output.add(np.zeros((48, 64, 3), np.uint8))


def test_pages_are_shown_when_they_are_due(monkeypatch: pytest.MonkeyPatch) -> None:
    now, waited, shown, closed = [5.0], [], [], []
    keys = iter([-1, -1, ord("q")])

    def wait(milliseconds: int) -> int:
        waited.append(milliseconds)
        now[0] += milliseconds / 1000
        return next(keys)

    fake = SimpleNamespace(
        namedWindow=lambda title: None,
        imshow=lambda title, image: shown.append(image[0, 0].tolist()),
        waitKey=wait,
        destroyWindow=closed.append,
        cvtColor=cv2.cvtColor,
        COLOR_RGB2BGR=cv2.COLOR_RGB2BGR,
        error=cv2.error,
    )
    monkeypatch.setattr("mmvidformer.video.writer.cv2", fake)
    monkeypatch.setattr("mmvidformer.video.writer.time.perf_counter", lambda: now[0])
    monkeypatch.setenv("DISPLAY", ":0")
    image = np.full((2, 2, 3), [1, 2, 3], np.uint8)
    with VideoOutput(title="demo") as window:
        assert window.add(image, 0.0)
        now[0] += 0.1  # the next step is computed
        assert window.add(image, 0.25)
        assert not window.add(image)  # a camera's image is shown at once; q was pressed
    assert waited == [1, 149, 1]
    assert shown == [[3, 2, 1]] * 3
    assert closed == ["demo"]


def test_opencv_without_windows_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(title: str) -> None:
        raise cv2.error("not implemented")

    monkeypatch.setattr(cv2, "namedWindow", refuse)
    monkeypatch.setenv("DISPLAY", ":0")
    with pytest.raises(ValueError, match="this build of OpenCV shows no windows"):
        VideoOutput(title="demo")
