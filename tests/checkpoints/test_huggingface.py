"""HuggingFace's ViViT gives our logits, and ours give HuggingFace's."""

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from transformers import (
    AutoImageProcessor,
    VivitConfig,
    VivitForVideoClassification,
    VivitImageProcessor,
)

from mmvidformer.checkpoints import convert_file, read_model
from mmvidformer.checkpoints.backbones import backbone_arguments
from mmvidformer.checkpoints.keymap import Conversion
from mmvidformer.checkpoints.video_models import from_vivit, to_other
from mmvidformer.models import ViViT

GRID = (4, 3, 3)


@pytest.fixture(scope="module")
def theirs() -> VivitForVideoClassification:
    torch.manual_seed(0)
    model = VivitForVideoClassification(
        VivitConfig(
            image_size=24,
            num_frames=8,
            tubelet_size=[2, 8, 8],
            hidden_size=24,
            num_hidden_layers=3,
            num_attention_heads=3,
            intermediate_size=40,
            num_labels=5,
        )
    ).eval()
    # Weights that start at zero would mask errors.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.2)
    return model


@pytest.fixture(scope="module")
def clip() -> torch.Tensor:
    return torch.randn(2, 3, 8, 24, 24, generator=torch.Generator().manual_seed(1))


def hf_logits(model: VivitForVideoClassification, clip: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model(pixel_values=clip.transpose(1, 2)).logits


def our_logits(result: Conversion, clip: torch.Tensor) -> torch.Tensor:
    backbone = ViViT(**backbone_arguments(result)).eval()
    weights = result.state
    stem = "backbone."
    backbone.load_state_dict(
        {name.removeprefix(stem): v for name, v in weights.items() if name.startswith(stem)}
    )
    with torch.no_grad():
        return torch.nn.functional.linear(
            backbone(clip), weights["cls_head.fc_cls.weight"], weights["cls_head.fc_cls.bias"]
        )


def test_logits_from_module_names(theirs: VivitForVideoClassification, clip: torch.Tensor) -> None:
    meta = {"num_attention_heads": 3}
    result = from_vivit(theirs.state_dict(), grid=GRID, meta=meta)
    assert result.scheme == "spacetime" and not result.ignored and not result.missing
    expected = hf_logits(theirs, clip)
    assert expected.std() > 0.1
    torch.testing.assert_close(our_logits(result, clip), expected, atol=1e-4, rtol=1e-4)


def test_logits_from_a_folder_with_hub_names(
    theirs: VivitForVideoClassification, clip: torch.Tensor, tmp_path: Path
) -> None:
    theirs.save_pretrained(tmp_path)
    name, result = read_model(tmp_path)
    assert name == "huggingface"
    torch.testing.assert_close(
        our_logits(result, clip), hf_logits(theirs, clip), atol=1e-4, rtol=1e-4
    )


@pytest.mark.parametrize("layout", ["huggingface", "modules"])
def test_names_and_weights_survive_the_round_trip(
    theirs: VivitForVideoClassification, layout: str
) -> None:
    ours = from_vivit(theirs.state_dict(), grid=GRID).state
    there = to_other(ours, "spacetime", layout)
    back = from_vivit(there, grid=GRID).state
    assert back.keys() == ours.keys()
    assert all(torch.equal(back[name], ours[name]) for name in ours)


@pytest.mark.skipif(transformers.__version__ < "5", reason="transformers 5 has other names")
def test_back_to_modules_loads_strictly(
    theirs: VivitForVideoClassification, clip: torch.Tensor
) -> None:
    ours = from_vivit(theirs.state_dict(), grid=GRID).state
    other = VivitForVideoClassification(theirs.config).eval()
    other.load_state_dict(to_other(ours, "spacetime", "modules"), strict=True)
    assert torch.equal(hf_logits(other, clip), hf_logits(theirs, clip))


def test_written_folder_loads_in_transformers(
    theirs: VivitForVideoClassification, clip: torch.Tensor, tmp_path: Path
) -> None:
    theirs.save_pretrained(tmp_path / "theirs")
    convert_file(tmp_path / "theirs", tmp_path / "ours.pth")
    convert_file(tmp_path / "ours.pth", tmp_path / "back", to="huggingface")
    assert not (tmp_path / "back" / "preprocessor_config.json").exists()  # pixels are unknown
    back, info = VivitForVideoClassification.from_pretrained(
        tmp_path / "back", output_loading_info=True
    )
    assert not info["missing_keys"] and not info["unexpected_keys"]
    assert back.config.num_labels == 5 and back.config.intermediate_size == 40
    torch.testing.assert_close(hf_logits(back.eval(), clip), hf_logits(theirs, clip))


@pytest.mark.parametrize("offset", [True, False])
def test_written_folder_normalizes_as_the_source(
    theirs: VivitForVideoClassification, offset: bool, tmp_path: Path
) -> None:
    """With the offset as Google's ViViT, whose pixels are -1 to 1 without normalization."""
    theirs.save_pretrained(tmp_path / "theirs")
    options = dict(image_mean=[0.4, 0.5, 0.6], image_std=[0.2, 0.3, 0.4], rescale_factor=1 / 255)
    options = dict(do_normalize=False) if offset else options
    source = VivitImageProcessor(
        offset=offset, size={"shortest_edge": 27}, crop_size=dict(height=24, width=24), **options
    )
    source.save_pretrained(tmp_path / "theirs")
    convert_file(tmp_path / "theirs", tmp_path / "ours.pth")
    convert_file(tmp_path / "ours.pth", tmp_path / "back", to="huggingface")
    back = AutoImageProcessor.from_pretrained(tmp_path / "back")
    assert type(back) is VivitImageProcessor
    frames = list(np.random.default_rng(0).integers(0, 256, (8, 30, 40, 3), dtype=np.uint8))
    expected, found = (one(frames, return_tensors="pt")["pixel_values"] for one in (source, back))
    assert found.shape == (1, 8, 3, 24, 24)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_bare_model_has_no_classifier(theirs: VivitForVideoClassification) -> None:
    state = theirs.vivit.state_dict()
    state["pooler.dense.weight"] = torch.zeros(24, 24)
    result = from_vivit(state, grid=GRID)
    assert result.missing == ["cls_head.fc_cls.weight", "cls_head.fc_cls.bias"]
    assert result.ignored == ["pooler.dense.weight"]


def test_ambiguous_position_tables_need_a_grid(theirs: VivitForVideoClassification) -> None:
    with pytest.raises(ValueError, match="table of 36 vectors does not fit the grid .*; give"):
        from_vivit(theirs.state_dict())


@pytest.mark.parametrize(
    "meta", [{"hidden_act": "gelu"}, {"layer_norm_eps": 1e-12}], ids=["act", "eps"]
)
def test_other_arithmetic_is_refused(theirs: VivitForVideoClassification, meta: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(meta))):
        from_vivit(theirs.state_dict(), grid=GRID, meta=meta)


def test_model_2_does_not_fit(theirs: VivitForVideoClassification) -> None:
    state = from_vivit(theirs.state_dict(), grid=GRID).state
    state["backbone.encoders.1.norm.weight"] = torch.ones(24)
    with pytest.raises(ValueError, match=r"unknown 1 names \[backbone.encoders.1.norm"):
        to_other(state, "spacetime")
