"""Choosing the tokens of a clip where something happens."""

import pytest
import torch

from mmvidformer.layers.chooser import choose_places, measure_differences
from mmvidformer.models import VideoTransformer


def still_but_one() -> torch.Tensor:
    """A still clip (1, 3, 4, 8, 12) in whose third frame one place of 2 x 3 changes by 1."""
    torch.manual_seed(0)
    clip = torch.randn(1, 3, 1, 8, 12).repeat(1, 1, 4, 1, 1)
    clip[:, :, 2, 4:, 4:8] += 1
    return clip


def model() -> VideoTransformer:
    arch = dict(embed_dims=12, depth=2, num_heads=2)
    return VideoTransformer(arch, 4, (8, 12), stem=dict(tubelet=(1, 4, 4)), pool="none").eval()


def test_differences_are_those_of_tubelets() -> None:
    scores = measure_differences(still_but_one(), model().embed)
    expected = torch.zeros(1, 4, 2, 3)
    expected[0, 2:, 1, 1] = 1  # it comes, and goes again
    torch.testing.assert_close(scores, expected)


def test_the_first_frame_comes_first_then_what_changes() -> None:
    places = choose_places(measure_differences(still_but_one(), model().embed), 8 / 24)
    assert places.size == (4, 2, 3)
    assert places.numbers.tolist() == [[0, 1, 2, 3, 4, 5, 2 * 6 + 4, 3 * 6 + 4]]


@torch.no_grad()
def test_all_places_are_the_whole_clip() -> None:
    backbone, clip = model(), still_but_one()
    kept = choose_places(measure_differences(clip, backbone.embed), 1)
    tokens = backbone(clip, kept=kept)
    torch.testing.assert_close(tokens.flatten(1, 3), backbone(clip).flatten(1, 3))


def test_clips_have_as_many_places_each() -> None:
    scores = torch.rand(3, 4, 2, 3)
    places = choose_places(scores, 0.5)
    assert places.numbers.shape == (3, 12)
    assert all(len({*row}) == 12 for row in places.numbers.tolist())
    assert choose_places(scores, 1e-9).numbers.tolist() == [[0]] * 3


@pytest.mark.parametrize("share", [0, -1, 1.5])
def test_shares_are_checked(share: float) -> None:
    with pytest.raises(ValueError, match=f"share must be above 0 and at most 1, got {share}"):
        choose_places(torch.rand(1, 2, 2, 2), share)
