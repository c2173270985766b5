"""V-JEPA 2.1: outputs equal those of its code, and names survive in both directions.

``tests/golden/make_vjepa2_1.py`` ran the authors' code.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from mmvidformer.apis.features import layer_features
from mmvidformer.checkpoints import convert_file, read_model
from mmvidformer.checkpoints.backbones import backbone_arguments
from mmvidformer.checkpoints.formats import convert_checkpoint, recognize
from mmvidformer.checkpoints.keymap import Conversion
from mmvidformer.checkpoints.reading import Checkpoint
from mmvidformer.checkpoints.video_models import to_other
from mmvidformer.models import VideoTransformer

GOLDEN = Path(__file__).parents[1] / "golden" / "vjepa2_1_a.npz"
CLIPS = ["whole", "odd", "image"]


def load() -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Weights by their names, and inputs and outputs."""
    with np.load(GOLDEN) as file:
        arrays = {name: torch.from_numpy(file[name]) for name in file.files}
    stem = "params/"
    return {n.removeprefix(stem): x for n, x in arrays.items() if n.startswith(stem)}, arrays


def read(weights: dict[str, Tensor]) -> Conversion:
    name, result = convert_checkpoint(Checkpoint(weights, {}), "memory")
    assert name == "vjepa2_1"
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
def test_tokens(clip: str) -> None:
    """Of videos of any size, and of images, which have a projection of their own."""
    (weights, arrays), frames = load(), load()[1][f"input/{clip}"]
    tokens = build(read(weights))(frames)
    assert tokens.shape[1] == max(frames.shape[2] // 2, 1)
    assert_equal(tokens.flatten(1, 3), arrays[f"layer_11/{clip}"])


@pytest.mark.parametrize("clip", CLIPS)
@torch.no_grad()
def test_layers_have_norms_of_their_own(clip: str) -> None:
    """Dense features of several layers, as ``features --layers 2 5 8 11 --tokens`` writes them."""
    weights, arrays = load()
    layers = (2, 5, 8, 11)
    expected = torch.cat([arrays[f"layer_{number}/{clip}"] for number in layers], dim=-1)
    outputs = layer_features(build(read(weights)), arrays[f"input/{clip}"], True, layers)
    assert_equal(outputs.flatten(1, 3), expected)


@torch.no_grad()
def test_there_and_back() -> None:
    """The vectors of the modalities are in the biases then; all else is as it was."""
    weights, arrays = load()
    state = read(weights).state
    back = to_other(state, "vjepa2_1", "official")
    assert recognize(back) == "vjepa2_1"
    again = read(back).state
    assert again.keys() == state.keys()
    assert all(torch.equal(again[name], state[name]) for name in state)
    vectors = {"video_mod_embed": "patch_embed", "img_mod_embed": "patch_embed_img"}
    for name, embedding in vectors.items():
        assert not back[name].any()
        expected = weights[f"{embedding}.proj.bias"] + weights[name].flatten()
        assert torch.equal(back[f"{embedding}.proj.bias"], expected)
    assert back.keys() == weights.keys()


@torch.no_grad()
def test_files(tmp_path: Path) -> None:
    """A file of the authors' form: the teacher of a distilled model, a student, a predictor."""
    weights, arrays = load()
    teacher = {f"module.backbone.{name}": x for name, x in weights.items()}
    student = {name: torch.zeros_like(x) for name, x in teacher.items()}
    files = {"encoder": student, "predictor": {}, "ema_encoder": teacher}
    torch.save(files, tmp_path / "theirs.pt")
    report = convert_file(tmp_path / "theirs.pt", tmp_path / "ours.pth", num_heads=2)
    assert "V-JEPA 2.1" in report
    backbone = build(read_model(tmp_path / "ours.pth")[1])
    tokens = backbone(arrays["input/odd"])
    assert_equal(tokens.flatten(1, 3), arrays["layer_11/odd"])
    convert_file(tmp_path / "ours.pth", tmp_path / "back.pt", "official", num_heads=2)
    result = read_model(tmp_path / "back.pt")[1]
    result.num_heads = 2
    again = build(result)
    assert torch.equal(again(arrays["input/odd"]), tokens)
    with pytest.raises(ValueError, match="HuggingFace has no model like"):
        convert_file(tmp_path / "ours.pth", tmp_path / "folder", "huggingface")


def test_images_need_tubelets_of_frames() -> None:
    sizes = dict(arch=dict(embed_dims=12, depth=1, num_heads=2), img_size=16)
    for stem in (dict(tubelet=(1, 8, 8)), dict(tubelet=(2, 8, 8), stride=(1, 8, 8))):
        with pytest.raises(ValueError, match="images=True needs tubelets of several frames"):
            VideoTransformer(**sizes, stem=dict(stem, images=True))
