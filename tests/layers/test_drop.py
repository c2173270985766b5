import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from mmvidformer.layers import DropPath, Encoder, EncoderConfig, SubLayer
from mmvidformer.layers.drop import Draw
from mmvidformer.layers.tokens import Places, Tokens


@pytest.mark.parametrize(
    ("rule", "columns", "kept"), [("clip", 1, 1 / 0.6), ("group", 8, 1 / 0.6), ("unscaled", 1, 1.0)]
)
def test_fraction_and_value_of_kept_updates(rule: str, columns: int, kept: float) -> None:
    torch.manual_seed(0)
    factors = DropPath(0.4, rule)(torch.zeros(4000 // columns, 3), groups=8)
    assert factors.shape == (4000 // columns, columns)
    assert factors.unique().tolist() == pytest.approx([0.0, kept])
    assert (factors > 0).float().mean().item() == pytest.approx(0.6, abs=0.03)


@pytest.mark.parametrize("frames", [2, 4])
def test_frames_of_a_clip_share_a_draw(frames: int) -> None:
    torch.manual_seed(0)
    rows = torch.tensor([frames, 3] * 32)
    factors = DropPath(0.5)(torch.zeros(32 * (frames + 3), 1), clip_rows=rows)
    clips = factors.split(rows.tolist())
    assert all((clip == clip[0]).all() for clip in clips)
    assert 0 < sum(bool(clip[0] > 0) for clip in clips) < 64


def test_a_group_a_row_by_default() -> None:
    assert DropPath(0.5, "group")(torch.zeros(3, 2)).shape == (3, 1)


def test_nothing_is_dropped_in_evaluation_or_with_rate_zero() -> None:
    assert DropPath(0.5).eval()(torch.zeros(2, 1)) is None
    assert DropPath(0.0)(torch.zeros(2, 1)) is None


def test_printed() -> None:
    assert repr(DropPath(0.25, "group")) == "DropPath(rate=0.250, rule=group)"


@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_wrong_rate_is_named(rate: float) -> None:
    with pytest.raises(ValueError, match=str(rate)):
        DropPath(rate)


COMPOSITIONS: dict[str, dict] = {
    "class token": dict(cls="mean", layer_scale=0.5),
    "unscaled": dict(drop_path_rule="unscaled"),
    "parallel": dict(parallel=True, block=("time", "space")),
    "a factor by group": dict(drop_path_rule="group", block=("time", "space")),
    "a layer whose bias dropped updates get": dict(block=(dict(pattern="time", fc=True),)),
    "rotary positions": dict(rope={"type": "axial"}, positions="none"),
    "recomputed": dict(with_cp=True),
    "frames of a clip": dict(frames="pool", cls="mean"),
}


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_updates_that_are_dropped_are_not_computed(
    composition: str, masked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same draws, same outputs and gradients, with fewer multiplications."""
    torch.manual_seed(0)
    options = dict(arch=dict(embed_dims=12, depth=3, num_heads=2), drop_path_rate=0.5)
    options |= COMPOSITIONS[composition]
    rows = [
        SubLayer(**row) if isinstance(row, dict) else SubLayer(row)
        for row in options.pop("block", ("joint",))
    ]
    encoder = Encoder(EncoderConfig(block=rows, **options), (2, 3, 3)).double().train()
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    places = None
    grid = torch.randn(8, 2, 3, 3, 12, dtype=torch.double)
    if masked:
        numbers = torch.stack([torch.randperm(9)[:4] for _ in range(8)])
        places = Places(numbers, (3, 3))
        grid = grid.flatten(2, 3)[:, :, None, :4]
    grid = grid.clone().requires_grad_()
    leaves = [grid, *encoder.parameters()]

    def run() -> tuple[list[Tensor], int]:
        torch.manual_seed(1)
        with FlopCounterMode(display=False) as flops:
            tokens = encoder(Tokens.of(grid, keep=places)).tensor
            tokens.square().sum().backward()
        gradients = [leaf.grad for leaf in leaves]
        for leaf in leaves:
            leaf.grad = None
        return [tokens, *gradients], flops.get_total_flops()

    values_of_kept, fewer = run()
    for module in ("sublayer", "encoder"):
        monkeypatch.setattr(f"mmvidformer.layers.{module}.compute_kept", Draw)
    values, more = run()
    torch.testing.assert_close(values_of_kept, values)
    assert fewer < more


@pytest.mark.parametrize("rate", [0.5, 1 - 1e-9])
def test_mixed_precision_and_a_batch_that_is_dropped(rate: float) -> None:
    """All weights have gradients, also if nothing is kept, and tokens keep their precision."""
    torch.manual_seed(0)
    config = EncoderConfig(dict(embed_dims=8, depth=2, num_heads=2), drop_path_rate=rate)
    encoder = Encoder(config, (1, 2, 2)).train()
    with torch.autocast("cpu", torch.bfloat16):
        grid = encoder(Tokens.of(torch.randn(8, 1, 2, 2, 8))).places
    grid.square().sum().backward()
    assert grid.dtype == torch.float32
    assert all(parameter.grad is not None for parameter in encoder.parameters())
