"""Labels of real cameras: they agree with generated films whose motion is known."""

import av
import numpy as np
import pytest

from benchmarks import camera_kept
from benchmarks.camera_baselines import dense_flow, fit_velocity, sparse_features
from benchmarks.camera_kept import KeptWindows, resize
from benchmarks.camera_rates import (
    correlation,
    correlation_of_sums,
    correlation_terms,
    interval,
    mean_error,
    said_share,
)
from benchmarks.camera_tracking import (
    CLASSES,
    EDGE,
    MOMENTS,
    fit_step,
    label_windows,
    name_motion,
)
from benchmarks.real_cameras import (
    NAMES,
    accuracy,
    main,
    rates_of,
    write_rates,
)
from lab.synthetic.camera import paths
from lab.synthetic.camera.clips import film
from lab.synthetic.camera.textures import texture


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
    assert window.shake < 0.002
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


def test_shake_is_that_of_the_path(write) -> None:
    """Every second moment the camera is at the other side, at 16 frames per second."""
    sides = np.repeat([0, 0.02], 2)[np.arange(16) % 4]
    steps = np.zeros((15, 4))
    steps[:, 0] = np.diff(sides)
    (window,) = label_windows(write("shakes.avi", scene(steps)))
    assert window.reason == "shakes"
    moments = np.zeros((7, 4))
    moments[:, 0] = np.diff(sides[::2])
    assert paths.measure_shake(moments) > 0.008
    np.testing.assert_allclose(window.shake, paths.measure_shake(moments), rtol=0.1)


def test_resize_keeps_the_aspect_ratio() -> None:
    assert resize(np.zeros((8, 100, 300, 3), np.uint8), 64).shape == (8, 64, 192, 3)
    assert resize(np.zeros((8, 300, 100, 3), np.uint8), 64).shape == (8, 192, 64, 3)


@pytest.mark.parametrize("track", [dense_flow, sparse_features])
@pytest.mark.parametrize("shape", [(96, 192), (192, 96)])
def test_baselines_see_whole_frames(track, shape: tuple[int, int]) -> None:
    """Rates are in short sides, of wide and of tall frames, and rolls are around the middle."""
    frames = film(texture(5), np.tile([0.02, 0.01, 0, 0], (7, 1)), 128 + 128j, 96, shape[::-1])
    assert frames.shape[1:3] == shape
    np.testing.assert_allclose(fit_velocity(frames, track), [0.16, 0.08, 0, 0], atol=0.01)
    frames = film(texture(5), np.tile([0, 0, 0.02, 0.02], (7, 1)), 128 + 128j, 96, shape[::-1])
    np.testing.assert_allclose(fit_velocity(frames, track), [0, 0, 0.16, 0.16], atol=0.01)


def row(video: str, label: str, answer: str) -> dict[str, str]:
    return {"part": "test", "video": video, "class": label, **dict.fromkeys(NAMES, answer)}


def test_intervals_are_by_video() -> None:
    """Ten windows of one video are one observation; of ten videos, they are ten."""
    same = [row("a", "static", "static")] * 5 + [row("b", "static", "pan left")] * 5
    assert accuracy(same, NAMES[0]) == "50.0% (0.0-100.0)"
    apart = [row(str(number), "static", CLASSES[number % 2]) for number in range(10)]
    assert accuracy(apart, NAMES[0]) == "50.0% (20.0-80.0)"
    assert accuracy(same[:5], NAMES[0]) == "100.0%"


def measured(video: str, pan: float, tracked: float) -> dict[str, str]:
    """Make a row of a method and of tracking; roll is 10 times pan."""
    cells = {"video": video}
    for name, speed in ((NAMES[0], pan), ("tracking", tracked)):
        cells |= write_rates(name, rates_of(np.array([speed, 0, 0, 0]), 10 * speed))
    return cells


