"""Segments of one class, from the windows of a video."""

import csv
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.patches import Patch
from matplotlib.transforms import Bbox

from mmvidformer.apis import Prediction
from mmvidformer.sinks.base import SinkOptions
from mmvidformer.sinks.segments import SegmentsCsv
from mmvidformer.sinks.timeline import draw_timeline
from mmvidformer.tasks.joined_windows import list_segments
from mmvidformer.tasks.table import find_task

CLASSES, NUMBER, SEGMENTS = map(find_task, ("classes", "number", "segments"))
NAMES = {"class": ["left", "right"]}


def windows(*rights: float) -> list[Prediction]:
    """Windows of 2 s every second, with the probability of the second class."""
    return [
        Prediction(
            {"class": None},
            {"class": np.array([1 - p, p])},
            NAMES,
            "x.mp4",
            (i, i + 2),
            task=CLASSES,
        )
        for i, p in enumerate(rights)
    ]


def rows_of(segments: list[Prediction]) -> list[tuple]:
    rows = [segment.row() for segment in segments]
    return [tuple(row[name] for name in ("start", "end", "label", "score")) for row in rows]


@pytest.mark.parametrize(
    "rights, expected",
    [
        ([0.25], [(0, 2, "left", 0.75)]),
        ([0.25, 0.0], [(0, 3, "left", 0.875)]),
        ([0.25, 1.0, 0.5, 0.0], [(0, 1.5, "left", 0.75), (1.5, 2.5, "right", 1.0),
                                 (2.5, 5, "left", 0.75)]),
    ],
)  # fmt: skip
def test_segments_meet_between_windows(rights, expected) -> None:
    assert rows_of(list_segments(windows(*rights))) == expected


def test_a_segment_ends_at_a_cut_also_if_the_class_stays() -> None:
    """And begins with the first window of the next shot, wherever the last one before it ended."""
    before = windows(0.25, 0.0)  # to second 3; the cut is at 3.5
    after = [
        replace(window, seconds=(start, start + 2), shot=1)
        for window, start in zip(windows(0.5, 1.0), (3.5, 4.5), strict=True)
    ]
    expected = [(0, 3.5, "left", 0.875), (3.5, 5, "left", 0.5), (5, 6.5, "right", 1.0)]
    assert rows_of(list_segments(before + after)) == expected


def test_cuts_are_dashed_lines() -> None:
    first, second, third = windows(0.25, 0.0, 0.5)
    second, third = replace(second, shot=1), replace(third, shot=1)
    (axes,) = draw_timeline([first, second, third]).axes
    dashed = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert [list(line.get_xdata()) for line in dashed] == [[1, 1]]
    left, *_ = (line for line in axes.lines if line not in dashed)
    np.testing.assert_array_equal(left.get_xdata(), [1, np.nan, 2, 3])  # no line crosses it
    np.testing.assert_array_equal(left.get_ydata(), [0.75, np.nan, 1.0, 0.5])


def write_parts(path, predictions) -> None:
    with SegmentsCsv(path, SinkOptions(force=True)) as table:
        for prediction in predictions:
            table.append(prediction)


def test_rows_are_written_as_segments_end(tmp_path) -> None:
    """Also those of the video before, and what an interrupted run knows of the last segment."""
    first, second = windows(0.25, 1.0), windows(0.0, 0.25, 1.0)
    second = [replace(one, source="y.mp4") for one in second]
    rows, counts = tmp_path / "a.csv", []
    with pytest.raises(KeyboardInterrupt), SegmentsCsv(rows, SinkOptions()) as table:
        for prediction in first + second:
            table.append(prediction)
            counts.append(len(rows.read_text().splitlines()))
        raise KeyboardInterrupt
    assert counts == [0, 2, 3, 3, 4]
    whole = rows.read_text()
    assert whole.splitlines()[3:] == ["y.mp4,0.0,2.5,left,0.875", "y.mp4,2.5,4.0,right,1.0"]
    write_parts(rows, first)
    assert whole.startswith(rows.read_text())


