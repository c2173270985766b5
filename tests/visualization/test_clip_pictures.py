from pathlib import Path

import cv2
import numpy as np
import pytest

from mmvidformer.visualization import HeatClip, draw_strip, overlay, write_film


def heat_clip(title: str, seed: int) -> HeatClip:
    """Six frames of 20 x 30 pixels, smooth, so that the film's codec keeps them."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (6, 2, 3, 3), dtype=np.uint8)
    frames = np.stack([cv2.resize(f, (30, 20), interpolation=cv2.INTER_LINEAR) for f in small])
    heat = np.broadcast_to(np.linspace(0.5, 2, 30), (6, 20, 30))
    return HeatClip(title, frames, heat, [10 * seed + i for i in range(6)])


def test_a_strip_has_two_rows_a_clip_and_says_what_they_are() -> None:
    clips = [heat_clip("a.mp4: left 97%", 1), heat_clip("a.mp4: up 50%", 2)]
    figure = draw_strip(clips, columns=3)
    assert len(figure.subfigs) == 2
    for clip, part in zip(clips, figure.subfigs, strict=True):
        assert part.get_suptitle() == clip.title
        top, bottom = part.axes[:3], part.axes[3:6]
        assert [a.get_title() for a in top] == [f"frame {clip.numbers[i]}" for i in (0, 2, 5)]
        coloured = overlay(clip.frames, clip.heat)
        for place, upper, lower in zip((0, 2, 5), top, bottom, strict=True):
            np.testing.assert_array_equal(upper.images[0].get_array(), clip.frames[place])
            np.testing.assert_array_equal(lower.images[0].get_array(), coloured[place])
        assert part.axes[6].get_ylim() == pytest.approx((0.5, 2))


def test_a_short_clip_is_not_repeated() -> None:
    figure = draw_strip([heat_clip("a", 0)], columns=50)
    assert len(figure.subfigs[0].axes) == 2 * 6 + 1


def test_a_film_shows_frame_and_overlay_at_readable_size(tmp_path: Path) -> None:
    clips = [heat_clip("a", 1), heat_clip("b", 2)]
    path = tmp_path / "film.mp4"
    write_film(clips, path, fps=5, min_height=100)
    film = cv2.VideoCapture(str(path))
    assert film.get(cv2.CAP_PROP_FPS) == 5
    pages = []
    while (read := film.read())[0]:
        pages.append(read[1][..., ::-1])
    assert np.shape(pages) == (12, 100 + 2 * 28, 300, 3)
    for i, page in enumerate(pages):
        clip, place = clips[i // 6], i % 6
        halves = np.split(page[28:-28].astype(float), 2, axis=1)
        for half, expected in zip(
            halves, (clip.frames[place], overlay(clip.frames, clip.heat)[place]), strict=True
        ):
            large = cv2.resize(expected, (150, 100), interpolation=cv2.INTER_CUBIC)
            assert np.abs(half - large).mean() < 8
    assert pages[0][:28].max() > 200 and pages[0][-28:].max() > 200  # the captions


def test_a_film_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="none/film.mp4"):
        write_film([heat_clip("a", 0)], tmp_path / "none" / "film.mp4")
