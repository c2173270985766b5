"""LeVJEPA: outputs equal those of its code, in clips and streams; names survive both ways.

``tests/golden/make_levjepa.py`` ran the authors' code.
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
from mmvidformer.models import VideoTransformer

GOLDEN = Path(__file__).parents[1] / "golden" / "levjepa_a.npz"
CLIPS = ["whole", "odd", "first"]


def load() -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Weights by their names, and inputs and outputs."""
    with np.load(GOLDEN) as file:
        arrays = {name: torch.from_numpy(file[name]) for name in file.files}
    stem = "params/"
    return {n.removeprefix(stem): x for n, x in arrays.items() if n.startswith(stem)}, arrays


def read(weights: dict[str, Tensor]) -> Conversion:
    name, result = convert_checkpoint(Checkpoint(weights, {}), "memory")
    assert name == "levjepa"
    result.num_heads = 2  # which a width of no published model does not tell
    return result


def build(result: Conversion) -> VideoTransformer:
    backbone = VideoTransformer(**backbone_arguments(result)).eval()
    backbone.load_state_dict({n.removeprefix("backbone."): x for n, x in result.state.items()})
    return backbone


def assert_equal(found: Tensor, expected: Tensor) -> None:
    assert expected.std() > 0.1
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("clip", CLIPS)
@torch.no_grad()
def test_class_token_and_tokens(clip: str) -> None:
    weights, arrays = load()
    backbone = build(read(weights))
    assert_equal(
        backbone.forward_features(arrays[f"input/{clip}"]).tensor, arrays[f"tokens/{clip}"]
    )
    assert_equal(backbone(arrays[f"input/{clip}"]), arrays[f"tokens/{clip}"][:, 0])


@torch.no_grad()
def test_the_last_answer_of_a_stream_is_that_of_the_clip() -> None:
    weights, arrays = load()
    backbone, state = build(read(weights)), None
    for frame in arrays["input/odd"].split(1, dim=2):
        answer, state = backbone.step(frame, state)
    assert_equal(answer, arrays["tokens/odd"][:, 0])


@torch.no_grad()
def test_there_and_back() -> None:
    weights, _ = load()
    back = to_other(read(weights).state, "levjepa", "official")
    assert recognize(back) == "levjepa" and back.keys() == weights.keys()
    assert all(torch.equal(back[name], weights[name]) for name in weights)


@torch.no_grad()
def test_files(tmp_path: Path) -> None:
    """A checkpoint of its training has the means of the weights, which count, and a projector."""
    weights, arrays = load()
    means = {f"encoder.{name}": x for name, x in weights.items()}
    last = {name: torch.zeros_like(x) for name, x in means.items()}
    last["projector.net.0.weight"] = torch.zeros(2, 2)
    torch.save({"state_dict": last, "state_dict_ema": means}, tmp_path / "theirs.ckpt")
    report = convert_file(tmp_path / "theirs.ckpt", tmp_path / "ours.pth", num_heads=2)
    assert "LeVJEPA" in report
    backbone = build(read_model(tmp_path / "ours.pth")[1])
    assert_equal(backbone(arrays["input/odd"]), arrays["tokens/odd"][:, 0])
    convert_file(tmp_path / "ours.pth", tmp_path / "back.pt", "official")
    result = read_model(tmp_path / "back.pt")[1]
    result.num_heads = 2
    assert torch.equal(build(result)(arrays["input/odd"]), backbone(arrays["input/odd"]))
