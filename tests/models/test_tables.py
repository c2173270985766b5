"""A row added to the table of a paper is a scheme like the others, without another change."""

from pathlib import Path

import pytest
import torch
from mmengine.config import Config

from lab.receptive_field import receptive_field
from mmvidformer.apis.attention_rollout import rollout
from mmvidformer.apis.complexity import count
from mmvidformer.layers import SubLayer
from mmvidformer.models import feature_fixation, timesformer, vivit
from mmvidformer.models.fast.inference import optimize_for_inference
from mmvidformer.registry import MODELS

SMALL = dict(arch=dict(embed_dims=32, depth=2, num_heads=4), img_size=32, clip_len=4)
WINDOW = dict(type="window", size=(2, 2, 2))
PLACES = dict(type="window", size=(2, 1, 1))
ROWS = {
    "TimeSformer": (
        timesformer.SCHEMES,
        dict(block=(SubLayer("time", cls="skip", fc=True), SubLayer(WINDOW))),
        dict(scheme="new", stem=dict(tubelet=(1, 8, 8))),
    ),
    "ViViT": (
        vivit.SCHEMES,
        dict(block=(SubLayer(("width", "height")), SubLayer("time", zero_init=True))),
        dict(scheme="new", stem=dict(tubelet=(1, 8, 8))),
    ),
    "FeatureFixationTransformer": (
        feature_fixation.SCHEMES,
        dict(
            block=(
                SubLayer("width", shifts=["temporal"]),
                SubLayer("height"),
                SubLayer(PLACES, shifts=["spatial"]),
            )
        ),
        dict(scheme="new", stem=dict(tubelet=(1, 8, 8))),
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_new_row_is_a_scheme(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table, row, options = ROWS[name]
    monkeypatch.setitem(table, "new", row)
    backbone = dict(type=f"mmvidformer.{name}", **SMALL, **options)
    head = dict(type="mmvidformer.TokenMlpHead", num_classes=5, in_channels=32)
    if name != "FeatureFixationTransformer":
        head = dict(type="TimeSformerHead", num_classes=5, in_channels=32)
    cfg = Config(dict(default_scope="mmaction", model=dict(backbone=backbone, cls_head=head)))
    torch.manual_seed(0)
    model = MODELS.build(cfg.model.backbone).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # some start at zero
            parameter += 0.1 * torch.randn_like(parameter)
    clip = torch.randn(2, 3, 4, 32, 32)
    out = model(clip)
    weights = sum(p.numel() for p in model.parameters())
    assert count(cfg).parameters - weights == sum(
        p.numel() for p in MODELS.build(cfg.model.cls_head).parameters()
    )
    assert count(cfg).macs > 0

    with torch.no_grad():
        torch.testing.assert_close(optimize_for_inference(model)(clip), out, atol=1e-4, rtol=1e-4)
    assert receptive_field(model, (4, 4, 4))[-1].tokens.any()
    if out.dim() == 2:
        shares = rollout(model, clip)
        total = shares.tokens.sum(dim=(1, 2, 3)) + shares.cls
        torch.testing.assert_close(total, torch.ones(2), atol=1e-4, rtol=0)

    state = {f"backbone.{key}": value for key, value in model.state_dict().items()}
    torch.save({"state_dict": state}, tmp_path / "new.pth")
    other = MODELS.build({**backbone, "init_from": str(tmp_path / "new.pth")}).eval()
    other.init_weights()
    torch.testing.assert_close(other(clip), out)


@pytest.mark.parametrize("order", ["reverse", "parallel"])
def test_orders_of_a_new_row(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The class token joins the sub-layers that skip it, or the head could not read them."""
    table, row, options = ROWS["TimeSformer"]
    monkeypatch.setitem(table, "new", row)
    model = timesformer.TimeSformer(**SMALL, **options, **{order: True})
    roles = [part.attn.cls for part in model.encoders[0].blocks[0].sublayers.values()]
    assert roles == ["mean", "mean"]
    names = list(model.encoders[0].blocks[0].sublayers)
    assert names == (["window", "time"] if order == "reverse" else ["time", "window"])
