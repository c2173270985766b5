import logging

import pytest
import torch
import torch.nn.functional as F

from mmvidformer.layers import Places, PositionEmbedding, TubeletEmbedding, resize_positions
from mmvidformer.layers.sines import sine_positions


@pytest.mark.parametrize("tubelet", [(1, 4, 4), (2, 8, 4), (3, 5, 5)])
def test_embedding_equals_the_convolution(tubelet: tuple[int, int, int]) -> None:
    torch.manual_seed(0)
    embed = TubeletEmbedding(12, tubelet)
    clip = torch.randn(2, 3, 7, 17, 18)
    expected = embed.proj(clip).permute(0, 2, 3, 4, 1)
    torch.testing.assert_close(embed(clip), expected, atol=1e-5, rtol=1e-5)


def test_overlapping_tubelets_use_a_convolution_and_a_norm() -> None:
    torch.manual_seed(0)
    embed = TubeletEmbedding(12, (1, 16, 16), stride=(1, 14, 14), padding=(0, 8, 8), norm=True)
    torch.nn.init.normal_(embed.norm.weight)
    clip = torch.randn(2, 3, 3, 56, 50)
    frames = F.conv2d(
        clip.transpose(1, 2).flatten(0, 1),
        embed.proj.weight[:, :, 0],
        embed.proj.bias,
        stride=14,
        padding=8,
    )
    expected = frames.permute(0, 2, 3, 1).unflatten(0, (2, 3))
    expected = F.layer_norm(expected, (12,), embed.norm.weight, embed.norm.bias, eps=1e-5)
    assert expected.shape[1:4] == embed.grid((3, 56, 50)) == (3, 5, 4)
    torch.testing.assert_close(embed(clip), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("sides", [(32, 32), (37, 38), (8, 40)])
def test_convolutions_before_tubelets(sides: tuple[int, int]) -> None:
    """Each frame alone, and the pixels that a token depends on are its tubelet's."""
    torch.manual_seed(0)
    embed = TubeletEmbedding(12, (1, 2, 2), convs=(4, 6))
    assert (embed.tubelet, embed.stride) == ((1, 11, 11), (1, 8, 8))
    assert embed.padding == (0, 3, 3) and embed.separate_frames
    clip = torch.randn(2, 3, 3, *sides)
    tokens = embed(clip)
    assert tokens.shape == (2, *embed.grid(clip.shape[2:]), 12)
    frames = [embed(clip[:, :, t : t + 1]) for t in range(3)]
    torch.testing.assert_close(torch.cat(frames, dim=1), tokens)
    for number, part in enumerate(embed.convs):
        if isinstance(part, torch.nn.GroupNorm):  # which sees the whole frame
            embed.convs[number] = torch.nn.Identity()
    clip.requires_grad_()
    embed(clip)[0, 1, 0, 0].sum().backward()
    seen = clip.grad[0].abs().sum(dim=0)
    assert not seen[0].any() and not seen[2].any()
    assert seen[1, :8, :8].all() and not seen[1, 8:].any() and not seen[1, :, 8:].any()


@pytest.mark.parametrize(
    ("shape", "match"),
    [
        ((2, 3, 8, 8), "B, 3, T"),
        ((2, 4, 2, 8, 8), "2, 4, 2"),
        ((2, 3, 1, 8, 8), "1 x 8 x 8 is smaller than a tubelet"),
    ],
)
def test_wrong_clips_are_named(shape: tuple[int, ...], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        TubeletEmbedding(8, (2, 8, 8))(torch.zeros(shape))


@pytest.mark.parametrize("images", [False, True])
def test_tubelets_at_some_places(images: bool) -> None:
    """They are embedded as in the whole clip; also those of an image, which has its own weights."""
    embed = TubeletEmbedding(6, (2, 4, 4), norm=True, images=images)
    clip = torch.randn(2, 3, 1 if images else 4, 8, 12)
    size = embed.grid(clip.shape[2:])
    places = Places(torch.tensor([[0, 5, 2], [1, 2, 4]]), size)
    found = embed(clip, places)
    assert found.shape == (2, 1, 1, 3, 6)
    torch.testing.assert_close(found, places.take(embed(clip)))
    torch.testing.assert_close(embed.embed_boxes(embed.boxes(clip)), embed(clip))


def test_a_sample_of_the_pixels_of_tubelets() -> None:
    embed = TubeletEmbedding(6, (2, 8, 4))
    clip = torch.arange(4.0 * 3 * 4 * 16 * 8).view(4, 3, 4, 16, 8)
    found = embed.sample_boxes(clip)
    assert found.shape == (4, 2, 2, 2, 8)
    expected = clip[1, 0, 2, 8:16:4, 4:8]  # the first frame and channel, every fourth row
    assert torch.equal(found[1, 1, 1, 1], expected.flatten())


def test_tables_are_summed_over_their_axes() -> None:
    torch.manual_seed(0)
    positions = PositionEmbedding(4, (2, 3, 5), tables=("hw", "t"), cls=True)
    for parameter in positions.parameters():
        torch.nn.init.normal_(parameter)
    tables, cls = positions((2, 3, 5), torch.zeros(0, 4), torch.zeros(1, 1, 4))
    grid = sum(tables)
    torch.testing.assert_close(grid[0, 1, 2, 3], positions.hw[0, 0, 2, 3] + positions.t[0, 1, 0, 0])
    torch.testing.assert_close(cls, positions.cls)


def test_sines_and_cosines_of_the_places_on_each_axis() -> None:
    rates = torch.tensor([1.0, 1e-2], dtype=torch.float64)  # 2 pairs of 10 channels on 2 axes

    def waves(place: int) -> list[torch.Tensor]:
        return [(place * rates).sin(), (place * rates).cos()]

    like = torch.zeros(1, 10, dtype=torch.float64)
    for options, first in (({}, 0), ({"start": 5}, 5)):
        table = sine_positions("tw", (3, 2, 4), like, **options)
        assert table.shape == (1, 3, 2, 4, 10)
        expected = torch.cat([*waves(first + 2), *waves(3), torch.zeros(2)])
        torch.testing.assert_close(table[0, 2, 1, 3], expected)


def test_tables_are_resized_for_other_sizes() -> None:
    positions = PositionEmbedding(1, (2, 3, 3))
    torch.nn.init.normal_(positions.thw)
    (table,), _ = positions((4, 5, 6), torch.zeros(0, 1))
    torch.testing.assert_close(table, resize_positions(positions.thw, (4, 5, 6)))


def test_loading_resizes_tables_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    small, large = PositionEmbedding(4, (1, 2, 2)), PositionEmbedding(4, (3, 4, 4))
    torch.nn.init.normal_(small.thw)
    with caplog.at_level(logging.WARNING, "mmvidformer"):
        large.load_state_dict(small.state_dict())
    assert "(1, 2, 2) was resized to (3, 4, 4)" in caplog.text
    torch.testing.assert_close(large.thw[:, 2, ::3, ::3], small.thw[:, 0])


def test_wrong_table_name_is_named() -> None:
    with pytest.raises(KeyError, match="'wh'.*hw, t, thw"):
        PositionEmbedding(4, (1, 2, 2), tables=("wh",))


def test_widths_below_the_number_of_axes_have_no_waves() -> None:
    table = sine_positions("thw", (2, 3, 4), torch.zeros(1, 4))
    torch.testing.assert_close(table, torch.zeros(1, 2, 3, 4, 4))
