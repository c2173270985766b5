import warnings

import pytest

from benchmarks.plots import draw_bars, draw_costs, draw_growth, draw_losses, draw_minutes


def test_curves_are_drawn_as_given() -> None:
    curves = {
        "crop": {"Joint": {2: 1.0, 4: 5.0}, "Divided": {2: 1.5, 4: 3.0}},
        "frames": {"Joint": {8: 2.0}},
    }
    left, right = draw_costs(curves).axes
    assert [(line.get_label(), line.get_xydata().tolist()) for line in left.lines] == [
        ("Joint", [[2, 1], [4, 5]]),
        ("Divided", [[2, 1.5], [4, 3]]),
    ]
    assert (left.get_xlabel(), right.get_xlabel()) == ("crop", "frames")
    assert left.get_ylim()[0] == 0


def test_growth_is_drawn_on_logarithmic_axes() -> None:
    panels = {"joint: ms": {"linear": [(16, 2.0), (4, 0.5)]}, "a": {}, "b": {"x": [(1, 1)]}}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # as of a legend with nothing in it
        figure = draw_growth(panels)
    assert [axes.get_ylabel() for axes in figure.axes] == list(panels)
    (line,) = figure.axes[0].lines
    assert line.get_xydata().tolist() == [[4, 0.5], [16, 2]]
    assert (figure.axes[0].get_xscale(), figure.axes[0].get_yscale()) == ("log", "log")
    assert draw_growth({}).axes == []


def test_minutes_are_drawn_from_zero_up() -> None:
    left, right = draw_minutes({"ms": {"clock": [5.0, 6.0]}, "MiB": {"now": [700.0]}}).axes
    (line,) = left.lines
    assert line.get_xydata().tolist() == [[1, 5], [2, 6]]
    assert (left.get_ylabel(), right.get_ylim()[0]) == ("ms", 0)


def test_losses_are_means_of_runs() -> None:
    (axes,) = draw_losses({"a": [[4.0] * 20 + [2.0] * 20, [2.0] * 60], "b": [[1.0]]}, 1.5).axes
    first, second, chance = axes.lines
    shares, means = first.get_xydata().T
    assert shares.tolist() == pytest.approx(range(5, 101, 5))
    assert means.tolist() == [3.0] * 10 + [2.0] * 10
    assert set(second.get_ydata()) == {1.0} and set(chance.get_ydata()) == {1.5}


def test_bars_have_their_floors() -> None:
    panels = {"a": {"ours": (3.0, 1.0), "theirs": (4.0, 2.0)}, "b": {"ours": (5.0, 5.0)}}
    left, right = draw_bars(panels, "ms").axes
    assert [bar.get_width() for bar in left.patches] == [3, 4]
    assert left.collections[0].get_offsets()[:, 0].tolist() == [1, 2]
    assert [label.get_text() for label in left.get_yticklabels()] == ["ours", "theirs"]
    assert (right.get_title(), right.get_xlabel()) == ("b", "ms")
    single = draw_bars({"a": panels["a"]}, "ms")
    assert single.axes[0].get_gridspec().ncols == 1  # no empty half
