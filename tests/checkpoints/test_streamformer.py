"""StreamFormer: outputs equal those of its code, whole and frame by frame; names in both ways.

``tests/golden/make_streamformer.py`` ran the authors' code.
"""

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mmvidformer.checkpoints import convert_file, read_model
from mmvidformer.checkpoints.backbones import backbone_arguments
from mmvidformer.checkpoints.formats import convert_checkpoint, recognize
from mmvidformer.checkpoints.keymap import Conversion
from mmvidformer.checkpoints.reading import Checkpoint
from mmvidformer.checkpoints.video_models import to_other
from mmvidformer.layers import POOLINGS
from mmvidformer.models import VideoTransformer
from mmvidformer.models.fast.inference import optimize_for_inference

GOLDEN = Path(__file__).parents[1] / "golden"
CLIPS = ["whole", "short", "large"]


def load(case: str) -> tuple[dict[str, Tensor], dict[str, Tensor], dict]:
    """Weights, inputs and outputs, and config."""
    with np.load(GOLDEN / f"streamformer_{case}.npz") as file:
        config = json.loads(str(file["config"]))
        arrays = {name: torch.from_numpy(file[name]) for name in file.files if name != "config"}
    weights = {n.removeprefix("params/"): x for n, x in arrays.items() if n.startswith("params/")}
    return weights, arrays, config


def read(case: str) -> Conversion:
    weights, _, config = load(case)
    name, result = convert_checkpoint(Checkpoint(weights, config), "memory")
    assert name == "streamformer"
    return result


def build(result: Conversion) -> tuple[VideoTransformer, nn.Module]:
    """The backbone, and the pooling of a frame."""
    backbone = VideoTransformer(**backbone_arguments(result)).eval()
    parts: dict[str, dict] = {"backbone.": {}, "cls_head.pooling.": {}}
    for name, value in result.state.items():
        stem = next(stem for stem in parts if name.startswith(stem))
        parts[stem][name.removeprefix(stem)] = value
    backbone.load_state_dict(parts["backbone."])
    options = dict(num_heads=2, norm=result.head["norm"])
    pooling = POOLINGS.build(result.head["pooling"], dim=backbone.embed_dims, **options).eval()
    pooling.load_state_dict(parts["cls_head.pooling."])
    return backbone, pooling


def assert_equal(found: Tensor, expected: Tensor) -> None:
    assert expected.std() > 0.1
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


# Of shorter clips, models that are not causal resize the table here, and take its first rows there.
@pytest.mark.parametrize(("case", "clip"), [*product("a", CLIPS), ("b", "whole")])
@torch.no_grad()
def test_tokens_and_pooled_frames(case: str, clip: str) -> None:
    _, arrays, _ = load(case)
    backbone, pooling = build(read(case))
    tokens = backbone(arrays[f"input/{clip}"].transpose(1, 2))
    assert_equal(tokens.flatten(2, 3), arrays[f"tokens/{clip}"])
    pooled = pooling(tokens.flatten(0, 1)).unflatten(0, tokens.shape[:2])
    assert_equal(pooled, arrays[f"pooled/{clip}"])


@torch.no_grad()
def test_frame_by_frame() -> None:
    """The stream has the authors' tokens of the whole clip."""
    _, arrays, _ = load("a")
    backbone, _ = build(read("a"))
    frames, state, steps = arrays["input/whole"].transpose(1, 2), None, []
    for part in frames.split([1, 2, 1, 2], dim=2):
        tokens, state = backbone.step(part, state)
        steps.append(tokens)
    assert_equal(torch.cat(steps, dim=1).flatten(2, 3), arrays["tokens/whole"])


@torch.no_grad()
def test_streams_after_the_last_position() -> None:
    """With a past without a bound, they are the authors'."""
    _, arrays, _ = load("a")
    result = read("a")
    assert result.settings["block"][0]["pattern"] == dict(type="causal_time", past=6)
    result.settings["block"][0]["pattern"] = "causal_time"
    backbone, _ = build(result)
    frames, state, steps = arrays["input/stream"].transpose(1, 2), None, []
    assert frames.shape[2] == 9
    for frame in frames.split(1, dim=2):
        tokens, state = backbone.step(frame, state)
        steps.append(tokens)
    assert_equal(torch.cat(steps, dim=1).flatten(2, 3), arrays["tokens/stream"])
    assert_equal(backbone(frames).flatten(2, 3), arrays["tokens/stream"])


