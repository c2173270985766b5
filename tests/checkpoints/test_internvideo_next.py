"""InternVideo-Next: outputs equal those of its code, and names survive in both directions.

``tests/golden/make_internvideo_next.py`` ran the authors' code.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from mmvidformer.checkpoints import convert_file, read_model
from mmvidformer.checkpoints.backbones import backbone_arguments
from mmvidformer.checkpoints.formats import convert_checkpoint, recognize
from mmvidformer.checkpoints.keymap import Conversion
from mmvidformer.checkpoints.reading import Checkpoint
from mmvidformer.checkpoints.video_models import to_other
from mmvidformer.layers.pooling import POOLINGS
from mmvidformer.models import VideoTransformer
from mmvidformer.models.heads import AttentiveHead

GOLDEN = Path(__file__).parents[1] / "golden" / "internvideo_next_a.npz"
GRID = (2, 3, 3)


def load() -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Weights by their names, and input and outputs."""
    with np.load(GOLDEN) as file:
        arrays = {name: torch.from_numpy(file[name]) for name in file.files}
    stem = "params/"
    return {n.removeprefix(stem): x for n, x in arrays.items() if n.startswith(stem)}, arrays


def read(weights: dict[str, Tensor]) -> Conversion:
    name, result = convert_checkpoint(Checkpoint(weights, {}), "memory", grid=GRID)
    assert name == "internvideo_next"
    result.num_heads = 4  # which a width of no published model does not tell
    return result


def build(result: Conversion) -> VideoTransformer:
    backbone = VideoTransformer(**backbone_arguments(result)).eval()
    stem = "backbone."
    state = {n.removeprefix(stem): x for n, x in result.state.items() if n.startswith(stem)}
    backbone.load_state_dict(state)
    return backbone


def assert_equal(found: Tensor, expected: Tensor) -> None:
    assert expected.std() > 0.1
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-5)


@torch.no_grad()
def test_tokens() -> None:
    weights, arrays = load()
    backbone = build(read(weights))
    assert backbone.grid == GRID
    tokens = backbone(arrays["input"])
    assert tokens.shape == (2, 4 + 18, 32)  # the first tokens, which their pooling reads, too
    assert_equal(tokens[:, 4:], arrays["tokens"])
    whole = backbone.embed(arrays["input"])
    pixels = backbone.embed.boxes(arrays["input"])  # as kept places are embedded
    torch.testing.assert_close(backbone.embed.embed_boxes(pixels), whole)


@torch.no_grad()
def test_pooling() -> None:
    weights, arrays = load()
    result = read(weights)
    options = {**result.head, "dim": 32}
    options.pop("depth")
    pooling = POOLINGS.build(options.pop("pooling"), **options)
    stem = "cls_head.pooling."
    pooling.load_state_dict(
        {n.removeprefix(stem): x for n, x in result.state.items() if n.startswith(stem)}
    )
    assert_equal(pooling(build(result)(arrays["input"])), arrays["pooled"])


@torch.no_grad()
def test_there_and_back() -> None:
    """Positions of the tokens after the first are in these then; all else is as it was."""
    weights, _ = load()
    back = to_other(read(weights).state, "internvideo_next", "official")
    assert recognize(back) == "internvideo_next" and back.keys() == weights.keys()
    moved = {"cls_token", "pos_embed"}
    assert all(torch.equal(back[name], weights[name]) for name in weights.keys() - moved)
    sums = [state["cls_token"] + state["pos_embed"][:, :4] for state in (back, weights)]
    assert torch.equal(*sums)
    assert torch.equal(back["pos_embed"][:, 4:], weights["pos_embed"][:, 4:])
    again = read(back).state
    assert all(torch.equal(again[name], x) for name, x in read(weights).state.items())


@torch.no_grad()
def test_files(tmp_path: Path) -> None:
    weights, arrays = load()
    torch.save({"module": weights}, tmp_path / "theirs.pt")
    with pytest.raises(ValueError, match="give the grid"):
        read_model(tmp_path / "theirs.pt")
    report = convert_file(tmp_path / "theirs.pt", tmp_path / "ours.pth", num_heads=4, grid=GRID)
    assert "InternVideo-Next" in report and "tanh" in report
    backbone = build(read_model(tmp_path / "ours.pth")[1])
    assert_equal(backbone(arrays["input"])[:, 4:], arrays["tokens"])
    convert_file(tmp_path / "ours.pth", tmp_path / "back.safetensors", "official")
    result = read_model(tmp_path / "back.safetensors", grid=GRID)[1]
    result.num_heads = 4
    assert torch.equal(build(result)(arrays["input"]), backbone(arrays["input"]))


def test_head_has_the_width_of_the_pooling() -> None:
    head = AttentiveHead(5, 8, num_heads=2, pooling=dict(type="internvideo", out_dim=6))
    head.init_weights()
    assert head(torch.randn(2, 3, 2, 2, 8)).shape == (2, 5)
    assert head.fc_cls.in_features == 6


def test_norms_of_pixels_need_separate_tubelets() -> None:
    sizes = dict(arch=dict(embed_dims=12, depth=1, num_heads=2), img_size=16)
    for stem in (dict(stride=(1, 4, 4)), dict(padding=(0, 1, 1)), dict(convs=[4])):
        with pytest.raises(ValueError, match="norm_pre='rms' needs tubelets"):
            VideoTransformer(**sizes, stem=dict(tubelet=(1, 8, 8), norm_pre="rms", **stem))
