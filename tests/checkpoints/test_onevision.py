"""OneVision-Encoder: outputs equal those of its code, of all patches and of chosen ones.

``tests/golden/make_onevision.py`` ran the authors' code.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from mmvidformer.checkpoints import convert_file, read_model
from mmvidformer.checkpoints.backbones import backbone_arguments
from mmvidformer.checkpoints.formats import convert_checkpoint, recognize
from mmvidformer.checkpoints.keymap import Conversion
from mmvidformer.checkpoints.reading import Checkpoint
from mmvidformer.checkpoints.video_models import to_other
from mmvidformer.layers.pooling import POOLINGS
from mmvidformer.layers.rotary import ROPES
from mmvidformer.layers.tokens import Places
from mmvidformer.models import VideoTransformer

GOLDEN = Path(__file__).parents[1] / "golden" / "onevision_a.npz"


def load() -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Weights by their names, and inputs and outputs."""
    with np.load(GOLDEN) as file:
        arrays = {name: torch.from_numpy(file[name]) for name in file.files}
    stem = "params/"
    return {n.removeprefix(stem): x for n, x in arrays.items() if n.startswith(stem)}, arrays


def read(weights: dict[str, Tensor], **meta: object) -> Conversion:
    name, result = convert_checkpoint(
        Checkpoint(weights, {"num_attention_heads": 2, **meta}), "memory"
    )
    assert name == "onevision" and result.num_heads == 2
    return result


def part(result: Conversion, stem: str) -> dict[str, Tensor]:
    return {n.removeprefix(stem): x for n, x in result.state.items() if n.startswith(stem)}


def build(result: Conversion) -> VideoTransformer:
    backbone = VideoTransformer(**backbone_arguments(result)).eval()
    backbone.load_state_dict(part(result, "backbone."))
    return backbone


def assert_equal(found: Tensor, expected: Tensor) -> None:
    assert expected.std() > 0.1
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def pool(result: Conversion, tokens: Tensor) -> Tensor:
    options = {**result.head, "dim": 64}
    options.pop("depth")
    pooling = POOLINGS.build(dict(options.pop("pooling"), mlp_ratio=1.0), **options)
    pooling.load_state_dict(part(result, "cls_head.pooling."))
    return pooling(tokens)


@pytest.mark.parametrize("clip", ["spread", "image"])
@torch.no_grad()
def test_all_patches(clip: str) -> None:
    """The frames of a clip are spread over 64."""
    weights, arrays = load()
    result = read(weights)
    tokens = build(result)(arrays[f"input/{clip}"])
    assert_equal(tokens.flatten(1, 3), arrays[f"tokens/{clip}"])
    assert_equal(pool(result, tokens), arrays[f"pooled/{clip}"])


@torch.no_grad()
def test_chosen_patches() -> None:
    """Their places are those of the clip of 64 frames."""
    weights, arrays = load()
    result = read(weights)
    kept = Places(arrays["chosen"], (64, 2, 3))
    tokens = build(result)(arrays["input/chosen"], kept=kept)
    assert tokens.shape == (1, 1, 1, 50, 64)
    assert_equal(tokens.flatten(1, 3), arrays["tokens/chosen"])
    assert_equal(pool(result, tokens), arrays["pooled/chosen"])


def test_frames_are_spread_as_theirs() -> None:
    rope = ROPES.build("onevision", head_dim=32)
    for frames in range(1, 80):
        table = rope.table((frames, 1, 1), torch.zeros(1))[0, :, 0, 0]
        expected = torch.linspace(0, 63, frames).long().float()
        torch.testing.assert_close(table[:, 0], expected.cos(), msg=str(frames))


@torch.no_grad()
def test_there_and_back() -> None:
    weights, _ = load()
    back = to_other(read(weights).state, "onevision", "official")
    assert recognize(back) == "onevision" and back.keys() == weights.keys()
    assert all(torch.equal(back[name], weights[name]) for name in weights)
    trained = read(weights).state
    trained["backbone.embed.proj.bias"] += 1
    with pytest.raises(ValueError, match="patches have no bias"):
        to_other(trained, "onevision", "official")


@torch.no_grad()
def test_files(tmp_path: Path) -> None:
    """A folder of their class has its settings; without the pooling there is no last norm."""
    weights, arrays = load()
    bare = {n: x for n, x in weights.items() if not n.startswith(("head.", "layernorm_post."))}
    bare = {f"onevision_encoder.{name}": x for name, x in bare.items()}
    save_file(bare, tmp_path / "bare.safetensors")
    result = read_model(tmp_path / "bare.safetensors")[1]
    result.num_heads = 2
    tokens = build(result)(arrays["input/image"]).flatten(1, 3)
    norm = [weights[f"layernorm_post.{name}"] for name in ("weight", "bias")]
    tokens = torch.nn.functional.layer_norm(tokens, (64,), *norm, eps=1e-6)
    assert_equal(tokens, arrays["tokens/image"])
    torch.save(weights, tmp_path / "theirs.pt")
    report = convert_file(tmp_path / "theirs.pt", tmp_path / "ours.pth", num_heads=2)
    assert "OneVision-Encoder" in report
    backbone = build(read_model(tmp_path / "ours.pth")[1])
    assert_equal(backbone(arrays["input/spread"]).flatten(1, 3), arrays["tokens/spread"])
    convert_file(tmp_path / "ours.pth", tmp_path / "back.safetensors", "official")
    again = read_model(tmp_path / "back.safetensors")[1].state
    assert all(torch.equal(again[name], x) for name, x in read(weights).state.items())


@pytest.mark.parametrize("meta", [dict(hidden_act="silu"), dict(layer_norm_type="rms_norm")])
def test_other_settings_are_refused(meta: dict) -> None:
    with pytest.raises(ValueError, match="hidden_act must be|layer_norm_type must be 'layer_norm'"):
        read(load()[0], **meta)


def test_places_that_are_spread_do_not_stream() -> None:
    sizes = dict(arch=dict(embed_dims=32, depth=1, num_heads=1), img_size=16, positions="none")
    block = [dict(pattern="causal_joint")]
    stem = dict(tubelet=(1, 8, 8))
    model = VideoTransformer(**sizes, block=block, stem=stem, rope="onevision", pool="none")
    with pytest.raises(ValueError, match="spreads the frames"):
        model.check_causal()
    with pytest.raises(ValueError, match="shares must be 3 numbers"):
        ROPES.build(dict(type="axial", shares=[1, 2]), head_dim=32)
