"""What a token has seen, against the masks of the patterns' definitions."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from lab.receptive_field import draw_receptive_field, receptive_field
from mmvidformer.models import FeatureFixationTransformer, TimeSformer, VideoTransformer, ViViT
from tests.layers.dense import allowed

ARCH = dict(embed_dims=32, depth=2, num_heads=4)
SIZE = dict(arch=ARCH, clip_len=4, img_size=64)
GRID = (4, 5, 3)
WINDOW = dict(type="window", size=(2, 2, 2))
SHIFTED = dict(**WINDOW, shift=(1, 1, 1))
TOKENS = [(0, 0, 0), (3, 4, 2), (2, 2, 1)]


def reach(masks: list[Tensor]) -> list[Tensor]:
    """Tokens that each token has seen after each mask: its own, and what those of the mask had."""
    seen, found = torch.eye(len(masks[0]), dtype=torch.bool), []
    for mask in masks:
        seen = seen | (mask.double() @ seen.double() > 0)
        found.append(seen)
    return found


def number(token: tuple[int, int, int]) -> int:
    return (token[0] * GRID[1] + token[1]) * GRID[2] + token[2]


@pytest.mark.parametrize("token", TOKENS, ids=str)
@pytest.mark.parametrize(
    "blocks",
    [
        [["time"], ["causal_time"]],
        [["width"], ["height"]],
        [[WINDOW], [SHIFTED]],
        [[SHIFTED], [dict(type="window", size=(3, 9, 9))]],
        [["local"], [dict(type="window", size=(2, 1, 1))]],
        [["causal_time", "width"], ["causal_joint"]],
        [["strided"], ["time", "width"]],
    ],
    ids=str,
)
def test_patterns_of_a_block_are_followed_to_the_input(blocks: list, token: tuple) -> None:
    rows = [[dict(pattern=pattern, zero_init=True) for pattern in block] for block in blocks]
    model = VideoTransformer(**SIZE, block=rows)
    fields = receptive_field(model, GRID, token)
    assert [field.block for field in fields] == ["block 1", "block 2"]
    after = reach([allowed(pattern, GRID) for block in blocks for pattern in block])
    ends = [len(blocks[0]) - 1, -1]
    for field, end in zip(fields, ends, strict=True):
        assert field.cls is None
        assert torch.equal(field.tokens.flatten(), after[end][number(token)])


@pytest.mark.parametrize("token", TOKENS, ids=str)
def test_class_token(token: tuple) -> None:
    """With 'skip' it is not seen over time; with 'mean' it links all frames."""
    model = VideoTransformer(
        **SIZE, block=[[dict(pattern="time", cls="skip")], [dict(pattern="width")]], cls="mean"
    )
    time = F.pad(allowed("time", GRID), (1, 0, 1, 0))
    width = F.pad(allowed("width", GRID), (1, 0, 1, 0), value=True)
    after = reach([time, width])
    for cls in (False, True):
        row = 0 if cls else 1 + number(token)
        for field, seen in zip(receptive_field(model, GRID, token, cls), after, strict=True):
            assert field.cls == seen[row, 0]
            assert torch.equal(field.tokens.flatten(), seen[row, 1:])


def test_frames_of_their_own_and_causal_attention_over_them() -> None:
    encoders = [dict(frames="pool", cls="mean"), dict(block=[dict(pattern="causal_time")])]
    fields = receptive_field(VideoTransformer(**SIZE, encoders=encoders), GRID, (2, 1, 1))
    assert [field.block for field in fields] == [
        "encoder 1, block 1",
        "encoder 1, block 2",
        "encoder 2, block 1",
        "encoder 2, block 2",
    ]
    frames = [field.tokens.flatten(1).float().mean(1).tolist() for field in fields]
    assert frames == [[0, 0, 1, 0], [0, 0, 1, 0], [1, 1, 1, 0], [1, 1, 1, 0]]
    assert [field.cls for field in fields] == [True, True, None, None]


def test_shifts_and_convolutions_count() -> None:
    """A block of feature fixation without attention over space sees the neighbors of its place."""
    small = dict(arch=dict(embed_dims=32, depth=1, num_heads=4), clip_len=4, img_size=64)
    model = VideoTransformer(**small, block=[dict(pattern="time", shifts=["spatial"])])
    (field,) = receptive_field(model, (3, 5, 5), (1, 2, 2))
    square = torch.zeros(5, 5, dtype=torch.bool)
    square[1:4, 1:4] = True
    assert torch.equal(field.tokens, square.expand(3, 5, 5))
    model = VideoTransformer(
        **small, block=[dict(pattern="time")], mlp=dict(type="mlp", depthwise=True)
    )
    (field,) = receptive_field(model, (3, 5, 5), (1, 2, 2))
    assert torch.equal(field.tokens[1], square) and field.tokens[0].sum() == 9


@pytest.mark.parametrize(
    "model",
    [
        ViViT(**SIZE, stem=dict(tubelet=(2, 16, 16)), scheme="factorized_self_attention"),
        TimeSformer(**SIZE, scheme="space_only", with_cp=True),
        FeatureFixationTransformer(**SIZE),
    ],
    ids=lambda model: type(model).__name__,
)
def test_presets(model: torch.nn.Module) -> None:
    before = {name: value.clone() for name, value in model.state_dict().items()}
    fields = receptive_field(model, GRID)
    frame = isinstance(model, TimeSformer)  # space only
    assert fields[0].tokens.double().mean() == (1 / 4 if frame else 1)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


def test_picture_has_a_row_for_each_change() -> None:
    encoders = [dict(frames="pool", cls="mean"), dict(block=[dict(pattern="causal_time")])]
    fields = receptive_field(VideoTransformer(**SIZE, encoders=encoders), GRID, (2, 1, 1))
    figure = draw_receptive_field(fields, (2, 1, 1), "title")
    assert len(figure.axes) == 2 * (4 + 1)
    assert figure.axes[0].get_ylabel() == "encoder 1, block 1\nto encoder 1, block 2\n25% seen"
    assert figure.axes[5].get_ylabel() == "encoder 2, block 1\nto encoder 2, block 2\n75% seen"
    assert [len(ax.patches) for ax in figure.axes] == [0, 0, 1, 0, 0, 0, 0, 1, 0, 0]
    assert [len(ax.collections) for ax in figure.axes] == [1] * 9 + [0]  # no class token any more


def test_mistakes_are_named() -> None:
    model = VideoTransformer(**SIZE)
    with pytest.raises(ValueError, match=r"inside the grid \(4, 5, 3\), got \(0, 5, 0\)"):
        receptive_field(model, GRID, (0, 5, 0))
    with pytest.raises(ValueError, match="no class token"):
        receptive_field(model, GRID, cls=True)
    with pytest.raises(ValueError, match="Linear has no encoders"):
        receptive_field(torch.nn.Linear(1, 1), GRID)


def test_tool(main_of, tmp_path: Path, capsys) -> None:
    small = ["--cfg-options", "model.backbone.arch.embed_dims=16", "--grid", "2", "4", "4"]
    out = tmp_path / "field.png"
    main_of("lab.plot.field")(["compose_windows_motion", "--out", str(out), *small])
    assert out.stat().st_size > 1000
    assert f"written: {out}" in capsys.readouterr().out
