import pytest
import torch

from mmvidformer.layers import Context, Encoder, EncoderConfig, SubLayer, TransformerBlock
from mmvidformer.layers.tokens import Tokens
from tests.layers.pairs import joined, run, split

GRID = (2, 3, 3)


ARCH = dict(embed_dims=8, depth=1, num_heads=2)
TWO = (SubLayer("time"), SubLayer("space"))


def make_encoder(depth: int = 2, **kwargs) -> Encoder:
    torch.manual_seed(0)
    sublayers = (SubLayer("time", cls="skip", fc=True), SubLayer("space"))
    arch = dict(embed_dims=8, depth=depth, num_heads=2)
    config = EncoderConfig(arch, block=sublayers, positions="space_time", cls="mean", **kwargs)
    return Encoder(config, GRID)


def test_sublayers_from_dictionaries_of_a_config() -> None:
    torch.manual_seed(0)
    rows = [{"pattern": "time"}, {"pattern": ["space"]}]
    block = TransformerBlock(dict(arch=ARCH, block=rows))
    assert list(block.sublayers) == ["time", "space"]
    torch.manual_seed(0)
    same = TransformerBlock(EncoderConfig(ARCH, block=TWO))
    grid = torch.randn(1, *GRID, 8)
    torch.testing.assert_close(run(block, grid)[0], run(same, grid)[0])


def test_unknown_key_of_a_sublayer_is_named() -> None:
    with pytest.raises(KeyError, match="no option of a sub-layer named 'views'; .*pattern"):
        TransformerBlock(dict(arch=ARCH, block=[{"pattern": "time", "views": 2}]))


def test_a_block_is_its_sublayers_and_then_the_mlp() -> None:
    block = TransformerBlock(EncoderConfig(ARCH, mlp_ratio=2), TWO)
    assert block.mlp.fc1.out_features == 16
    x = torch.randn(2, *GRID, 8)
    y = x + run(block.sublayers["time"].attn, block.sublayers["time"].norm(x))[0]
    y = y + run(block.sublayers["space"].attn, block.sublayers["space"].norm(y))[0]
    y = y + block.mlp(block.norm(y))
    torch.testing.assert_close(run(block, x)[0], y)


def test_parallel_sublayers_read_the_input_of_the_block() -> None:
    block = TransformerBlock(EncoderConfig(ARCH, block=TWO, parallel=True))
    x = torch.randn(2, *GRID, 8)
    y = x + sum(run(sublayer.attn, sublayer.norm(x))[0] for sublayer in block.sublayers.values())
    torch.testing.assert_close(run(block, x)[0], y + block.mlp(block.norm(y)))


def test_names_of_sublayers() -> None:
    rows = (SubLayer("time"), SubLayer(("time", "space")), SubLayer("time"))
    names = list(TransformerBlock(dict(arch=ARCH), rows).sublayers)
    assert names == ["time", "time_space", "time_3"]
    with pytest.raises(ValueError, match="at least one sub-layer"):
        TransformerBlock(dict(arch=ARCH), ())


def test_dropped_updates_leave_the_residual() -> None:
    block = TransformerBlock(dict(arch=ARCH), drop_path_rate=0.999999)
    grid, cls = torch.randn(2, *GRID, 8), torch.randn(2, 1, 8)
    out, cls_out = run(block, grid, cls)
    torch.testing.assert_close(out, grid)
    torch.testing.assert_close(cls_out, cls)


def test_checkpointing_changes_no_output_and_no_gradient() -> None:
    plain, saved = make_encoder(), make_encoder(with_cp=True)
    saved.load_state_dict(plain.state_dict())
    tokens = Tokens.of(torch.randn(2, *GRID, 8))
    for model in (plain, saved):
        model(tokens).tensor.square().sum().backward()
    for (name, a), b in zip(plain.named_parameters(), saved.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, msg=name)


def test_stochastic_depth_grows_over_the_blocks() -> None:
    encoder = make_encoder(4, drop_path_rate=0.3)
    rates = [block.sublayers["time"].drop_path.rate for block in encoder.blocks]
    assert rates == pytest.approx([0.0, 0.1, 0.2, 0.3])
    assert [block.drop_path.rate for block in encoder.blocks] == rates
    assert make_encoder(1, drop_path_rate=0.3).blocks[0].drop_path.rate == 0.0


@pytest.mark.parametrize("rule", ["clip", "group", "unscaled"])
@pytest.mark.parametrize("pattern", ["local", "strided", "space", "joint"])
def test_a_class_token_that_attends_alone_is_dropped_for_a_whole_clip(
    pattern: str, rule: str
) -> None:
    """As a stochastic depth of 0.6: its update is all there, and rescaled, or not there."""
    torch.manual_seed(0)
    arch = dict(embed_dims=8, depth=1, num_heads=2)
    config = dict(arch=arch, block=[dict(pattern=pattern)], cls="global", drop_path_rule=rule)
    part = TransformerBlock(config, drop_path_rate=0.6).sublayers[pattern]
    clips = 2000
    grid = torch.randn(1, 2, 3, 3, 8).expand(clips, -1, -1, -1, -1)
    cls = torch.randn(1, 1, 8).expand(clips, -1, -1)
    with torch.no_grad():
        tokens, order = joined(grid, cls)
        context = Context(order)
        update = split(part.eval().attn(part.norm(tokens[:1]), context), order)[1]
        part.train()
        draw = part.draw(tokens, context)
        drawn_update = part.attn(part.norm(tokens), context, draw)
        grid_drawn, drawn = split(drawn_update, order)
    factors = (drawn / update).flatten(1)
    torch.testing.assert_close(factors, factors[:, :1].expand_as(factors), rtol=1e-3, atol=1e-4)
    if rule != "group":  # one draw for a clip
        assert (grid_drawn.flatten(1).any(dim=1) == (factors[:, 0] > 0)).all()
    kept = 1.0 if rule == "unscaled" else 1 / 0.4
    assert factors[:, 0].round(decimals=3).unique().tolist() == pytest.approx([0.0, kept])
    assert (factors[:, 0] > 0).float().mean().item() == pytest.approx(0.4, abs=0.04)


def test_a_sub_layer_has_the_class_token_of_its_encoder() -> None:
    config = EncoderConfig(ARCH, cls="global")
    block = TransformerBlock(config, [SubLayer("space"), SubLayer("time", cls="mean")])
    assert [sublayer.attn.cls for sublayer in block.sublayers.values()] == ["global", "mean"]
