"""Pages: frame, overlay and bars are where they should be."""

from dataclasses import replace

import numpy as np
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib import font_manager

from mmvidformer.apis import Prediction
from mmvidformer.sinks.annotate import (
    Bars,
    annotate_frame,
    draw_boxes,
    list_bars,
    prediction_bars,
)
from mmvidformer.sinks.fonts import find_font
from mmvidformer.tasks.base import Task
from mmvidformer.tasks.table import ANTICIPATION, find_task

CLASSES = find_task("classes")
BARS = [Bars("next verb", [("put", 0.5), ("take", 0.25)])]


def gray(level: int) -> np.ndarray:
    """A gray frame of 40 x 60 pixels, which is shown as 360 x 540."""
    return np.full((40, 60, 3), level, np.uint8)


def prediction(task: Task = CLASSES, **options: object) -> Prediction:
    scores = {"verb": np.array([0.7, 0.1, 0.2]), "action": np.array([0.4, 0.6])}
    names = {"verb": ["put", "take", "wash"], "action": ["put cup", "wash pan"]}
    return Prediction(scores, scores, names, task=task, **options)


def test_a_page_shows_the_frame_and_bars() -> None:
    image = annotate_frame(gray(100), "0.00 s, frame 0", BARS)
    assert image.shape == (28 + 360, 540 + 300, 3)
    assert (image[28:, :540] == 100).all()
    assert image[:28, :540].max() > 200  # the heading
    lengths = [(image[y, 540:, 2] > 150).sum() for y in (28 - 8 + 24 - 15, 28 - 8 + 48 - 15)]
    assert lengths[0] == pytest.approx(2 * lengths[1], abs=3)


def test_an_overlay_is_beside_the_frame() -> None:
    image = annotate_frame(gray(100), "", BARS, gray(200), "legend")
    assert image.shape == (28 + 360, 2 * 540 + 300, 3)
    assert (image[28:388, 540:1080] == 200).all()
    assert image[:28, 540:1080].max() > 200  # the legend


def test_pages_are_as_high_as_their_classes_need() -> None:
    many = [Bars("x", [(str(i), 0.1) for i in range(20)])] * 2
    image = annotate_frame(gray(0), "", many)
    assert len(image) > 2 * 20 * 24
    assert image[-60:, 540:].max() > 150  # the last class is there


@pytest.mark.parametrize(("height", "shown"), [(101, 360), (480, 480), (1080, 720)])
def test_frames_are_shown_at_a_readable_size(height: int, shown: int) -> None:
    image = annotate_frame(np.zeros((height, 2 * height, 3), np.uint8), "", BARS)
    assert image.shape[:2] == (28 + shown, 2 * shown + 300)
    assert not any(side % 2 for side in image.shape[:2])


def test_strips_are_enlarged_as_far_as_encoders_go() -> None:
    strip = np.zeros((4, 2000, 3), np.uint8)
    assert annotate_frame(strip, "", BARS).shape[1] == 4096 + 300
    assert draw_boxes(strip, []).shape == (8, 4096, 3)


def test_bars_of_a_prediction() -> None:
    verb, action = prediction_bars(prediction(seconds=(1.0, 2.5)), k=2)
    assert verb == Bars("verb, 1.0 to 2.5 s", [("put", 0.7), ("wash", 0.2)])
    assert action == Bars("action, 1.0 to 2.5 s", [("wash pan", 0.6), ("put cup", 0.4)])
    assert prediction_bars(prediction(), 1)[0].heading == "verb, whole video"
    single = Prediction(
        {"class": np.ones(1)}, {"class": np.ones(1)}, {"class": ["a"]}, task=CLASSES
    )
    assert prediction_bars(single, heading="clip 1") == [Bars("clip 1", [("a", 1.0)])]


def test_bars_of_labels_and_values() -> None:
    row, names = {"class": np.array([0.25, 1.0])}, {"class": ["a", "b"]}
    (labels,) = prediction_bars(Prediction(row, row, names, task=find_task("labels")), heading="x")
    assert labels == Bars("x", [("b", 1.0), ("a", 0.25)], 0.5)
    plain = labels._replace(threshold=None)
    with_line, without = (annotate_frame(gray(0), "", [one]) for one in (labels, plain))
    changed = np.argwhere((with_line != without).any(axis=-1))
    assert len(changed) and {x for _, x in changed.tolist()} == {540 + 8 + 142}
    (values,) = prediction_bars(Prediction(row, {}, names, task=find_task("number")))
    assert values == Bars("whole video", [("a 0.25", None), ("b 1", None)])
    assert annotate_frame(gray(0), "", [values]).shape[1] == 540 + 300


