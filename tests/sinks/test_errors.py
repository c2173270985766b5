"""Errors of a test: which they are, their order, and the page."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest

from mmvidformer.sinks.errors import Mistake, draw_mistakes, find_mistakes, make_page, read_frames
from mmvidformer.sinks.scores import classes_of
from mmvidformer.tasks.score_files import SaveScores

NAMES = ["walk", "run", "<b>jump</b>"]
VIDEOS = np.array(["a.mp4", "b.mp4", "c.mp4"])


def file_of(**arrays: np.ndarray) -> dict[str, np.ndarray]:
    return {"videos": VIDEOS, "bad_videos": np.zeros(3, bool), **arrays}


@pytest.mark.parametrize("are_logits", [True, False])
def test_classes_are_wrong_by_their_best_score(are_logits: bool) -> None:
    shares = np.array([[0.2, 0.7, 0.1], [0.05, 0.05, 0.9], [0.8, 0.1, 0.1]])
    scores = np.log(shares) + 3 if are_logits else shares
    found = find_mistakes(file_of(scores=scores, labels=np.array([0, 0, 0])), NAMES, None, "s")
    assert [(m.video, m.truth, m.answer) for m in found] == [
        ("b.mp4", "walk (5%)", "<b>jump</b> (90%)"),
        ("a.mp4", "walk (20%)", "run (70%)"),
    ]
    assert [m.confidence for m in found] == pytest.approx([0.9, 0.7])
    assert {m.seconds for m in found} == {None}


def test_a_task_of_several(tmp_path: Path) -> None:
    arrays = file_of(scores_verb=np.eye(3), scores_noun=np.eye(3)[::-1])
    arrays["labels"] = np.array([[0, 0], [1, 1], [2, 2]])
    assert find_mistakes(arrays, NAMES, "verb", "s") == []
    assert [m.video for m in find_mistakes(arrays, NAMES, "noun", "s")] == ["a.mp4", "c.mp4"]


def test_labels_are_wrong_on_the_other_side_of_a_half() -> None:
    scores = np.array([[0.9, 0.6, 0.1], [0.2, 0.1, 0.1], [0.9, 0.2, 0.9]])
    labels = np.array([[1, 0, 0], [0, 1, 0], [1, 0, 1]], np.float32)
    arrays = file_of(scores=scores, labels=labels, activation=np.array("sigmoid"))
    found = find_mistakes(arrays, NAMES, None, "s")
    assert [(m.video, m.truth, m.answer) for m in found] == [
        ("b.mp4", "run (10%)", "nothing"),
        ("a.mp4", "walk (90%)", "walk (90%), run (60%)"),
    ]
    logits = {**arrays, "scores": np.log(scores / (1 - scores))}
    again = find_mistakes(logits, NAMES, None, "s")
    assert [m[:3] for m in again] == [m[:3] for m in found]
    arrays["bad_videos"] = np.array([False, True, False])
    assert [m.video for m in find_mistakes(arrays, NAMES, None, "s")] == ["a.mp4"]


@pytest.mark.parametrize("shape", [(3, 1), (3,)])  # of one label or value, with an axis or not
def test_0_and_1_are_what_the_file_says(shape: tuple[int, ...]) -> None:
    labels = np.array([0, 1, 1], np.float32).reshape(shape)
    arrays = file_of(scores=np.array([[0.2], [0.7], [0.4]]), labels=labels)
    found = {
        activation: find_mistakes({**arrays, "activation": np.array(activation)}, ["on"], None, "s")
        for activation in ("sigmoid", "none")
    }
    assert [m[:3] for m in found["sigmoid"]] == [("c.mp4", "on (40%)", "nothing")]
    assert [m[0] for m in found["none"]] == ["c.mp4", "b.mp4", "a.mp4"]
    assert found["none"][0][1:3] == ("on 1", "on 0.4")
    with pytest.raises(ValueError, match="s does not say whether its 0 and 1 are labels or values"):
        find_mistakes(arrays, ["on"], None, "s")


def test_boxes_are_wrong_by_their_classes() -> None:
    # Number of the moment, second, corners, scores, and what is true.
    corners, whole = [0.25, 0.5, 0.75, 1], [0, 0, 1, 1]
    rows = [
        [0, 1.5, *corners, 0.9, 0.2, 0.6, 1, 0, 0],
        [0, 1.5, *whole, 0.1, 0.9, 0.1, 0, 1, 0],
        [2, 3, *whole, 0, 0, 0, 0, 1, 0],
    ]
    found = find_mistakes(file_of(boxes=np.array(rows)), NAMES, None, "s")
    assert found == [
        Mistake("c.mp4", "run (0%)", "nothing", 1.0, (3, 3), whole),
        Mistake("a.mp4", "walk (90%)", "walk (90%), <b>jump</b> (60%)", 0.6, (1.5, 1.5), corners),
    ]


def test_the_box_is_drawn_where_it_is(tiny_videos) -> None:
    plain = Mistake(str(tiny_videos.root / "val_0.mp4"), "a", "b", 1.0, (1, 1))
    boxed = plain._replace(box=[0.25, 0.5, 0.75, 1])
    for (second, frame), (_, drawn) in zip(read_frames(plain), read_frames(boxed), strict=True):
        assert 0.5 <= float(second.removesuffix(" s")) <= 1.5
        height, width = frame.shape[:2]
        changed = np.argwhere((frame != drawn).any(axis=2))
        (top, left), (bottom, right) = changed.min(axis=0), changed.max(axis=0)
        edges = width / 4, height / 2, 3 * width / 4, height - 1
        np.testing.assert_allclose((left, top, right, bottom), edges, atol=2)  # as thick as a line
        assert drawn[height // 2, width // 2].tolist() == [255, 220, 0]
        assert (drawn[3 * height // 4, width // 2] == frame[3 * height // 4, width // 2]).all()


SEGMENTS = dict(
    # Number of the video, start, end, class, score.
    found=np.array(
        [
            [0, 0, 10, 0, 0.9],  # right
            [0, 20, 30, 1, 0.8],  # right place, wrong class
            [0, 50, 60, 1, 0.6],  # nothing is there
            [0, 70, 80, 1, 0.2],  # too weak to be an answer
            [2, 0, 4, 0, 0.5],  # overlaps by less than a half
        ]
    ),
    true=np.array([[0, 1, 10, 0], [0, 20, 31, 0], [0, 90, 95, 2], [2, 0, 10, 0]]),
)


def test_segments_are_false_alarms_or_missed() -> None:
    found = find_mistakes(file_of(**SEGMENTS), NAMES, None, "s")
    assert [m[:3] + (round(m.confidence, 2), m.seconds) for m in found] == [
        ("a.mp4", "<b>jump</b>", "nothing", 1.0, (90, 95)),
        ("c.mp4", "walk", "nothing", 1.0, (0, 10)),
        ("a.mp4", "walk", "run (80%)", 0.8, (20, 30)),
        ("a.mp4", "nothing", "run (60%)", 0.6, (50, 60)),
        ("c.mp4", "nothing", "walk (50%)", 0.5, (0, 4)),
    ]


def test_moments_are_near_or_not() -> None:
    moments = dict(
        found=np.array([[0, 5.4, 5.4, 0, 0.9], [0, 8, 8, 0, 0.7]]), true=np.array([[0, 5, 5, 0]])
    )
    (found,) = find_mistakes(file_of(**moments), NAMES, None, "s")
    assert (found.answer, found.seconds) == ("walk (70%)", (8, 8))


def test_runs_are_wrong_by_probability_and_seconds() -> None:
    rows = [[0, 0, 2, 0, 0, 0.9], [0, 2, 3, 1, 0, 0.9], [1, 1, 5, 0, 1, 0.5], [1, 5, 9, 2, -1, 1]]
    found = find_mistakes(file_of(runs=np.array(rows)), NAMES, None, "s")
    assert found == [
        Mistake("b.mp4", "run", "walk (50%)", 2.0, (1, 5)),
        Mistake("a.mp4", "walk", "run (90%)", 0.9, (2, 3)),
    ]
    assert find_mistakes(file_of(runs=np.zeros((0, 6))), NAMES, None, "s") == []


@pytest.mark.parametrize("shape", [(3, 1), (3,)])  # of one value, with or without an axis
def test_values_are_wrong_by_their_deviation(shape: tuple[int, ...]) -> None:
    labels = np.array([1.0, 3.0, 5.0], np.float32)
    scores = np.array([[1.5], [3.0], [1.0]], np.float32)
    arrays = file_of(scores=scores, labels=labels.reshape(shape))
    found = find_mistakes(arrays, ["speed"], None, "s")
    assert [(m.video, m.truth, m.answer) for m in found] == [
        ("c.mp4", "speed 5", "speed 1"),
        ("a.mp4", "speed 1", "speed 1.5"),
        ("b.mp4", "speed 3", "speed 3"),
    ]
    deviation = (8 / 3) ** 0.5
    assert [m.confidence for m in found] == pytest.approx([4 / deviation, 0.5 / deviation, 0])
    arrays["bad_videos"] = np.array([False, False, True])
    again = find_mistakes(arrays, ["speed"], None, "s")
    assert [(m.video, m.confidence) for m in again] == [("a.mp4", 0.5), ("b.mp4", 0)]
    assert find_mistakes(arrays | dict(bad_videos=np.ones(3, bool)), ["speed"], None, "s") == []


def test_a_video_without_spans_and_a_file_without_any() -> None:
    nothing = dict(found=np.zeros((0, 5)), true=np.zeros((0, 4)))
    assert find_mistakes(file_of(**nothing), NAMES, None, "s") == []
    with pytest.raises(ValueError, match="s has no names of videos; test again with --dump"):
        find_mistakes(nothing, NAMES, None, "s")


def test_classes_of_files_without_spans_or_tasks() -> None:
    assert classes_of(dict(found=np.zeros((0, 5)), true=np.zeros((0, 4)))) == (1, None)
    assert classes_of(dict(runs=np.array([[0, 0, 1, 4, -1, 0.9]]))) == (5, None)
    with pytest.raises(ValueError, match=r"there are no scores_verb \(--task\), only runs"):
        classes_of(dict(runs=np.zeros((0, 6))), "verb")
    with pytest.raises(ValueError, match=r"there are no scores \(--task\), only scores_verb"):
        classes_of(dict(scores_verb=np.eye(3)))


def test_spans_of_a_test_are_saved_by_video(tmp_path: Path) -> None:
    import torch

    spans = dict(segments=torch.tensor([[1.0, 2.0]]), labels=torch.tensor([1]))
    spans["scores"] = torch.tensor([0.75])
    none = {name: values[:0] for name, values in spans.items()}
    metric = SaveScores(str(tmp_path / "a"))
    for video, found in (("a.mp4", none), ("b.mp4", spans)):
        sample = dict(pred_instances=found, spans=[[1, 3, 1]], video_path=video)
        metric.process(None, [sample])
    metric.evaluate(2)
    with np.load(tmp_path / "a.npz") as arrays:
        assert arrays["found"].tolist() == [[1, 1, 2, 1, 0.75]]
        assert arrays["true"].tolist() == [[0, 1, 3, 1], [1, 1, 3, 1]]
        assert arrays["videos"].tolist() == ["a.mp4", "b.mp4"]


class Page(HTMLParser):
    """Texts, links and pictures of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text, self.links, self.pictures, self.tags = "", [], [], set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.add(tag)
        values = dict(attrs)
        self.links += [values["href"]] if tag == "a" else []
        self.pictures += [values["src"]] if tag == "img" else []

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_page_has_frames_and_a_link_and_needs_nothing_else(tiny_videos, tmp_path: Path) -> None:
    video = tiny_videos.root / "val_0.mp4"
    odd = tmp_path / 'a "b" & c#1.mp4'
    odd.write_bytes(video.read_bytes())
    rows = [Mistake(str(odd), "<b>jump</b>", "run (70%)", 0.7, (0.5, 1.5))]
    text = make_page("Errors", rows, "1 error", tmp_path / "pages")
    page = Page(text)
    assert "truth: <b>jump</b>" in page.text and "0.50 to 1.50 s" in page.text
    assert str(odd) in page.text and len(page.pictures) == 4
    assert all(picture.startswith("data:image/jpeg;base64,") for picture in page.pictures)
    (link,) = page.links
    assert (tmp_path / "pages" / unquote(link)).resolve() == odd.resolve() and "#" not in link
    assert not re.search(r"https?:|<script|src=\"(?!data:)", text) and "script" not in page.tags
    seconds = [float(x) for x in re.findall(r"([\d.]+) s", page.text.partition("(70%)")[2])]
    assert seconds == pytest.approx([0.625, 0.875, 1.125, 1.375], abs=0.09)
    assert seconds == sorted(set(seconds))


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [("gone.mp4", None, "no such file"), ("bad.mp4", b"no video", "no video"), (".", None, "fold")],
)
def test_a_video_that_cannot_be_read_keeps_its_row(name, content, reason, tmp_path: Path) -> None:
    if content:
        (tmp_path / name).write_bytes(content)
    row = Mistake(str(tmp_path / name), "walk", "run", 0.7)
    page = Page(make_page("Errors", [row], "", tmp_path))
    assert "truth: walk" in page.text and not page.pictures
    assert reason in page.text.partition("no frames:")[2].lower()
    assert draw_mistakes([row]).axes[0].get_title("left")


