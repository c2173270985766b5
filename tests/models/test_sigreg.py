"""Pretraining on views: the statistic is that of the authors' code, and features are spread."""

from pathlib import Path

import numpy as np
import pytest
import torch

from mmvidformer.models import VideoTransformer
from mmvidformer.models.sigreg import SigRegPretraining, draw_directions, measure_gaussian
from tests.engine.toys import run_group

GOLDEN = Path(__file__).parents[1] / "golden" / "sigreg.npz"


def backbone(**options: object) -> VideoTransformer:
    arch = dict(embed_dims=16, depth=1, num_heads=2)
    return VideoTransformer(arch, 4, 16, stem=dict(tubelet=(1, 8, 8)), **options)


def test_the_statistic_is_that_of_the_authors() -> None:
    with np.load(GOLDEN) as file:
        arrays = {name: torch.from_numpy(file[name]) for name in file.files}
    for name in ("normal", "shifted", "collapsed"):
        found = measure_gaussian(arrays[f"samples/{name}"])
        torch.testing.assert_close(found, arrays[f"statistics/{name}"], atol=1e-5, rtol=1e-5)
    assert arrays["statistics/normal"].max() < arrays["statistics/shifted"].min()


@pytest.mark.parametrize(
    "options",
    [
        {},
        dict(cls="mean"),
        dict(pool="none"),
        dict(block=[dict(pattern="time"), dict(pattern="space")]),
        dict(cls="sink", block=[dict(pattern="causal_joint")], positions="none", rope="vjepa2"),
    ],
    ids=["mean", "cls", "tokens", "divided", "sink"],
)
def test_losses_train_every_parameter(options: dict) -> None:
    torch.manual_seed(0)
    model = SigRegPretraining(backbone(**options), views=3)
    losses = model(torch.randn(4, 2, 3, 4, 16, 16), mode="loss")
    assert losses["loss_views"] > 0 and losses["loss_normal"] > 0
    sum(losses.values()).backward()
    silent = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert silent == []
    assert model(torch.randn(4, 2, 3, 4, 16, 16)).shape == (8, 16)


def measure_part(samples: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return directions, statistics and gradients of the samples of a rank."""
    rank = torch.distributed.get_rank()
    torch.manual_seed(rank)
    directions = draw_directions(samples.shape[-1], samples.device)
    part = samples.chunk(2)[rank].requires_grad_()
    found = measure_gaussian(part @ directions)
    found.mean().backward()
    return directions, found.detach(), part.grad


def test_two_ranks_measure_the_whole_batch(tmp_path: Path) -> None:
    """Gradients of ranks are averaged after it, so that those of a rank's samples are doubled."""
    samples = torch.randn(12, 5, generator=torch.Generator().manual_seed(0)) + 1
    ranks = run_group(2, measure_part, tmp_path / "group", (samples,))
    directions = ranks[0][0]
    whole = samples.clone().requires_grad_()
    expected = measure_gaussian(whole @ directions)
    expected.mean().backward()
    for drawn, found, _ in ranks:
        assert torch.equal(drawn, directions)
        torch.testing.assert_close(found, expected.detach())
    torch.testing.assert_close(torch.cat([grad for *_, grad in ranks]) / 2, whole.grad)


def test_training_spreads_features() -> None:
    torch.manual_seed(0)
    model = SigRegPretraining(backbone(), views=2, weight=0.5, width=4)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    clips = torch.randn(16, 1, 3, 4, 16, 16)
    losses = []
    for _ in range(40):
        parts = model(clips, mode="loss")
        losses.append(parts["loss_normal"].item())
        optimizer.zero_grad()
        sum(parts.values()).backward()
        optimizer.step()
    assert losses[-1] < losses[0] / 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(mask_ratio=1.0), "mask_ratio must be between 0 and 1, and views at least 2, got 1.0"),
        (dict(views=1), "views at least 2, got 0.75 and 1"),
        (
            dict(backbone=backbone(block=[dict(pattern="width")])),
            "views: .*needs all places",
        ),
    ],
)
def test_what_cannot_be_is_said(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SigRegPretraining(**{"backbone": backbone(), **options})