def test_bars_of_segments_at_a_time() -> None:
    names, rows = {"class": ["a", "b"]}, {"class": np.array([0.0, 0.75])}
    task = find_task("segments")
    found = [
        Prediction(rows, rows, names, seconds=seconds, task=task)
        for seconds in ((0.0, 2.0), (1.5, 4.0))
    ]
    (first,) = task.shown_at(found, 1.0)
    assert prediction_bars(first) == [Bars("0.0 to 2.0 s", [("b", 0.75)])]
    assert task.shown_at(found, 1.5) == found and task.shown_at(found, 4.0) == []
    windows = [Prediction(rows, rows, names, seconds=(i, i + 2.0), task=CLASSES) for i in (0, 1)]
    (nearest,) = find_task("classes").shown_at(windows, 1.6)
    assert prediction_bars(nearest)[0].heading == "1.0 to 3.0 s"
    so_far = [replace(windows[0], so_far=True, seconds=(0.0, end)) for end in (1.0, 2.0)]
    (latest,) = find_task("classes").shown_at(so_far, 1.9)
    assert latest.end == 2


def test_bars_of_a_stream() -> None:
    coming = dict(task=ANTICIPATION, so_far=True)
    times = tuple(prediction(ahead=seconds, **coming) for seconds in (1.0, 0.5))
    by_time, verb, action = list_bars(times, 1, ahead=0.6)
    assert by_time.classes == [("1.00 s wash pan", 0.6), ("0.50 s wash pan", 0.6)]
    assert verb == Bars("verb, next in 0.50 s", [("put", 0.7)])
    assert action.heading == "action, next in 0.50 s"
    verb, action = list_bars([prediction(**coming)], 1)
    assert verb.heading == "verb, next"
    row = {"class": np.ones(1)}
    single = Prediction(row, row, {"class": ["a"]}, so_far=True, task=CLASSES)
    assert list_bars([single]) == [Bars("so far", [("a", 1.0)])]


@pytest.mark.parametrize("names", [("Füttern", "Futtern"), ("прыжок", "??????"), ("ä", "ö")])
def test_letters_of_other_alphabets_are_drawn(names: tuple[str, str]) -> None:
    """OpenCV draws a question mark for each byte of them."""
    one, other = (annotate_frame(gray(100), "", [Bars("", [(name, None)])]) for name in names)
    assert one.shape == other.shape and (one != other).any()


def test_letters_of_a_font_of_the_machine_are_drawn(tmp_path, monkeypatch) -> None:
    """DejaVu has none of China; a font that has one draws it, here as a filled square."""
    old = [font for font in font_manager.fontManager.ttflist if "DejaVu" in font.name]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", old)
    find_font.cache_clear()
    with pytest.warns(UserWarning, match="no font here has 跳"):
        missing = find_font("a 跳")
    assert missing[1] == r"a \u8df3" and "DejaVu" in missing[0]
    square = TTGlyphPen(None)
    for move, corner in zip("mlll", [(0, 0), (1000, 0), (1000, 1000), (0, 1000)], strict=True):
        (square.moveTo if move == "m" else square.lineTo)(corner)
    square.closePath()
    glyphs = {".notdef": TTGlyphPen(None).glyph(), "jump": square.glyph()}
    builder = FontBuilder(1000)
    builder.setupGlyphOrder(list(glyphs))
    builder.setupCharacterMap({ord("跳"): "jump"})
    builder.setupGlyf(glyphs)
    builder.setupHorizontalMetrics({name: (1000, 0) for name in glyphs})
    builder.setupHorizontalHeader(ascent=1000, descent=0)
    builder.setupNameTable({"familyName": "Square", "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.save(tmp_path / "square.ttf")
    entry = font_manager.FontEntry(fname=str(tmp_path / "square.ttf"), name="Square")
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [*old, entry])
    find_font.cache_clear()
    assert find_font("跳") == (entry.fname, "跳")
    image = annotate_frame(gray(100), "跳", [])
    assert (image[12:18, 9:20] == 255).all()  # as high as a letter
    find_font.cache_clear()


def test_texts_that_are_no_line_are_drawn_within_the_image() -> None:
    names = ["x" * 500, "a\nb", "caf\udce9", "", "\u0000"]
    image = annotate_frame(gray(100), "\udce9\n" * 50, [Bars(names[0], [(x, 0.5) for x in names])])
    assert image.shape[1] == 540 + 300 and (image[28:, :540] == 100).all()


def test_the_parts_around_a_time_are_found_as_among_all() -> None:
    """In shots of 4 and 0.5 s and 3 s, with windows of 1 s that overlap, and one that is short."""
    spans = [(0, 1), (0.5, 1.5), (1, 2), (3, 4), (4, 4.5), (4.5, 5.5), (5, 6), (6.5, 7.5)]
    row, names = {"class": np.ones(1)}, {"class": ["a"]}
    parts = [Prediction(row, row, names, seconds=span, task=CLASSES) for span in spans]
    task = find_task("classes")
    for time in np.linspace(-1, 9, 201):
        holding = [part for part in parts if part.start <= time < part.end] or parts
        nearest = min(abs(part.moment - time) for part in holding)
        (shown,) = task.shown_at(parts, time)
        assert shown in holding and abs(shown.moment - time) == pytest.approx(nearest)
