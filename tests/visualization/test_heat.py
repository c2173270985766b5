import matplotlib
import numpy as np
import torch
from mmaction.models import ActionDataPreprocessor

from mmvidformer.visualization import overlay, to_frames, to_heat


def test_frames_are_those_of_the_video_whatever_the_order_of_channels() -> None:
    video = np.random.default_rng(0).integers(0, 256, (2, 4, 6, 3), dtype=np.uint8)
    for to_rgb in (False, True):
        stored = video[..., ::-1] if to_rgb else video  # to_rgb expects BGR
        raw = torch.from_numpy(stored.copy()).permute(3, 0, 1, 2)[None]
        for scale in ({}, {"mean": [123.7, 116.3, 103.5], "std": [58.4, 57.1, 57.4]}):
            preprocessor = ActionDataPreprocessor(to_rgb=to_rgb, format_shape="NCTHW", **scale)
            clip = preprocessor({"inputs": [raw], "data_samples": None})["inputs"][0, 0]
            np.testing.assert_array_equal(to_frames(preprocessor, clip), video)


def test_heat_lies_where_the_token_is() -> None:
    shares = torch.full((3, 4, 6), 0.01)
    shares[1, 2, 3] = 0.5
    heat = to_heat(shares, (2, 8, 4))
    assert heat.shape == (6, 32, 24)
    np.testing.assert_array_equal(heat[2], heat[3])  # both frames of the tubelet
    cold = 0.01 / shares.mean().item()
    np.testing.assert_allclose(heat[[0, 1, 4, 5]], cold, rtol=1e-5)
    above = heat[2] - cold
    rows, columns = np.indices(above.shape)
    # Pixels 16 to 23 and 12 to 15: the centres of the patch are 19.5 and 13.5.
    np.testing.assert_allclose((above * rows).sum() / above.sum(), 19.5, atol=1e-3)
    np.testing.assert_allclose((above * columns).sum() / above.sum(), 13.5, atol=1e-3)


def test_colours_go_from_the_coldest_to_the_hottest_place_of_the_clip() -> None:
    frames = np.full((2, 1, 2, 3), 100, np.uint8)
    frames[1, 0, 1] = 200, 0, 50
    heat = np.array([[[3.0, 4.0]], [[5.0, 7.0]]])
    turbo = matplotlib.colormaps["turbo"]
    found = overlay(frames, heat, opacity=0.25)
    for place, level in zip(np.ndindex(2, 1, 2), (0.0, 0.25, 0.5, 1.0), strict=True):
        grey = 200 if place == (1, 0, 1) else 100
        expected = 0.75 * grey + 0.25 * 255 * np.array(turbo(level)[:3])
        np.testing.assert_allclose(found[place], expected, atol=0.51)


def test_even_heat_can_be_drawn() -> None:
    frames = np.zeros((1, 2, 2, 3), np.uint8)
    assert len(np.unique(overlay(frames, np.ones((1, 2, 2))).reshape(-1, 3), axis=0)) == 1


def test_limits_fix_the_colours() -> None:
    heat = np.array([[[0.0, 0.5, 1.0]]])
    frames = np.zeros((1, 1, 3, 3), np.uint8)
    wide = overlay(frames, heat[..., 1:2].repeat(3, -1), opacity=1, limits=(0, 1))
    expected = 255 * np.array(matplotlib.colormaps["turbo"](0.5)[:3])
    np.testing.assert_allclose(wide[0, 0, 0], expected, atol=1)
    clipped = overlay(frames, heat, opacity=1, limits=(0.4, 0.6))
    np.testing.assert_array_equal(clipped, overlay(frames, np.array([[[0.4, 0.5, 0.6]]]), 1))
