"""Initial tubelet weights that respond to motion."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from einops import rearrange

from mmvidformer.datasets.camera.clips import draw_clip
from mmvidformer.layers import INITS, Mlp, TubeletEmbedding
from mmvidformer.layers.gabor import gabor_filters


def test_filters() -> None:
    torch.manual_seed(0)
    filters = gabor_filters(31, (4, 8, 8))
    assert filters.shape == (31, 4, 8, 8)
    torch.testing.assert_close(filters.mean(dim=(1, 2, 3)), torch.zeros(31), atol=1e-6, rtol=0)
    torch.testing.assert_close(filters.flatten(1).norm(dim=1), torch.ones(31))


@pytest.mark.parametrize(("x", "y"), [(1, 0), (-1, 0), (0, 1), (0, -1)])
def test_energies_tell_directions(x: int, y: int) -> None:
    """A drifting grating gives most energy to the filters of its own direction."""
    torch.manual_seed(0)
    filters = gabor_filters(512, (8, 8, 8))
    t, rows, columns = torch.meshgrid(*[torch.arange(8.0)] * 3, indexing="ij")
    for phase in (0.0, 1.0, 2.0):
        same, opposite = (
            torch.cos(0.8 * (x * columns + y * rows - way * t) + phase) for way in (1, -1)
        )
        energies = [
            (filters.flatten(1) @ clip.flatten()).view(-1, 2).square().sum(dim=1)
            for clip in (same, opposite)
        ]
        best = energies[0].topk(10).indices
        assert (energies[0][best] > 5 * energies[1][best]).all()


def test_initialization() -> None:
    torch.manual_seed(0)
    embed, mlp = TubeletEmbedding(8, (2, 8, 8)), Mlp(64, 256)
    for module in (embed, mlp):
        module.apply(INITS["gabor"])
    torch.testing.assert_close(embed.proj.bias, torch.zeros(8))
    gray = torch.rand(1, 1, 2, 8, 8).expand(1, 3, 2, 8, 8)
    torch.testing.assert_close(embed(gray), embed(gray + 1), atol=1e-5, rtol=0)  # brightness
    assert mlp.fc1.weight.abs().max().item() == pytest.approx((6 / 320) ** 0.5, rel=0.01)


def explained(init: str, clips: torch.Tensor, velocities: torch.Tensor) -> float:
    """R^2 of a ridge regression of velocities on initial features, for the last 100 clips."""
    torch.manual_seed(0)
    embed, mlp = TubeletEmbedding(64, (8, 8, 8), norm=True), Mlp(64, 128)
    for module in (embed, mlp):
        module.apply(INITS[init])
    with torch.no_grad():
        tokens = F.gelu(mlp.fc1(embed(clips)))[:, 0]
    # Means of the quarters of the image, since a zoom moves them in different directions.
    x = rearrange(tokens, "n (a h) (b w) d -> n a b d h w", a=2, b=2).mean(dim=(4, 5)).flatten(1)
    x = F.pad((x - x.mean(dim=0)) / x.std(dim=0), (0, 1), value=1.0)
    fitted, held_out = x[:-100], x[-100:]
    gram = fitted.T @ fitted + 30 * torch.eye(x.shape[1])
    weights = torch.linalg.solve(gram, fitted.T @ velocities[:-100])
    error = (held_out @ weights - velocities[-100:]).square().mean(dim=0)
    return float((1 - error / velocities[-100:].square().mean(dim=0)).mean())


def test_features_of_an_untrained_model_show_motion() -> None:
    drawn = [
        draw_clip(n % 9, np.random.default_rng(n), size=32, pictures=range(9), hardness=0.0)
        for n in range(450)
    ]
    frames, velocities = (
        torch.from_numpy(np.stack(each)).float() for each in zip(*drawn, strict=True)
    )
    clips = rearrange(frames, "n t h w c -> n c t h w") / 127.5 - 1
    gabor, flax = (explained(init, clips, velocities) for init in ("gabor", "flax"))
    assert gabor > 0.5 > 0.2 > flax
