from types import SimpleNamespace

import cv2
import numpy as np
import pytest

from mmvidformer.visualization import Window


def test_pages_wait_until_they_are_due(monkeypatch: pytest.MonkeyPatch) -> None:
    now, waited, shown, closed = [5.0], [], [], []
    keys = iter([-1, -1, ord("q")])

    def wait(milliseconds: int) -> int:
        waited.append(milliseconds)
        now[0] += milliseconds / 1000
        return next(keys)

    fake = SimpleNamespace(
        namedWindow=lambda title: None,
        imshow=lambda title, page: shown.append(page[0, 0].tolist()),
        waitKey=wait,
        destroyWindow=closed.append,
        cvtColor=cv2.cvtColor,
        COLOR_RGB2BGR=cv2.COLOR_RGB2BGR,
        error=cv2.error,
    )
    monkeypatch.setattr("mmvidformer.visualization.window.cv2", fake)
    monkeypatch.setattr("mmvidformer.visualization.window.time.perf_counter", lambda: now[0])
    monkeypatch.setenv("DISPLAY", ":0")
    page = np.full((2, 2, 3), [1, 2, 3], np.uint8)
    with Window("demo") as window:
        assert window.show(page, 0.0)
        now[0] += 0.1  # the next step is computed
        assert window.show(page, 0.25)
        assert not window.show(page)  # a camera's is shown at once; q was pressed
    assert waited == [1, 149, 1]
    assert shown == [[3, 2, 1]] * 3
    assert closed == ["demo"]
