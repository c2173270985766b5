"""Clips that are cut from real videos, mirrored and played backward."""

import csv
from pathlib import Path

import av
import numpy as np
import pytest

from benchmarks import real_clips
from lab.synthetic.render import write_video


def film(frames: int = 48) -> np.ndarray:
    """Return frames (T, 112, 128, 3) over which a bright bar moves to the left."""
    made = np.zeros((frames, 112, 128, 3), np.uint8)
    for number, frame in enumerate(made):
        frame[:, 120 - 2 * number : 124 - 2 * number] = 255
    return made


def position(path: Path, number: int) -> int:
    """Return the column of the bar in a frame of a clip."""
    with av.open(str(path)) as file:
        frames = [frame.to_ndarray(format="gray") for frame in file.decode(video=0)]
    assert len(frames) == real_clips.FRAMES
    return int(frames[number].mean(axis=0).argmax())


@pytest.fixture
def cut(tmp_path: Path) -> Path:
    """Clips of three videos, each with four labelled seconds, of which the last is static."""
    videos, out, rows = tmp_path / "videos", tmp_path / "out", tmp_path / "rows.csv"
    videos.mkdir()
    names = [f"{letter}.mp4" for letter in "abc"]
    for name in names:
        write_video(videos / name, film(), 16)
    with open(rows, "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["video", "second", "class"])
        for name in names:
            table.writerows([[name, 0.5, "pan left"], [name, 1.0, "pan left"], [name, 0, ""]])
            table.writerow([name, 0.0, "zoom in"])
            table.writerow([name, 1.5, "static"])
        table.writerow(["lost.mp4", 0.0, "static"])
    real_clips.main([str(videos), str(out), "--rows", str(rows)])
    return out


def read(path: Path) -> dict[str, int]:
    return {file: int(label) for file, label in map(str.split, path.read_text().splitlines())}


def test_clips_are_mirrored_and_played_backward(cut: Path) -> None:
    train = read(cut / "train.txt")
    assert {train[f"train/a.mp4_0.5_{n}.mp4"] for n in range(4)} == {1}
    assert (cut / "classes.txt").read_text().split() == list(real_clips.CLASSES)
    first, mirrored, backward, both = (cut / "train" / f"a.mp4_0.5_{n}.mp4" for n in range(4))
    # 8 frames later than the first of all
    assert [position(first, n) for n in (0, 16)] == pytest.approx([106, 74], abs=2)
    assert [position(mirrored, n) for n in (0, 16)] == pytest.approx([21, 53], abs=2)
    assert [position(backward, n) for n in (0, 16)] == pytest.approx([74, 106], abs=2)
    assert position(both, 0) == pytest.approx(53, abs=2)


def test_the_end_of_a_video_is_for_validation(cut: Path) -> None:
    """The last third of its seconds, as they are."""
    expected = {f"val/{name}.mp4_1_0.mp4": 1 for name in "abc"}
    assert read(cut / "val.txt") == expected | {f"val/{name}.mp4_1.5_0.mp4": 0 for name in "abc"}
    assert len(read(cut / "train.txt")) == 3 * 2 * 4


def test_a_clip_that_ends_early_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "short.mp4"
    write_video(path, film(20), 16)
    assert [begin for begin, *_ in real_clips.cut_clips(path, [(0.0, 0), (1.0, 0)])] == [0.0]
