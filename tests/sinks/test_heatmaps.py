import matplotlib
import numpy as np
import pytest
import torch
from mmaction.models import ActionDataPreprocessor

from mmvidformer.apis.heat import to_frames, to_heat
from mmvidformer.sinks.heatmaps import HeatStrip, draw_strips, overlay


def test_frames_are_those_of_the_video_whatever_the_order_of_channels() -> None:
    video = np.random.default_rng(0).integers(0, 256, (2, 4, 6, 3), dtype=np.uint8)
    for to_rgb in (False, True):
        stored = video[..., ::-1] if to_rgb else video  # to_rgb expects BGR
        raw = torch.from_numpy(stored.copy()).permute(3, 0, 1, 2)[None]
        for scale in ({}, {"mean": [123.7, 116.3, 103.5], "std": [58.4, 57.1, 57.4]}):
            preprocessor = ActionDataPreprocessor(to_rgb=to_rgb, format_shape="NCTHW", **scale)
            clip = preprocessor({"inputs": [raw], "data_samples": None})["inputs"][0, 0]
            np.testing.assert_array_equal(to_frames(preprocessor, clip), video)


def test_heat_is_where_the_token_is() -> None:
    shares = torch.full((3, 4, 6), 0.01)
    shares[1, 2, 3] = 0.5
    heat = to_heat(shares, (2, 8, 4))
    assert heat.shape == (6, 32, 24)
    np.testing.assert_array_equal(heat[2], heat[3])  # both frames of the tubelet
    cold = 0.01 / shares.mean().item()
    np.testing.assert_allclose(heat[[0, 1, 4, 5]], cold, rtol=1e-5)
    above = heat[2] - cold
    rows, columns = np.indices(above.shape)
    # Pixels 16 to 23 and 12 to 15: the center of the patch is at 19.5 and 13.5.
    np.testing.assert_allclose((above * rows).sum() / above.sum(), 19.5, atol=1e-3)
    np.testing.assert_allclose((above * columns).sum() / above.sum(), 13.5, atol=1e-3)


def test_colors_span_the_range_of_the_clip() -> None:
    frames = np.full((2, 1, 2, 3), 100, np.uint8)
    frames[1, 0, 1] = 200, 0, 50
    heat = np.array([[[3.0, 4.0]], [[5.0, 7.0]]])
    turbo = matplotlib.colormaps["turbo"]
    found = overlay(frames, heat, opacity=0.25)
    for place, level in zip(np.ndindex(2, 1, 2), (0.0, 0.25, 0.5, 1.0), strict=True):
        gray = 200 if place == (1, 0, 1) else 100
        expected = 0.75 * gray + 0.25 * 255 * np.array(turbo(level)[:3])
        np.testing.assert_allclose(found[place], expected, atol=0.51)


def test_even_heat_can_be_drawn() -> None:
    frames = np.zeros((1, 2, 2, 3), np.uint8)
    assert len(np.unique(overlay(frames, np.ones((1, 2, 2))).reshape(-1, 3), axis=0)) == 1


def test_limits_fix_the_colors() -> None:
    heat = np.array([[[0.0, 0.5, 1.0]]])
    frames = np.zeros((1, 1, 3, 3), np.uint8)
    wide = overlay(frames, heat[..., 1:2].repeat(3, -1), opacity=1, limits=(0, 1))
    expected = 255 * np.array(matplotlib.colormaps["turbo"](0.5)[:3])
    np.testing.assert_allclose(wide[0, 0, 0], expected, atol=1)
    clipped = overlay(frames, heat, opacity=1, limits=(0.4, 0.6))
    np.testing.assert_array_equal(clipped, overlay(frames, np.array([[[0.4, 0.5, 0.6]]]), 1))


def gray_frames(count: int) -> np.ndarray:
    """Gray frames of 40 x 60 pixels, each lighter than the one before."""
    levels = 60 * np.arange(1, count + 1, dtype=np.uint8)
    return np.broadcast_to(levels[:, None, None, None], (count, 40, 60, 3)).copy()


def clip(title: str, count: int) -> HeatStrip:
    heat = np.broadcast_to(np.linspace(0.5, 2, 60), (count, 40, 60))
    captions = [f"frame {10 * i}" for i in range(count)]
    return HeatStrip(title, gray_frames(count), heat, captions, "share")


def test_strips_have_rows_of_frames_and_overlays() -> None:
    clips = [clip("a.mp4: left 97%", 6), clip("a.mp4: up 50%", 6)]
    figure = draw_strips(clips, columns=3)
    assert figure.get_figwidth() == pytest.approx(3 * 1.6 + 1.2)
    for one, part in zip(clips, figure.subfigs, strict=True):
        assert part.get_suptitle() == one.title
        top, bottom = part.axes[:3], part.axes[3:6]
        assert [a.get_title() for a in top] == ["frame 0", "frame 20", "frame 50"]
        colored = overlay(one.frames, one.heat)
        for place, upper, lower in zip((0, 2, 5), top, bottom, strict=True):
            np.testing.assert_array_equal(upper.images[0].get_array(), one.frames[place])
            np.testing.assert_array_equal(lower.images[0].get_array(), colored[place])
        assert part.axes[6].get_ylim() == pytest.approx((0.5, 2))
        assert part.axes[6].get_ylabel() == "share"


def test_a_short_clip_is_not_repeated() -> None:
    assert len(draw_strips([clip("a", 3)], columns=50).subfigs[0].axes) == 2 * 3 + 1


def test_shorter_strips_are_drawn_at_the_right() -> None:
    _, early = draw_strips([clip("late", 3), clip("early", 2)]).subfigs
    top = early.axes[:3]
    assert not top[0].images and [axis.get_title() for axis in top[1:]] == ["frame 0", "frame 10"]
