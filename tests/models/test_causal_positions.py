"""Learned position tables over time of causal models: first rows, never stretched ones."""

from pathlib import Path

import pytest
import torch
from torch import nn

from mmvidformer.checkpoints.image_init import init_from_image
from mmvidformer.models import VideoTransformer
from tests.models.test_streaming import TIME, build


def causal_model(clip_len: int, positions: str | dict = "space_time") -> VideoTransformer:
    """A causal model whose positions are the clearest part of its output."""
    model = build(clip_len=clip_len, block=[TIME], positions=positions)
    for name, table in model.named_parameters():
        if ".pos_embed." in name:
            nn.init.normal_(table, generator=torch.Generator().manual_seed(1))
    return model


@pytest.mark.parametrize("positions", ["time", "space_time", "joint"])
def test_a_learned_time_table_ends(positions: str) -> None:
    """In a stream, in a clip and in one of several lengths, instead of being stretched."""
    model = causal_model(4, positions)
    clip = torch.randn(1, 3, 6, 16, 16)
    _, state = model.step(clip[:, :, :4])
    for call in (
        lambda: model.step(clip[:, :, 4:5], state),
        lambda: model.step(clip),
        lambda: model(clip),
        lambda: model(clip, torch.ones(1, 6, dtype=torch.bool)),
    ):
        with pytest.raises(ValueError, match="of a causal model ends after 4 steps.*clip_len, or"):
            call()
    whole = model(clip[:, :, :4])
    torch.testing.assert_close(model(clip[:, :, :3]), whole[:, :3], atol=1e-5, rtol=0)


@pytest.mark.parametrize("positions", ["time", "space_time", "joint"])
def test_the_last_row_is_held(positions: str) -> None:
    """Later frames have it, in a clip and in a stream, and so has one of several lengths."""
    model = causal_model(4, dict(type=positions, hold_last=True))
    longer = causal_model(6, positions)
    state = model.state_dict()
    for name in longer.state_dict():
        if name.endswith((".t", ".thw")):
            state[name] = torch.cat([state[name], state[name][:, -1:].repeat(1, 2, 1, 1, 1)], dim=1)
    longer.load_state_dict(state)
    clip = torch.randn(1, 3, 6, 16, 16)
    whole = longer(clip)
    torch.testing.assert_close(model(clip), whole, atol=1e-5, rtol=0)
    start, stream = model.step(clip[:, :, :3])
    end, _ = model.step(clip[:, :, 3:], stream)
    torch.testing.assert_close(torch.cat([start, end], dim=1), whole, atol=1e-5, rtol=0)
    (features,) = model(clip, torch.ones(1, 6, dtype=torch.bool))
    torch.testing.assert_close(features[None], whole, atol=1e-5, rtol=0)


@pytest.mark.parametrize("options", [dict(type="space"), dict(type="joint", fixed=True)])
def test_nothing_to_hold(options: dict) -> None:
    with pytest.raises(ValueError, match="hold_last=True needs a learned time table"):
        causal_model(4, dict(options, hold_last=True))


@pytest.mark.parametrize("positions", ["time", "space_time", "joint"])
@pytest.mark.parametrize("start", ["load_state_dict", "init_from_image"])
def test_loading_cuts_a_longer_time_table_and_refuses_a_shorter_one(
    positions: str, start: str, tmp_path: Path
) -> None:
    model, shorter = causal_model(8, positions), causal_model(4, positions)
    if start == "load_state_dict":
        shorter.load_state_dict(model.state_dict())
    else:
        state = {f"backbone.{name}": value for name, value in model.state_dict().items()}
        torch.save({"state_dict": state}, tmp_path / "model.pth")
        init_from_image(shorter, tmp_path / "model.pth")
    clip = torch.randn(1, 3, 4, 16, 16)
    torch.testing.assert_close(shorter(clip), model(clip))
    wanted = "ends after 4 steps, but clip_len of the causal model is 8 steps; use the clip_len"
    with pytest.raises(ValueError, match=wanted):
        model.load_state_dict(shorter.state_dict())


def test_other_models_stretch_the_time_table() -> None:
    options = dict(block=[dict(pattern="time")], positions="time")
    model, longer = build(clip_len=4, **options), build(clip_len=7, **options)
    longer.load_state_dict(model.state_dict())
    tables = [one.encoders[0].pos_embed.t for one in (model, longer)]
    torch.testing.assert_close(tables[1][:, ::2], tables[0])
    clip = torch.randn(1, 3, 7, 16, 16)
    torch.testing.assert_close(longer(clip), model(clip))