@torch.no_grad()
def test_streams_have_no_end() -> None:
    """A state of constant size; each step is that of the clip of all frames."""
    _, arrays, _ = load("a")
    backbone, _ = build(read("a"))
    frames, state, steps, sizes = arrays["input/stream"].transpose(1, 2), None, [], set()
    clip = torch.cat([frames, frames.flip(2)], dim=2)
    for frame in clip.split(1, dim=2):
        tokens, state = backbone.step(frame, state)
        steps.append(tokens)
        sizes.add(tuple(x.shape for past in state.past for x in past))
    assert len(sizes) == 1
    assert_equal(torch.cat(steps, dim=1), backbone(clip))
    # Its past has 6 frames, that of the authors all.
    whole = arrays["tokens/stream"]
    assert_equal(torch.cat(steps[:6], dim=1).flatten(2, 3), whole[:, :6])
    assert (steps[8].flatten(2, 3) - whole[:, 8:]).abs().max() > 1e-2


@pytest.mark.parametrize("case", ["a", "b"])
@pytest.mark.parametrize("prefix", ["", "timesformer."])
def test_names_in_both_directions(case: str, prefix: str) -> None:
    """Low-rank updates are part of their layers afterwards; the mask has no weights."""
    weights, _, config = load(case)
    weights = {prefix + name: value for name, value in weights.items()}
    if prefix:
        weights["logit_scale"] = torch.zeros(())
    state = convert_checkpoint(Checkpoint(weights, config), "memory")[1].state
    there = to_other(state, "streamformer")
    assert recognize(there) == "streamformer"
    wanted = {n.removeprefix(prefix) for n in weights if "_lora_" not in n and "mask" not in n}
    assert there.keys() == wanted - {"logit_scale"}
    back = convert_checkpoint(Checkpoint(there, config), "memory")[1].state
    assert back.keys() == state.keys()
    assert all(torch.equal(back[name], state[name]) for name in state)


@torch.no_grad()
def test_folders(tmp_path: Path) -> None:
    """Our file, their folder, and our file again."""
    _, arrays, _ = load("a")
    weights, _, config = load("a")
    torch.save(weights, tmp_path / "theirs.pth")
    report = convert_file(tmp_path / "theirs.pth", tmp_path / "ours.pth", num_heads=2)
    assert "StreamFormer" in report
    convert_file(tmp_path / "ours.pth", tmp_path / "back", to="huggingface")
    written = json.loads((tmp_path / "back" / "config.json").read_text())
    assert written["architectures"] == ["TimesformerMultiTaskingModelSigLIP"]
    same = {key: written[key] for key in config.keys() - {"add_lora_spatial"}}
    assert same == {key: value for key, value in config.items() if key != "add_lora_spatial"}
    backbone, _ = build(read_model(tmp_path / "back")[1])
    tokens = backbone(arrays["input/whole"].transpose(1, 2))
    assert_equal(tokens.flatten(2, 3), arrays["tokens/whole"])


@torch.no_grad()
def test_gates_are_folded_for_inference() -> None:
    _, arrays, _ = load("a")
    backbone, _ = build(read("a"))
    assert any(name.endswith(".gate") for name in backbone.state_dict())
    fast: Any = optimize_for_inference(backbone)
    assert not any(name.endswith(".gate") for name in fast.state_dict())
    tokens = fast(arrays["input/whole"].transpose(1, 2))
    assert_equal(tokens.flatten(2, 3), arrays["tokens/whole"])


def test_a_new_model_is_the_image_model_and_its_gates_learn() -> None:
    """Gates are zero at first, but their layers are not, so gates have a gradient."""
    torch.manual_seed(0)
    model = VideoTransformer(
        dict(embed_dims=16, depth=1, num_heads=2),
        4,
        16,
        stem=dict(tubelet=(1, 8, 8)),
        block=[dict(pattern="causal_time", fc="gated"), dict(pattern="space")],
        positions="space",
        pool="none",
    )
    clip = torch.randn(1, 3, 4, 16, 16)
    tokens = model(clip)
    torch.testing.assert_close(tokens[:, 2:3], model(clip[:, :, 2:3]), atol=1e-5, rtol=1e-5)
    (tokens * torch.randn_like(tokens)).sum().backward()
    layer: Any = model.encoders[0].blocks[0].sublayers["causal_time"]
    assert layer.gate == 0 and layer.gate.grad != 0


def test_unknown_names_and_settings_are_told() -> None:
    weights, _, config = load("a")
    with pytest.raises(ValueError, match="hidden_act must be gelu or .* or gelu_pytorch_tanh, got"):
        convert_checkpoint(Checkpoint(weights, {**config, "hidden_act": "relu"}), "memory")
    weights["encoder.layer.0.other"] = torch.zeros(1)
    with pytest.raises(ValueError, match="unknown 1 names"):
        convert_checkpoint(Checkpoint(weights, config), "memory")
    with pytest.raises(ValueError, match="fc must be False, True or 'gated', got 'gate'"):
        VideoTransformer(block=[dict(fc="gate")])
