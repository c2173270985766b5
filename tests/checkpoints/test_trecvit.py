"""TRecViT: outputs equal those of its code, whole and frame by frame.

``tests/golden/make_trecvit.py`` ran the authors' code.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mmvidformer.checkpoints import convert_file, read_model
from mmvidformer.checkpoints.backbones import backbone_arguments
from mmvidformer.checkpoints.formats import convert_checkpoint
from mmvidformer.checkpoints.keymap import Conversion
from mmvidformer.checkpoints.reading import Checkpoint
from mmvidformer.models import VideoTransformer
from mmvidformer.models.heads import HiddenLayerHead

GOLDEN = Path(__file__).parents[1] / "golden" / "trecvit_a.npz"
CLIPS = ["whole", "one", "long"]


def load() -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Weights, and inputs and outputs."""
    with np.load(GOLDEN) as file:
        arrays = {name: torch.from_numpy(file[name]) for name in file.files}
    weights = {name: x for name, x in arrays.items() if name.startswith("params/")}
    return weights, arrays


def read() -> Conversion:
    name, result = convert_checkpoint(Checkpoint(load()[0], {}), "memory")
    assert name == "trecvit"
    return result


def build(result: Conversion) -> tuple[VideoTransformer, HiddenLayerHead]:
    backbone = VideoTransformer(**backbone_arguments(result)).eval()
    head = HiddenLayerHead(5, backbone.embed_dims, **result.head).eval()
    parts: dict[str, dict] = {"backbone.": {}, "cls_head.": {}}
    for name, value in result.state.items():
        stem = next(stem for stem in parts if name.startswith(stem))
        parts[stem][name.removeprefix(stem)] = value
    backbone.load_state_dict(parts["backbone."])
    head.load_state_dict(parts["cls_head."])
    return backbone, head


def assert_equal(found: Tensor, expected: Tensor) -> None:
    assert expected.std() > 0.1
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("clip", CLIPS)
@torch.no_grad()
def test_tokens_and_logits(clip: str) -> None:
    """The token of each frame, those of its places, and the classes of clips of any length."""
    arrays, (backbone, head) = load()[1], build(read())
    frames = arrays[f"input/{clip}"].permute(0, 4, 1, 2, 3)
    expected = arrays[f"tokens/{clip}"]
    tokens = backbone(frames)
    assert_equal(tokens[:, :, 0, 0], expected[:, :, 0])
    assert_equal(head(tokens), arrays[f"logits/{clip}"])
    outputs: Any = []
    backbone.forward_features(frames, outputs=outputs)
    encoder: Any = backbone.encoders[0]
    places = encoder.norm(outputs[-1].places)
    assert places.shape[2:4] == (3, 3)
    assert_equal(places.flatten(2, 3), expected[:, :, 1:])


@pytest.mark.parametrize("steps", [[1] * 11, [2, 1, 5, 3], [11]])
@torch.no_grad()
def test_frame_by_frame(steps: list[int]) -> None:
    """The stream has the authors' tokens, and a state whose size does not grow."""
    arrays, (backbone, _) = load()[1], build(read())
    state, tokens, sizes = None, [], set()
    for part in arrays["input/long"].permute(0, 4, 1, 2, 3).split(steps, dim=2):
        step, state = backbone.step(part, state)
        tokens.append(step)
        sizes.add(sum(x.numel() for past in state.past for x in past))
    assert_equal(torch.cat(tokens, dim=1)[:, :, 0, 0], arrays["tokens/long"][:, :, 0])
    assert len(sizes) == 1


@torch.no_grad()
def test_files(tmp_path: Path) -> None:
    """A file of the authors' form, and ours, which builds the same model without it."""
    weights, arrays = load()
    np.savez(tmp_path / "theirs.npz", **{name: x.numpy() for name, x in weights.items()})
    report = convert_file(tmp_path / "theirs.npz", tmp_path / "ours.pth")
    assert "TRecViT" in report
    _, result = read_model(tmp_path / "ours.pth")
    assert result.head == dict(hidden_dim=24, act="tanh")
    backbone, head = build(result)
    frames = arrays["input/whole"].permute(0, 4, 1, 2, 3)
    assert_equal(head(backbone(frames)), arrays["logits/whole"])


def test_there_and_back(tmp_path: Path) -> None:
    """All weights have the names and axes of the authors' files again."""
    weights, _ = load()
    np.savez(tmp_path / "theirs.npz", **{name: x.numpy() for name, x in weights.items()})
    convert_file(tmp_path / "theirs.npz", tmp_path / "ours.pth")
    report = convert_file(tmp_path / "ours.pth", tmp_path / "back.npz", "official")
    assert "back.npz (official)" in report
    with np.load(tmp_path / "back.npz") as file:
        back = {f"params/{name}": file[name] for name in file.files}
    assert back.keys() == weights.keys()
    for name, value in weights.items():  # norms lose the last digit of their weights less one
        np.testing.assert_allclose(back[name], value, atol=1e-7, err_msg=name)
        assert back[name].shape == value.shape
    with pytest.raises(ValueError, match="must be a .npz file"):
        convert_file(tmp_path / "ours.pth", tmp_path / "back.pt", "official")


def test_names_that_do_not_fit_are_told() -> None:
    weights, _ = load()
    encoder = {name: x for name, x in weights.items() if "decoder" not in name}
    result = convert_checkpoint(Checkpoint(encoder, {}), "memory")[1]
    assert not result.head and "cls_head.fc_cls.weight" not in result.state
    encoder["params/encoder/other/kernel"] = torch.zeros(1, 1)
    with pytest.raises(ValueError, match="unknown 1 names"):
        convert_checkpoint(Checkpoint(encoder, {}), "memory")
