"""The shipped configs of the encoders of 2024 to 2026 take weights of the published shapes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mmengine.config import Config

from mmvidformer import get_config
from mmvidformer.checkpoints.formats import convert_checkpoint
from mmvidformer.checkpoints.keymap import State
from mmvidformer.checkpoints.reading import Checkpoint
from mmvidformer.checkpoints.video_models import to_other
from mmvidformer.engine.loading import build_meta_model

videoprism = pytest.importorskip("transformers.models.videoprism")  # not in 4.40
VideoPrismVisionConfig = videoprism.VideoPrismVisionConfig
VideoPrismVisionModel = videoprism.VideoPrismVisionModel

GOLDEN = Path(__file__).parents[1] / "golden"
LARGE = dict(
    hidden_size=1024,
    intermediate_size=4096,
    num_attention_heads=16,
    num_spatial_layers=24,
    num_frames=8,
)


def weights(cfg: Config) -> State:
    return {name: x.to("meta") for name, x in build_meta_model(cfg).state_dict().items()}


@pytest.mark.parametrize(("name", "sizes"), [("b", {}), ("l", LARGE)])
def test_videoprism(name: str, sizes: dict[str, Any]) -> None:
    """Without their own classifiers."""
    own = weights(get_config(f"videoprism_{name}_k400"))
    found = to_other({n: x for n, x in own.items() if "cls_head" not in n}, "videoprism")
    with torch.device("meta"):
        other = VideoPrismVisionModel(VideoPrismVisionConfig(**sizes))
    assert {n: x.shape for n, x in found.items()} == {
        n: x.shape for n, x in other.state_dict().items()
    }


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("levjepa_a", "levjepa_l_sthv2"),
        ("internvideo_next_a", "internvideo_next_b_k400"),
        ("onevision_a", "onevision_l_k400"),
        ("streamformer_a", "streamformer_b_k400"),
        ("trecvit_a", "trecvit_b_k400"),
        ("vjepa2_1_a", "vjepa2_1_b_sthv2"),
    ],
)
def test_names_and_options_are_those_of_the_authors_code(name: str, config: str) -> None:
    """All but sizes: the weights of a small model of theirs have the names of the config's."""
    with np.load(GOLDEN / f"{name}.npz") as file:
        theirs = {
            n.removeprefix("params/"): torch.from_numpy(file[n])
            for n in file.files
            if n.startswith("params/")
        }
    options = {"grid": (2, 3, 3)} if "pos_embed" in theirs else {}
    converted = convert_checkpoint(Checkpoint(theirs, {}), "memory", **options)[1]
    backbone = {n for n in converted.state if n.startswith("backbone.")}
    own = {n for n in weights(get_config(config)) if n.startswith("backbone.")}
    assert first_blocks(own) == first_blocks(backbone)
    options = get_config(config).model.backbone
    for option, value in converted.settings.items():
        if option in ("frames", "pool", "rope", "cls", "mlp", "layer_norms", "registers"):
            assert options.get(option) == value, option


def first_blocks(names: set[str]) -> set[str]:
    return {name for name in names if ".blocks." not in name or ".blocks.0." in name}
