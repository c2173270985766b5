"""Which models can compute still tubelets once, and for which it is exact."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from mmvidformer.models import FeatureFixationTransformer, TimeSformer, VideoTransformer, ViViT
from mmvidformer.models.fast.run_rules import rule_of
from mmvidformer.models.vivit import SCHEMES as VIVIT
from tests.models.fast.test_run_lengths import SIZE, frozen, still_video
from tests.models.test_keep import build
from tests.models.tiny import perturb

ROWS: dict[str, tuple[type, dict[str, Any]]] = {
    "joint attention, positions of space or none": (VideoTransformer, dict(positions="space")),
    "joint attention, positions in time": (VideoTransformer, {}),
    **{f"ViViT, `{name}`": (ViViT, dict(scheme=name)) for name in VIVIT if name != "spacetime"},
    "ViViT, `spacetime`": (ViViT, dict(scheme="spacetime")),
    "TimeSformer, `joint_space_time`": (TimeSformer, dict(scheme="joint_space_time")),
    "TimeSformer, `divided_space_time`": (TimeSformer, {}),
    "TimeSformer, `space_only`": (TimeSformer, dict(scheme="space_only")),
    "feature fixation, `time_space`": (FeatureFixationTransformer, {}),
    "kernel `cosformer`": (VideoTransformer, dict(block=[dict(kernel="cosformer")])),
    "pattern `causal_joint`": (VideoTransformer, dict(block=[dict(pattern="causal_joint")])),
}
OTHERS: dict[str, tuple[type, dict[str, Any]]] = {
    "rotary in space": (VideoTransformer, dict(positions="none", rope="dinov3")),
    "rotary in time": (VideoTransformer, dict(positions="none", rope="axial")),
    "sums of positions": (VideoTransformer, dict(positions="space_time")),
    "fixed positions": (VideoTransformer, dict(positions=dict(type="joint", fixed="flat"))),
}


def test_table_of_the_page() -> None:
    """docs/speed.md says of each model what the code says."""
    page = (Path(__file__).parents[3] / "docs" / "speed.md").read_text()
    lines = page.partition("<!-- run lengths -->\n")[2].partition("\n\n")[0].splitlines()[2:]
    written = dict(line.strip("| ").split(" | ") for line in lines)
    said = {name: str(rule_of(make(*row))) for name, row in ROWS.items()}
    said = {name: "exact" if rule.startswith("exact") else rule for name, rule in said.items()}
    assert written == said


def make(model_type: type, options: dict[str, Any]) -> nn.Module:
    torch.manual_seed(0)
    if model_type is not FeatureFixationTransformer:
        options = dict(stem=dict(tubelet=(1, 8, 8)), **options)
    return perturb(model_type(**SIZE, **options)).double().eval()


@pytest.mark.parametrize("name", [*ROWS, *OTHERS])
def test_which_models_are_exact(name: str) -> None:
    """What is exact is as the frozen clip, what is an approximation is near, the rest refuses."""
    model = make(*{**ROWS, **OTHERS}[name])
    rule = str(rule_of(model))
    if rule.startswith("impossible"):
        with pytest.raises(ValueError, match="cannot compute still tubelets once: "):
            model.static = 0.1
        return
    clips = still_video()
    expected = model(frozen(model, clips, 0.1))
    model.static = 0.1
    difference = (model(clips) - expected).abs().max()
    assert (difference < 1e-10) == (rule.startswith("exact"))


@pytest.mark.parametrize("tolerance", [-1.0, float("nan")])
def test_tolerances_are_checked(tolerance: float) -> None:
    with pytest.raises(ValueError, match="tolerance of still tubelets must be at least 0, got"):
        build(static=tolerance)


def test_setting_it_is_checked() -> None:
    model = make(FeatureFixationTransformer, {})
    with pytest.raises(ValueError, match="cannot compute still tubelets once: tubelets overlap"):
        model.static = 0.1
    assert model.static is None