def test_segments_are_a_table(tmp_path) -> None:
    write_parts(tmp_path / "a.csv", windows(0.25, 1.0))
    with open(tmp_path / "a.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["video", "start", "end", "label", "score"]
    assert rows[1:] == [["x.mp4", "0.0", "1.5", "left", "0.75"],
                        ["x.mp4", "1.5", "3.0", "right", "1.0"]]  # fmt: skip
    write_parts(tmp_path / "a.csv", [])  # of no segments there is a header
    assert (tmp_path / "a.csv").read_text() == "video,start,end,label,score\n"


def values(*speeds: float) -> list[Prediction]:
    """Windows of 2 s every second, with a value."""
    names = {"class": ["speed"]}
    return [
        Prediction({"class": np.array([x])}, {}, names, "x.mp4", (i, i + 2), task=NUMBER)
        for i, x in enumerate(speeds)
    ]


def test_values_are_a_table_and_a_line(tmp_path) -> None:
    write_parts(tmp_path / "a.csv", values(0.25, 1.5))
    with open(tmp_path / "a.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["video", "start", "end", "speed"]
    assert rows[1:] == [["x.mp4", "0.0", "2.0", "0.25"], ["x.mp4", "1.0", "3.0", "1.5"]]
    axes = draw_timeline(values(0.25, 1.5)).axes[0]
    assert axes.lines[0].get_xydata().tolist() == [[1, 0.25], [2, 1.5]]
    assert axes.get_ylabel() == "" and not axes.patches


def extent(patch: Patch, axes: Axes) -> Bbox:
    """Times and values; before matplotlib 3.9, spans are polygons, and not rectangles."""
    return patch.get_extents().transformed(axes.transData.inverted())


def test_the_truth_is_drawn_above() -> None:
    axes = draw_timeline(windows(0.25, 1.0), truth=[(0, 1.25, "left"), (1.25, 3, "up")]).axes[0]
    bars = [patch for patch in axes.patches if extent(patch, axes).y0 > 1]
    spans = [time for bar in bars for time in extent(bar, axes).intervalx]
    assert spans == pytest.approx([0, 1.25, 1.25, 3])
    assert to_rgb(bars[0].get_facecolor()) == to_rgb(axes.lines[0].get_color())
    assert to_rgb(bars[1].get_facecolor()) == to_rgb("gray")
    assert axes.get_yticklabels()[-1].get_text() == "true"


def test_segments_that_are_found_are_on_the_time_of_the_video() -> None:
    """Also what is before the first and after the last one."""
    found = [replace(one, task=SEGMENTS) for one in windows(0.25, 1.0)]
    axes = draw_timeline(found, duration=7.5).axes[0]
    assert axes.get_xlim() == (0, 7.5) and axes.get_ylabel() == "score of found segments"
    assert draw_timeline(found[1:]).axes[0].get_xlim() == (0, 3)
    assert draw_timeline(windows(0.25), duration=7.5).axes[0].get_xlim() == (0, 2)


def test_a_timeline_shows_the_classes_with_the_highest_peaks() -> None:
    names = {"class": ["a", "b", "c"]}
    rows = [np.array([0.1, 0.2, 0.7]), np.array([0.1, 0.6, 0.3])]
    windows = [
        Prediction({"class": row}, {"class": row}, names, seconds=(i, i + 2), task=CLASSES)
        for i, row in enumerate(rows)
    ]
    axes = draw_timeline(windows, "x.mp4", most=2).axes[0]
    assert {line.get_label(): line.get_xydata().tolist() for line in axes.lines} == {
        "b": [[1, 0.2], [2, 0.6]],
        "c": [[1, 0.7], [2, 0.3]],
    }
    assert axes.get_xlim() == (0, 3)


@pytest.mark.parametrize(
    ("peaks", "shown"),
    [
        ((0.04, 0.05, 0.95), ["b", "c", "others below 5%"]),
        ((0.1, 0.2, 0.7), ["a", "b", "c"]),
        ((0.01, 0.03, 0.02), ["b", "others below 5%"]),  # the highest one in any case
    ],
)
def test_classes_that_stay_low_are_not_drawn(peaks: tuple, shown: list[str]) -> None:
    names = {"class": ["a", "b", "c"]}
    low, high = np.array(peaks) / 2, np.array(peaks)
    windows = [
        Prediction({"class": row}, {"class": row}, names, seconds=(i, i + 2), task=CLASSES)
        for i, row in enumerate((low, high))
    ]
    legend = draw_timeline(windows).axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == shown


def test_a_window_without_numbers_hides_no_line() -> None:
    names = {"class": ["a", "b"]}
    rows = np.array([[0.2, 0.8], [np.nan, np.nan]])
    found = [
        Prediction({"class": row}, {"class": row}, names, seconds=(i, i + 2), task=CLASSES)
        for i, row in enumerate(rows)
    ]
    legend = draw_timeline(found).axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b"]


def test_a_timeline_shows_the_segments() -> None:
    axes = draw_timeline(windows(0.25, 1.0)).axes[0]
    spans = [time for patch in axes.patches for time in extent(patch, axes).intervalx]
    assert spans == pytest.approx([0, 1.5, 1.5, 3])
    colors = [patch.get_facecolor()[:3] for patch in axes.patches]
    assert colors == [to_rgb(line.get_color()) for line in axes.lines]
