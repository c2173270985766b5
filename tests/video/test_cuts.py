"""Cuts between shots: hard ones and fades are found; motion, flashes and dissolves are none."""

from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest

from lab.synthetic.camera.clips import film
from lab.synthetic.camera.textures import texture
from mmvidformer.errors import UserError
from mmvidformer.video.cuts import AROUND, mark_cuts, split_shots
from mmvidformer.video.video import Video
from mmvidformer.video.writer import VideoOutput


def shot(picture: int, frames: int = 20, pan: float = 0.0) -> np.ndarray:
    """RGB frames (T, 36, 64, 3) of a camera that looks at a picture; pan in heights a frame."""
    steps = np.tile([pan, 0, 0, 0], (frames - 1, 1))
    colors = np.roll(texture(picture), picture, axis=2)
    return film(colors, steps, 100 + 100j, 90, (64, 36))


def cuts_of(frames: np.ndarray) -> list[int]:
    return [number for number, (_, is_cut) in enumerate(mark_cuts(frames, np.asarray)) if is_cut]


def test_cuts_are_found_and_motion_is_none() -> None:
    frames = np.concatenate([shot(1), shot(2, pan=0.015), shot(3, 7), shot(1)])
    assert cuts_of(frames) == [20, 40, 47]
    assert cuts_of(shot(2, 40, pan=0.3)) == []
    assert cuts_of(frames[:1]) == cuts_of(frames[:0]) == []


@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_flash_is_no_cut(length: int) -> None:
    frames = shot(4, pan=0.02)
    frames[8 : 8 + length] = 250
    assert cuts_of(frames) == []


def test_a_shot_begins_where_black_ends_and_a_dissolve_is_no_cut() -> None:
    share = np.linspace(1, 0, 12)[:, None, None, None]
    dark = np.zeros((8, 36, 64, 3))
    first, second = shot(5), shot(6)
    fade = np.concatenate([first, first[-12:] * share, dark, second[:12] * (1 - share), second])
    (begin,) = cuts_of(fade.astype(np.uint8))
    assert 32 + 8 <= begin <= 32 + 8 + 3
    between = first[-12:] * share + second[:12] * (1 - share)
    assert cuts_of(np.concatenate([first, between, second]).astype(np.uint8)) == []


def test_pictures_come_at_once_unless_they_may_begin_a_shot() -> None:
    taken, frames = [], np.concatenate([shot(1), shot(2)])
    marked = mark_cuts(iter(frames), lambda image: taken.append(1) or image)
    waits = []
    for number in range(len(frames)):
        next(marked)
        waits.append(len(taken) - number - 1)
    # Of the first shot none is held back; of the second one, until it is known to differ.
    assert waits[:20] == [0] * 20 and waits[20] == AROUND and waits[-1] == 0


def test_a_stream_is_split_as_it_comes() -> None:
    frames = np.concatenate([shot(1), shot(2), shot(3)])
    parts = [(first, list(images)) for first, images in split_shots(frames)]
    assert [(first, len(images)) for first, images in parts] == [(0, 20), (20, 20), (40, 20)]
    np.testing.assert_array_equal(np.concatenate([images for _, images in parts]), frames)
    first, images = next(split_shots(iter(frames)))
    assert first == 0 and len(list(islice(images, 5))) == 5  # without the rest


def write(path: Path, frames: np.ndarray, times: np.ndarray | None = None) -> str:
    """Write frames at 25 a second, or at other seconds."""
    import av

    if times is None:
        with VideoOutput(path, 25) as output:
            for image in frames:
                output.add(image)
        return str(path)
    with av.open(str(path), "w") as file:
        stream = file.add_stream("libx264", rate=25)
        stream.height, stream.width, stream.pix_fmt = *frames.shape[1:3], "yuv420p"
        for image, second in zip(frames, times, strict=True):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), "rgb24")
            frame.pts = round(25 * second)
            file.mux(stream.encode(frame))
        file.mux(stream.encode())
    return str(path)


@pytest.mark.parametrize(
    ("frame", "told"),
    [
        (np.zeros((4, 6), np.uint8), r"\(4, 6\) of uint8"),
        (np.zeros((4, 6, 3), np.float32), r"\(4, 6, 3\) of float32"),
        (np.zeros((0, 6, 3), np.uint8), r"\(0, 6, 3\) of uint8"),
        ([[[1, 2, 3]]], "a list"),
        ("video.mp4", "a str"),
        (None, "a NoneType"),
    ],
)
def test_what_is_no_frame_is_told(frame: object, told: str) -> None:
    with pytest.raises(UserError, match=rf"frames must be \(H, W, 3\) of .* uint8, got {told}"):
        next(split_shots([frame]))


def test_shots_of_files_arrays_and_bytes(tmp_path: Path) -> None:
    frames = np.concatenate([shot(1), shot(2), shot(3)])
    path = write(tmp_path / "a.mp4", frames)
    for source in (path, Path(path).read_bytes(), frames):
        video = Video.open(source)
        assert video.shots() == [0, 20, 40] and video.shots("none") == [0]
        assert len(video.frames([59, 3])) == 2  # it reads on
    assert Video.open(frames[:1]).shots() == [0]
    write(tmp_path / "b.mp4", frames[20:]).replace("b", "a")
    (tmp_path / "b.mp4").replace(path)
    assert Video.open(path).shots() == [0, 20]  # another file of the same name


def test_shots_of_a_variable_rate_begin_at_their_seconds(tmp_path: Path) -> None:
    frames = np.concatenate([shot(1), shot(2)])
    times = np.concatenate([np.arange(20) / 25, 0.8 + np.arange(20) / 5])
    video = Video.open(write(tmp_path / "a.mp4", frames, times))
    assert video.shots() == [0, 20] and video.times[20] == pytest.approx(0.8)
    (_, begin) = video.at_constant_rate().shots()
    assert video.at_constant_rate().times[begin] == pytest.approx(0.8, abs=0.04)


def test_a_file_is_decoded_once(tmp_path: Path, monkeypatch) -> None:
    path = write(tmp_path / "a.mp4", np.concatenate([shot(1), shot(2)]))
    first = Video.open(path)
    previews, read = type(first.reader).previews, []
    monkeypatch.setattr(
        type(first.reader), "previews", lambda reader: read.append(1) or previews(reader)
    )
    assert [Video.open(path).shots() for _ in range(3)] == [[0, 20]] * 3 and len(read) == 1


def test_cuts_end_where_a_file_cannot_be_decoded(tmp_path: Path) -> None:
    frames = np.concatenate([shot(number) for number in range(12)])
    path = Path(write(tmp_path / "a.mp4", frames))
    content = bytearray(path.read_bytes())
    content[-len(content) // 2 :] = bytes(len(content) // 2)
    path.write_bytes(content)
    shots = Video.open(str(path)).shots()
    assert shots[0] == 0 and all(a < b < len(frames) for a, b in pairwise([-1, *shots]))


def test_unknown_ways_are_named() -> None:
    with pytest.raises(UserError, match="cuts must be content or none, got 'x'"):
        Video.open(shot(1)).shots("x")