@pytest.mark.parametrize("address", ["https://x.org/a.mp4?b=1&c=2", "s3://x/a.mp4"])
def test_links_of_addresses(address: str, tmp_path: Path, monkeypatch) -> None:
    def refuse(mistake: Mistake) -> None:
        raise OSError("no network")

    monkeypatch.setattr("mmvidformer.sinks.errors.read_frames", refuse)
    page = Page(make_page("Errors", [Mistake(address, "walk", "run", 0.7)], "", tmp_path))
    assert page.links == ([address] if address.startswith("https") else [])


def test_frames_of_a_moment_and_beyond_the_end(tiny_videos) -> None:
    video = str(tiny_videos.root / "val_0.mp4")
    frames = read_frames(Mistake(video, "walk", "run", 0.7, (0.0, 0.0)))
    assert len(frames) == 4 and frames[0][0] == "0.00 s"
    assert frames[0][1].shape == (160, 320, 3)
    late = read_frames(Mistake(video, "walk", "run", 0.7, (100.0, 110.0)))
    assert len({caption for caption, _ in late}) == 1  # the last frame


def test_a_picture_has_a_row_of_frames_each(tiny_videos) -> None:
    video = str(tiny_videos.root / "val_0.mp4")
    figure = draw_mistakes([Mistake(video, "walk", "run", 0.7), Mistake(video, "a$b$", "run", 0.6)])
    assert len(figure.axes) == 8 and all(axis.images for axis in figure.axes)
    assert figure.subfigs[1].get_suptitle() == "val_0.mp4\ntruth: a$b$; answer: run"
