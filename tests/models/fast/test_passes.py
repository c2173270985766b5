"""Random compositions: the plain model against each pass, with its outputs and gradients."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from mmvidformer.models import VideoTransformer
from mmvidformer.models.fast import folded_fc
from mmvidformer.models.fast.folded_fc import fold_fc
from mmvidformer.models.fast.inference import optimize_for_inference
from mmvidformer.models.fast.kept_rows import compute_kept_rows
from mmvidformer.models.fast.prefix_only import compute_prefix_only
from mmvidformer.models.fast.recompute import copy_again, recompute
from mmvidformer.models.fast.regrouped_once import regroup_once
from mmvidformer.models.fast.training import optimize_for_training
from tests.models.test_video_transformer_compositions import draw
from tests.models.tiny import ARCH, perturb

PASSES: dict[str, Callable[[nn.Module], None]] = {
    "folded fc": fold_fc,
    "kept rows": compute_kept_rows,
    "prefix only": compute_prefix_only,
    "regrouped once": regroup_once,
    "copied again": copy_again,
    "activations again": lambda model: recompute(model, "activations"),
    "all, blocks again": lambda model: [optimize_for_training(model), recompute(model, True)],
    "all": optimize_for_training,
    "twice": lambda model: [optimize_for_training(model) for _ in range(2)],
}


def build(options: dict) -> tuple[VideoTransformer, Tensor] | None:
    """A model with stochastic depth, and clips; None if the parts do not fit.

    It has no dropout, and no kernel that draws numbers in training: fewer are drawn
    where less is computed.
    """
    rows = [row for encoder in options["encoders"] for row in encoder["block"]]
    if any(row["kernel"] in ("lara", "orthoformer", "performer") for row in rows):
        return None
    length = options["stem"]["tubelet"][0]
    for encoder in options["encoders"]:
        encoder |= dict(drop_path_rate=0.6, depth=2)
    torch.manual_seed(0)
    try:
        model = VideoTransformer(arch=ARCH, clip_len=4 * length, img_size=32, **options)
    except (ValueError, KeyError):
        return None
    return perturb(model).double(), torch.randn(3, 3, 4 * length, 32, 32, dtype=torch.float64)


def step(model: nn.Module, clip: Tensor) -> list[Tensor]:
    """Output and gradients, for the same draws each time."""
    torch.manual_seed(1)
    clip = clip.clone().requires_grad_()
    out = model(clip)
    out.square().sum().backward()
    return [out.detach(), clip.grad, *(parameter.grad for parameter in model.parameters())]


@pytest.mark.parametrize("count", [20, pytest.param(500, marks=pytest.mark.slow)])
def test_passes_change_neither_outputs_nor_gradients(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folded_fc, "LEAST_SAVED", -(10**9))
    built = [pair for options in draw(count) if (pair := build(options))]
    assert len(built) > count / 10
    for model, clip in built:
        model.train()
        expected, names = step(copy.deepcopy(model), clip), list(model.state_dict())
        with torch.no_grad():
            answer = copy.deepcopy(model).eval()(clip)
        for apply in PASSES.values():
            fast = copy.deepcopy(model)
            apply(fast)
            fast = copy.deepcopy(fast)
            assert list(fast.state_dict()) == names
            torch.testing.assert_close(step(fast, clip), expected, rtol=1e-7, atol=1e-8)
            with torch.no_grad():
                torch.testing.assert_close(fast.eval()(clip), answer)
        with torch.no_grad():
            torch.testing.assert_close(optimize_for_inference(fast)(clip), answer)