def test_errors_and_correlations_are_by_video() -> None:
    rows = [measured("a", 0.1, 0.2), measured("a", 0.2, 0.3), measured("b", 0.4, 0.3)]
    assert mean_error(rows, NAMES[0], "pan") == "0.1 (0.1-0.1)"
    rows.append(measured("b", 0.8, 0.5))
    assert mean_error(rows, NAMES[0], "pan") == "0.15 (0.1-0.2)"
    x, y = np.array([0.1, 0.2, 0.4, 0.8]), np.array([0.2, 0.3, 0.3, 0.5])
    found = correlation_of_sums(correlation_terms(x, y).sum(axis=0))
    np.testing.assert_allclose(found, np.corrcoef(x, y)[0, 1])
    low, high = interval(rows, correlation_terms(x, y), correlation_of_sums)
    assert low <= found <= high
    assert correlation(rows, NAMES[0], "shake") == f"{found:.2f} ({low:.2f}-{high:.2f})"
    # Units of the head: a speed of 0.1 is a zoom of 0.2 and a roll of 11.5 degrees a second.
    np.testing.assert_allclose(rates_of(np.full(4, 0.1), 0.3), [0.1, 0.1, 0.2, 11.459, 0.3], 1e-4)


def test_a_rate_counts_in_the_direction_of_tracking() -> None:
    rows = [measured("a", 0.1, 0.2), measured("b", -0.3, -0.4)]
    assert said_share(rows, NAMES[0], "pan") == "0.67 (0.50-0.75)"
    rows.append(measured("c", -0.4, 0.4))
    assert said_share(rows, NAMES[0], "pan") == "0.00 (-1.00-0.75)"


def test_answers_and_tables(write, tmp_path, capsys) -> None:
    """Windows are kept once; the tables of the csv file are those of the run."""
    folder, kept = tmp_path / "videos", tmp_path / "windows"
    folder.mkdir()
    write("still.avi", scene(np.zeros((31, 4)))).rename(folder / "still.avi")
    write("zooms.avi", scene(np.tile([0, 0, 0.025, 0], (15, 1)))).rename(folder / "zooms.avi")
    mixed = np.tile([0.2 / 16, 0.16 / 16, 0, 0], (15, 1))
    write("mixed.avi", scene(mixed)).rename(folder / "mixed.avi")
    (folder / "empty.avi").touch()
    camera_kept.main([str(folder), str(kept)])
    said = capsys.readouterr().err
    assert "empty.avi: 1 until it cannot be read" in said and "still.avi: 3 labels" in said
    assert "mixed.avi: 1 mixed motions" in said
    assert sorted(path.stem for path in kept.iterdir()) == ["mixed.avi", "still.avi", "zooms.avi"]
    windows = KeptWindows.load(kept / "still.avi.npz")
    assert windows.frames.shape == (3, 8, 128, 128, 3) and windows.frames.dtype == np.uint8
    assert [*windows.starts] == [0, 0.5, 1] and [*windows.labels] == ["static"] * 3
    camera_kept.main([str(folder), str(kept)])
    assert "still.avi" not in capsys.readouterr().err

    videos = tmp_path / "videos.csv"
    videos.write_text("video,part\nstill.avi,known\nzooms.avi,test\n")
    out = tmp_path / "rows.csv"
    main([str(kept), "--videos", str(videos), "--out", str(out)])
    said = capsys.readouterr().out
    lines = out.read_text().splitlines()
    assert lines[0].startswith("part,video,second,class,speed,probability,camera_motion,")
    assert [line.split(",")[:4] for line in lines[1:]] == [
        ["test", "mixed.avi", "0.0", ""],
        ["known", "still.avi", "0.0", "static"],
        ["known", "still.avi", "0.5", "static"],
        ["known", "still.avi", "1.0", "static"],
        ["test", "zooms.avi", "0.0", "zoom in"],
    ]
    assert "| zoom in |" in said and "| all | " in said
    assert "| static |" not in said  # the known videos count apart
    assert "Rates, 2 windows in 2 videos:" in said  # of these, one has no label
    assert "| zoom, log zoom/s | 0.2 | " in said
    main([str(out)])
    assert capsys.readouterr().out == said

    lines.append(lines[1].replace("mixed.avi", "lost.avi"))
    out.write_text("\n".join(lines))
    camera_kept.main([str(folder), str(tmp_path / "again"), "--rows", str(out)])
    assert "lost.avi: not in" in capsys.readouterr().err
    assert sorted(path.stem for path in kept.iterdir()) == ["mixed.avi", "still.avi", "zooms.avi"]
    for path in kept.iterdir():
        first, again = (
            vars(KeptWindows.load(path)),
            vars(KeptWindows.load(tmp_path / "again" / path.name)),
        )
        for name in ("starts", "labels", "frames"):
            np.testing.assert_array_equal(again[name], first[name])
        for name in ("speeds", "shakes"):  # three digits are written
            np.testing.assert_allclose(again[name], first[name], rtol=5e-3)
