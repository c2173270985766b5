import numpy as np
from matplotlib.colors import to_rgba

from lab.plot.tsne import draw_classes


def test_each_class_has_its_color_and_name() -> None:
    points = np.arange(12.0).reshape(6, 2)
    axes = draw_classes(points, np.array([4, 0, 4, 2, 0, 4]), list("abcde"), "title").axes[0]
    assert axes.get_title() == "title"
    by_name = {group.get_label(): group for group in axes.collections}
    assert list(by_name) == ["a", "c", "e"]
    np.testing.assert_array_equal(by_name["e"].get_offsets(), points[[0, 2, 5]])
    assert len({tuple(group.get_facecolor()[0]) for group in by_name.values()}) == 3
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "c", "e"]


def test_rare_classes_of_many_are_gray() -> None:
    labels = np.repeat([7, 3, 5, 1], [1, 4, 2, 3])
    axes = draw_classes(np.zeros((10, 2)), labels, list("abcdefgh"), most=2).axes[0]
    assert [g.get_label() for g in axes.collections] == ["2 other classes", "b", "d"]
    assert len(axes.collections[0].get_offsets()) == 3
    assert tuple(axes.collections[0].get_facecolor()[0]) == to_rgba("0.8")
