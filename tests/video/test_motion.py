"""Motion that a file's codec holds."""

from pathlib import Path

import av
import numpy as np
import pytest

from mmvidformer.video.errors import BadVideo
from mmvidformer.video.motion import measure_motion

SIDE, STEP = 128, 4


def write(path: Path, frames: list[np.ndarray], codec: str = "libx264") -> Path:
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=25, width=SIDE, height=SIDE, pix_fmt="yuv420p")
        stream.options = {"bf": "0", "g": "100"} | ({"preset": "slow"} if "264" in codec else {})
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())
    return path


def texture(side: int) -> np.ndarray:
    """Smooth random pixels, so that blocks are found again."""
    rough = np.random.RandomState(0).randint(0, 256, (side // 8, side // 8))
    picture = np.kron(rough, np.ones((8, 8)))
    return np.repeat(picture[..., None], 3, axis=2).astype(np.uint8)


def square_moves(count: int = 8) -> list[np.ndarray]:
    """A square in the upper left quarter goes right."""
    frames = []
    for number in range(count):
        frame = np.full((SIDE, SIDE, 3), 90, np.uint8)
        left = 8 + STEP * number
        frame[16:48, left : left + 32] = texture(32)
        frames.append(frame)
    return frames


def camera_pans(count: int = 8) -> list[np.ndarray]:
    picture = texture(SIDE + STEP * count)
    return [picture[:SIDE, STEP * n : STEP * n + SIDE].copy() for n in range(count)]


@pytest.mark.parametrize(("codec", "suffix"), [("libx264", "mp4"), ("mpeg4", "avi")])
def test_motion_is_where_things_move(tmp_path: Path, codec: str, suffix: str) -> None:
    path = write(tmp_path / f"a.{suffix}", square_moves(), codec)
    motion = measure_motion(path, [0, 2, 6], (2, 2))
    assert motion.shape == (3, 2, 2)
    assert not motion[0].any()  # a key frame
    assert (motion[1:, 0, 0] > 0.5).all()
    assert (motion[1:].reshape(2, 4)[:, 1:] < motion[1:, 0, :1] / 4).all()
    assert motion[2, 0, 0] > 1.5 * motion[1, 0, 0]  # over twice as many frames


def test_motion_of_a_camera_is_subtracted(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mp4", camera_pans())
    moving = measure_motion(path, [0, 4], (4, 4))[1]
    steady = measure_motion(path, [0, 4], (4, 4), steady=True)[1]
    assert moving.mean() == pytest.approx(4 * STEP, rel=0.2)
    assert steady[:, :3].mean() < moving.mean() / 4


def test_grids_need_not_divide_frames(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mp4", camera_pans(3))
    assert measure_motion(path, [1, 2], (5, 7)).shape == (2, 5, 7)


def test_a_frame_that_a_file_lacks_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mp4", camera_pans(3))
    with pytest.raises(BadVideo, match="needs frame 8"):
        measure_motion(path, [0, 7], (2, 2))
