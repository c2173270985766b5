"""The shipped configs of VideoMAE and V-JEPA 2, at full size."""

from functools import partial

import pytest
import torch
from transformers import VideoMAEConfig, VideoMAEForVideoClassification
from transformers.models.videomae import modeling_videomae

from mmvidformer import get_config
from mmvidformer.checkpoints.huggingface import huggingface_config
from mmvidformer.checkpoints.keymap import Conversion
from mmvidformer.checkpoints.published import row_of
from mmvidformer.checkpoints.video_models import to_other
from mmvidformer.engine.loading import build_meta_model

vjepa2 = pytest.importorskip("transformers.models.vjepa2")  # not in 4.40
VJEPA2Config = vjepa2.VJEPA2Config
VJEPA2ForVideoClassification = vjepa2.VJEPA2ForVideoClassification


def test_large_classifiers_of_vjepa2_have_the_official_heads() -> None:
    """For g, transformers gives the classifier the 22 heads of the encoder; it was trained with 16.

    The published address has the config with 16; any other folder is read as transformers reads it.
    """
    cfg = get_config("vjepa2_g_sthv2")
    assert cfg.model.backbone.arch.num_heads == 22 and cfg.model.cls_head.num_heads == 16
    row = row_of("hf://facebook/vjepa2-vitg-fpc64-384-ssv2")
    assert row is not None and row.config == "vjepa2_g_sthv2"
    settings = dict(
        arch=dict(embed_dims=1408, depth=40, num_heads=22, mlp_ratio=48 / 11),
        **dict(img_size=(384, 384), clip_len=64, stem=dict(tubelet=(2, 16, 16))),
    )
    with pytest.raises(ValueError, match="as many heads as the encoder, 22; this one has 16"):
        result = Conversion({}, scheme="vjepa2", head=dict(num_heads=16, depth=3))
        huggingface_config(result, settings)


SSV2 = dict(num_labels=174)
LARGE = dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16)
HUGE = dict(hidden_size=1280, num_hidden_layers=32, num_attention_heads=16)
GIANT = dict(hidden_size=1408, num_hidden_layers=40, num_attention_heads=22, mlp_ratio=48 / 11)
SMALLEST = dict(hidden_size=384, num_attention_heads=6, intermediate_size=1536)
SHIPPED = {
    "videomae_s_k400": SMALLEST,
    "videomae_b_k400": {},
    "videomae_l_k400": LARGE | dict(intermediate_size=4096),
    "videomae_h_k400": HUGE | dict(intermediate_size=5120),
    "videomae_s_sthv2": SMALLEST | SSV2,
    "videomae_b_sthv2": SSV2,
    "videomae2_s_k400": SMALLEST,
    "videomae2_b_k400": {},
    "vjepa2_l_sthv2": LARGE | SSV2,
    "vjepa2_h_sthv2": HUGE | SSV2,
    "vjepa2_g_sthv2": GIANT | SSV2,
}


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_configs_have_the_weights_of_transformers(name: str, monkeypatch) -> None:
    """All names and shapes at full size; those of the predictor alone are left."""
    # Their table of positions is no weight, and takes a second to compute.
    monkeypatch.setattr(modeling_videomae, "get_sinusoid_encoding_table", partial(torch.zeros, 1))
    model = build_meta_model(get_config(name))
    family = "vjepa2" if name.startswith("vjepa2") else "videomae"
    own = {key: x.to("meta") for key, x in model.state_dict().items()}
    dialect = "huggingface" if family == "vjepa2" else "modules"
    found = to_other(own, family, dialect)
    with torch.device("meta"):
        if family == "vjepa2":
            other = VJEPA2ForVideoClassification(VJEPA2Config(**SHIPPED[name]))
        else:
            options = {"num_labels": 400, **SHIPPED[name]}
            other = VideoMAEForVideoClassification(VideoMAEConfig(**options))
    shapes = {k: x.shape for k, x in other.state_dict().items() if "predictor" not in k}
    assert {key: x.shape for key, x in found.items()} == shapes
