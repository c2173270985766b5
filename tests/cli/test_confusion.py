import numpy as np
import pytest

from lab.plot.views import draw_views
from mmvidformer.errors import UserError
from mmvidformer.sinks.scores import Scores, draw_confusion, read_arrays, select_scores


def read_scores(path, task: str | None = None) -> Scores:
    return select_scores(read_arrays(path), task, path)


def test_a_large_matrix_shows_the_most_confused_classes() -> None:
    counts = 6 * np.eye(40, dtype=int)
    counts[7, 30], counts[7, 2] = 3, 1  # wrong: 4 of class 7, 3 with 30, 1 with 2
    axes = draw_confusion(counts, [f"class {i}" for i in range(40)], most=2).axes[0]
    shares = axes.images[0].get_array()
    np.testing.assert_allclose(shares, [[0.6, 0.3, 0.1], [0, 1, 0]])
    assert [t.get_text() for t in axes.get_yticklabels()] == ["class 7", "class 30"]
    assert axes.get_xticklabels()[-1].get_text() == "any other"
    assert "2 most confused of 40 classes" in axes.get_title()


def test_views_are_drawn_in_percent() -> None:
    curves = {"1 crop": {1: 0.5, 3: 0.625}, "3 crops": {1: 0.75}}
    (axes,) = draw_views(curves, "acc/top1").axes
    assert axes.get_ylabel() == "acc/top1 in %" and list(axes.get_xticks()) == [1, 3]
    assert [(x.get_label(), x.get_xydata().tolist()) for x in axes.lines] == [
        ("1 crop", [[1, 50], [3, 62.5]]),
        ("3 crops", [[1, 75]]),
    ]


def test_only_saved_scores_are_read(tmp_path) -> None:
    path = tmp_path / "s.npz"
    np.savez(path, scores_noun=np.eye(2), scores_verb=np.eye(2), labels=np.array([[0, 1], [0, 0]]))
    assert read_scores(path, "verb")[1].tolist() == [1, 0]
    assert read_scores(path, "noun")[1].tolist() == [0, 0]
    with pytest.raises(ValueError, match="must have scores and labels, got scores_noun, scores_v"):
        read_scores(path)
    np.savez(path, scores=np.ones((2, 6, 3)), labels=np.array([0, 1]))
    with pytest.raises(ValueError, match=r"got \(2, 6, 3\)"):
        read_scores(path)
    np.savez(path, scores=np.array([print], dtype=object), labels=np.array([0]))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        read_scores(path)
    with pytest.raises(
        ValueError, match=r"an .npz of mmvidformer test --dump FILE.npz, got .*s.pkl"
    ):
        read_scores(tmp_path / "s.pkl")


@pytest.mark.parametrize("content", [b"", b"PK\3\4 no zip", b"text"])
def test_a_damaged_file_is_named(content: bytes, tmp_path) -> None:
    (tmp_path / "s.npz").write_bytes(content)
    with pytest.raises(UserError, match=r"scores must be an .npz .*, but .*s.npz is none: \w"):
        read_arrays(tmp_path / "s.npz")


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_scores_that_are_no_numbers_are_no_answers(number: float, tmp_path) -> None:
    scores = np.eye(4)
    scores[1:3, 0] = number
    arrays = dict(scores=scores, labels=np.arange(4), videos=np.array(list("abcd")))
    np.savez(tmp_path / "s.npz", **arrays)
    with pytest.raises(UserError, match="s.npz: scores of 2 videos are no numbers"):
        read_arrays(tmp_path / "s.npz")
    # Those of bad videos are no answers of the model.
    np.savez(tmp_path / "s.npz", **arrays, bad_videos=np.isin(np.arange(4), (1, 2)))
    assert read_arrays(tmp_path / "s.npz")["bad_videos"].tolist() == [False, True, True, False]
    np.savez(tmp_path / "s.npz", **arrays | dict(scores=np.eye(4)))
    assert read_arrays(tmp_path / "s.npz")["bad_videos"].tolist() == [False] * 4


def test_videos_that_could_not_be_read_are_skipped(tmp_path) -> None:
    path, labels = tmp_path / "s.npz", np.array([0, 1, 2])
    bad = np.array([False, True, False])
    np.savez(path, scores=np.eye(3), labels=labels, bad_videos=bad, videos=np.array(list("abc")))
    found = read_scores(path)
    assert found.labels.tolist() == [0, 2] and found.videos.tolist() == ["a", "c"]
    assert found.values.tolist() == [[1, 0, 0], [0, 0, 1]]
    np.savez(path, scores=np.eye(3), labels=labels, bad_videos=np.ones(3, bool))
    with pytest.raises(ValueError, match="no readable video has a label"):
        read_scores(path)


@pytest.mark.parametrize("labels", [[[0, 1], [1, 1]], [[0.0, 1], [1, 1]], [0.5, 1.0]])
def test_tests_without_one_class_a_video_are_refused(tmp_path, labels) -> None:
    """Such as several labels, of which the first column is no class, and values."""
    np.savez(tmp_path / "s.npz", scores=np.eye(2), labels=np.array(labels))
    with pytest.raises(ValueError, match="must have one class a video, got several labels, or num"):
        read_scores(tmp_path / "s.npz")


def test_videos_without_a_label_are_left_out(tmp_path) -> None:
    videos = np.array(["a", "b", "c"])
    np.savez(tmp_path / "s.npz", scores=np.eye(3), labels=np.array([2, -1, 0]), videos=videos)
    scores = read_scores(tmp_path / "s.npz")
    assert scores.labels.tolist() == [2, 0] and scores.videos.tolist() == ["a", "c"]
    np.testing.assert_array_equal(scores.values, np.eye(3)[[0, 2]])
    np.savez(tmp_path / "s.npz", scores=np.eye(3), labels=np.array([-1, -1, -1]))
    with pytest.raises(ValueError, match="no readable video has a label"):
        read_scores(tmp_path / "s.npz")
