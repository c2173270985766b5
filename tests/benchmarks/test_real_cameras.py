"""Labels of real cameras: they agree with generated films whose motion is known."""

import av
import numpy as np
import pytest

from benchmarks.camera_tracking import (
    CLASSES,
    EDGE,
    MOMENTS,
    fit_step,
    label_windows,
    name_motion,
)
from benchmarks.real_cameras import NAMES, accuracy, main, middle_square, whole_frames
from mmvidformer.synthetic.camera import paths
from mmvidformer.synthetic.camera.clips import film
from mmvidformer.synthetic.camera.textures import texture


def scene(steps: np.ndarray) -> np.ndarray:
    return film(texture(5), steps, 128 + 128j, 192, 192)


@pytest.mark.parametrize("label", range(9))
def test_labels_are_the_classes_of_generated_films(label: int, write) -> None:
    """The camera moves at 0.2 widths per second, at 16 frames per second."""
    speeds = np.zeros(4)
    if label:
        part, positive = divmod(label - 1, 2)
        speeds[part] = 0.2 if positive else -0.2
    assert paths.class_of(speeds / EDGE) == label
    path = write(f"{label}.avi", scene(np.tile(speeds / EDGE / 16, (15, 1))))
    (window,) = label_windows(path)
    assert (window.label, window.reason) == (paths.CLASSES[label], "")
    np.testing.assert_allclose(window.speeds, speeds, atol=0.01)
    assert window.frames.shape == (8, 192, 192, 3)


@pytest.mark.skipif(
    not hasattr(av.VideoStream, "set_display_rotation"),
    reason="this PyAV cannot write rotation tags",
)
def test_frames_are_turned_upright(write) -> None:
    frames = scene(np.tile([0.2 / 16, 0, 0, 0], (15, 1)))
    path = write("lies.mp4", np.ascontiguousarray(np.rot90(frames, -1, axes=(1, 2))), rotation=90)
    (window,) = label_windows(path)
    assert window.label == "pan right"
    assert np.abs(window.frames[0].astype(int) - frames[0]).mean() < 12


def test_units_are_those_of_the_classes() -> None:
    assert CLASSES == paths.CLASSES
    np.testing.assert_array_equal(EDGE, paths.EDGE)
    assert MOMENTS == paths.FPS


def test_an_object_in_most_of_the_frame_leaves_no_label() -> None:
    frames = scene(np.zeros((1, 4)))
    other = film(texture(9), np.tile([0.03, 0, 0, 0], (1, 1)), 90 + 90j, 192, 192)
    frames[:, :, :100] = other[:, :, :100]
    gray = [frame.mean(axis=2).astype(np.uint8) for frame in frames]
    assert fit_step(gray) is None
    assert fit_step([gray[0], gray[0]]) is not None
    assert fit_step([0 * gray[0], 0 * gray[0]]) is None


@pytest.mark.parametrize(
    ("speeds", "found"),
    [
        ([0.2, 0.09, 0, 0], ("pan right", "")),
        ([0.2, 0.11, 0, 0], ("", "mixed motions")),
        ([0, 0, -0.06, 0], ("", "hardly moves")),
        ([0.02, 0, 0, -0.02], ("static", "")),
    ],
)
def test_rules(speeds: list[float], found: tuple[str, str]) -> None:
    steps = np.tile(speeds, (7, 1))
    assert name_motion(steps) == found


def test_steps_must_agree() -> None:
    steps = np.tile([0.2, 0, 0, 0], (7, 1))
    steps[3, 0] = -0.01
    assert name_motion(steps) == ("", "changes direction")
    still = np.zeros((7, 4))
    still[2:4, 1] = 0.06, -0.06
    assert name_motion(still) == ("", "shakes")


def test_middle_square() -> None:
    frames = np.zeros((8, 100, 300, 3), np.uint8)
    frames[:, :, 100:200] = 200
    assert (middle_square(frames) == 200).all()
    assert middle_square(frames).shape == (8, 128, 128, 3)
    assert whole_frames(frames).shape == (8, 128, 384, 3)


def row(video: str, label: str, answer: str, **more: str) -> dict[str, str]:
    return {"part": "test", "video": video, "class": label, **dict.fromkeys(NAMES, answer), **more}


def test_intervals_are_by_video() -> None:
    """Ten windows of one video are one observation; of ten videos, they are ten."""
    same = [row("a", "static", "static")] * 5 + [row("b", "static", "pan left")] * 5
    assert accuracy(same, NAMES[0]) == "50.0% (0.0-100.0)"
    apart = [row(str(number), "static", CLASSES[number % 2]) for number in range(10)]
    assert accuracy(apart, NAMES[0]) == "50.0% (20.0-80.0)"
    assert accuracy(same[:5], NAMES[0]) == "100.0%"


def test_answers_and_tables(write, tmp_path, capsys) -> None:
    """An empty file is left out, and the tables of the csv file are those of the run."""
    folder = tmp_path / "videos"
    folder.mkdir()
    write("still.avi", scene(np.zeros((31, 4)))).rename(folder / "still.avi")
    write("zooms.avi", scene(np.tile([0, 0, 0.025, 0], (15, 1)))).rename(folder / "zooms.avi")
    (folder / "empty.avi").touch()
    videos = tmp_path / "videos.csv"
    videos.write_text("video,part\nstill.avi,known\nzooms.avi,test\n")
    out = tmp_path / "windows.csv"
    main([str(folder), "--videos", str(videos), "--out", str(out)])
    said = capsys.readouterr()
    assert "empty.avi: left out, " in said.err and "still.avi: 3 labels" in said.err
    lines = out.read_text().splitlines()
    assert lines[0] == "part,video,second,class,speed,probability," + ",".join(NAMES)
    assert [line.split(",")[:4] for line in lines[1:]] == [
        ["known", "still.avi", "0.0", "static"],
        ["known", "still.avi", "0.5", "static"],
        ["known", "still.avi", "1.0", "static"],
        ["test", "zooms.avi", "0.0", "zoom in"],
    ]
    assert "| zoom in | 100.0% | 100.0% | 100.0% | 1 | 1 |" in said.out
    assert "| still.avi | 100.0% | 100.0% | 100.0% | 3 | 1 |" in said.out
    assert "| static |" not in said.out  # the known videos count apart
    main([str(out)])
    assert capsys.readouterr().out == said.out
    main([str(folder), "--whole", "--model", "camera_motion", "published://camera_motion"])
    assert "| zoom in | 100.0% |" in capsys.readouterr().out  # its frames are square
