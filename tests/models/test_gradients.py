"""Every parameter gets a gradient in training; a process group stops where one gets none.

Also where the last block computes the class token alone (``test_class_token_alone``).
"""

from typing import Any

import pytest
import torch

from mmvidformer.layers.fixation import FIXATIONS
from mmvidformer.layers.kernels import KERNELS
from mmvidformer.models import FeatureFixationTransformer, TimeSformer, VideoTransformer, ViViT
from mmvidformer.models.feature_fixation import SCHEMES as FEATURE_FIXATION
from mmvidformer.models.timesformer import SCHEMES as TIMESFORMER
from mmvidformer.models.vivit import SCHEMES as VIVIT
from tests.models.tiny import ARCH, perturb

SIZES = dict(arch=ARCH, clip_len=4, img_size=32)
CLASS_TOKEN = dict(cls="mean", pool="cls")
PARTS = dict(registers=2, qk_norm="layer", layer_scale=0.1, norm_pre=True, fc_norm="layer")
PRESETS: list[tuple[type[VideoTransformer], dict[str, Any]]] = [
    *((TimeSformer, dict(scheme=scheme)) for scheme in TIMESFORMER),
    *((TimeSformer, dict(scheme=scheme, **PARTS)) for scheme in TIMESFORMER),
    *((ViViT, dict(scheme=scheme)) for scheme in VIVIT),
    *((ViViT, dict(scheme=scheme, **CLASS_TOKEN, **PARTS)) for scheme in VIVIT),
    *((FeatureFixationTransformer, dict(scheme=scheme)) for scheme in FEATURE_FIXATION),
    *(
        (FeatureFixationTransformer, dict(scheme=scheme, fixation=name, mlp="mlp", **CLASS_TOKEN))
        for scheme in FEATURE_FIXATION
        for name in FIXATIONS
    ),
    *(
        (FeatureFixationTransformer, dict(kernel=name, mlp="mlp", **CLASS_TOKEN))
        for name in KERNELS
        if name != "recurrence"  # which runs over time alone
    ),
]


def name_preset(value: type | dict) -> str:
    """Part of a test's name."""
    return value.__name__ if isinstance(value, type) else "-".join(map(str, value.values()))


@pytest.mark.parametrize("build, options", PRESETS, ids=name_preset)
def test_every_parameter_gets_a_gradient(
    build: type[VideoTransformer], options: dict[str, Any]
) -> None:
    torch.manual_seed(0)
    model = perturb(build(**SIZES, **options)).train()
    model(torch.randn(2, 3, 4, 32, 32)).square().sum().backward()
    without = [name for name, weight in model.named_parameters() if weight.grad is None]
    assert without == []


@pytest.mark.parametrize("build, options", PRESETS[::3], ids=name_preset)
def test_parameters_of_dropped_updates_get_gradients_of_zero(
    build: type[VideoTransformer], options: dict[str, Any]
) -> None:
    torch.manual_seed(0)
    model = perturb(build(**SIZES, **options, drop_path_rate=0.99)).train()
    model(torch.randn(1, 3, 4, 32, 32)).square().sum().backward()
    gradients = {name: weight.grad for name, weight in model.named_parameters()}
    assert [name for name, gradient in gradients.items() if gradient is None] == []
    assert any(not gradient.any() for gradient in gradients.values())
