"""Compositions: those of the papers, those that are refused, and their parts."""

import pytest
import torch

from mmvidformer.models import FeatureFixationTransformer, TimeSformer, VideoTransformer, ViViT
from tests.models.tiny import ARCH, SIZE, STEM, perturb

OVERLAPPING = dict(tubelet=(1, 8, 8), stride=(1, 7, 7), padding=(0, 4, 4), norm=True)
TIME = dict(pattern="time", cls="skip", fc=True)
PRESETS = {
    "vivit model 2": (
        ViViT(**SIZE, stem=dict(tubelet=(2, 8, 8)), temporal_depth=1),
        dict(
            stem=dict(tubelet=(2, 8, 8)),
            encoders=[dict(frames="pool"), dict(depth=1)],
            cls="mean",
            mlp=dict(type="mlp", act="gelu_tanh"),
        ),
    ),
    "timesformer": (
        TimeSformer(**SIZE, stem=STEM),
        dict(
            stem=STEM,
            block=[TIME, dict(pattern="space")],
            positions="space_time",
            cls="mean",
        ),
    ),
    "feature fixation": (
        FeatureFixationTransformer(**SIZE, stem=OVERLAPPING),
        dict(
            stem=OVERLAPPING,
            block=[
                dict(pattern=pattern, kernel="linear", fixation="qkv_shared", shifts=[shift])
                for pattern, shift in (
                    ("time", dict(type="spatial", distance=1)),
                    ("space", dict(type="temporal", divisor=4)),
                )
            ],
            positions="time",
            mlp=dict(type="mlp", depthwise=True),
            pool="none",
        ),
    ),
}


@pytest.mark.parametrize("name", PRESETS)
def test_presets_can_be_written_out(name: str) -> None:
    preset, options = PRESETS[name]
    model = VideoTransformer(**SIZE, **options).eval()
    model.load_state_dict(perturb(preset).eval().state_dict())
    clip = torch.randn(2, 3, 4, 16, 16)
    torch.testing.assert_close(model(clip), preset(clip), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            dict(block=[dict(pattern="tiem")]),
            "no pattern named 'tiem'; did you mean time. choose from .*time",
        ),
        (dict(block=[dict(patern="time")]), "no option of a sub-layer named 'patern'; .*pattern"),
        (dict(encoders=[dict(deph=3)]), "no option of an encoder named 'deph'; .*depth"),
        (dict(encoders=[]), "encoders must have at least one entry"),
        (dict(block=[]), "a block needs at least one sub-layer"),
        (
            dict(positions="times"),
            "no positions named 'times'; did you mean time. choose from joint",
        ),
        (dict(frames="single"), "no value of frames named 'single'; choose from average"),
        (dict(init="zeros"), "no init named 'zeros'; choose from flax, timm"),
        (dict(drop_path_rule="row"), "no drop_path named 'row'"),
        (dict(img_size=4), r"4 x 4 is smaller than a tubelet \(1, 8, 8\)"),
        (dict(cls="mean", mlp=dict(type="mlp", depthwise=True)), "depthwise .* cls must be None"),
        (dict(cls="skip"), "cls of one sub-layer at least must be .* got 'skip'"),
        (dict(cls="mean", block=[dict(), TIME]), "cls of the last sub-layer .* got 'skip'"),
        (dict(cls="mean", parallel=True, block=[TIME, dict()]), "cls .* got 'skip'"),
        (dict(frames="pool", block=[dict(pattern="time")]), "'time' joins no tokens: each token"),
        (
            dict(encoders=[dict(frames="pool"), dict(block=[dict(pattern="space")])]),
            "'space' joins no tokens: each token .* differ in t only",
        ),
        (dict(attn_drop_rate=0.1, block=[dict(kernel="linear")]), "attention dropout must be 0"),
        (dict(block=[dict(pattern=["time", "space", "joint"])]), "multiple of the number of pat"),
    ],
)
def test_what_is_wrong_is_named(options: dict, message: str) -> None:
    with pytest.raises((ValueError, KeyError), match=message) as error:
        VideoTransformer(**{**SIZE, "stem": STEM, **options})
    assert "\n" not in str(error.value)


def test_widths_may_change_between_encoders() -> None:
    wide = dict(embed_dims=24, num_heads=3, depth=1)
    model = VideoTransformer(**SIZE, stem=STEM, encoders=[dict(frames="pool"), wide])
    assert model.embed_dims == 24
    assert model.encoders[1].proj.weight.shape == (24, 16)
    assert model(torch.randn(2, 3, 4, 16, 16)).shape == (2, 24)


def test_blocks_take_turns() -> None:
    model = VideoTransformer(
        **{**SIZE, "arch": {**ARCH, "depth": 3}}, block=[[dict(pattern="time")], [dict()]]
    )
    assert [list(block.sublayers) for block in model.encoders[0].blocks] == [
        ["time"],
        ["joint"],
        ["time"],
    ]


def test_fixed_positions_are_sines_of_the_places() -> None:
    model = VideoTransformer(**SIZE, positions=dict(type="time", fixed=True), stem=STEM)
    positions = model.encoders[0].pos_embed
    assert not list(positions.parameters())
    (table,), _ = positions((5, 2, 2), torch.zeros(0, 16, dtype=torch.float64))
    grid = table.expand(1, 5, 2, 2, 16)
    assert grid[0, 3, 1, 0, 0].item() == pytest.approx(torch.tensor(3.0).sin().item(), abs=1e-6)
    assert grid[0, 3, 0, 1, 8].item() == pytest.approx(torch.tensor(3.0).cos().item(), abs=1e-6)
    assert grid[0, 4, 1, 1, 1].item() == pytest.approx(
        torch.tensor(4 * 10000 ** (-1 / 8)).sin().item(), abs=1e-6
    )
    joint = VideoTransformer(**SIZE, positions=dict(type="joint", fixed=True))
    (table,), _ = joint.encoders[0].pos_embed((3, 4, 5), torch.zeros(0, 16))
    places = table.flatten(0, 3)
    assert len(places.unique(dim=0)) == 60  # each place has another vector


def test_frozen_stages() -> None:
    """Two encoders: 2 + 1 blocks. What lies between them belongs to the last block of the first."""
    parts = {
        0: ("embed.", "encoders.0.pos_embed.", "encoders.0.cls_token"),
        1: ("encoders.0.blocks.0.",),
        2: ("encoders.0.blocks.1.", "encoders.0.norm.", "encoders.1.pos_embed.",
            "encoders.1.cls_token"),
        3: ("encoders.1.",),
    }  # fmt: skip
    small = dict(arch=dict(embed_dims=8, depth=2, num_heads=2), img_size=32, clip_len=4)
    for stages in range(-1, 4):
        model = ViViT(**small, temporal_depth=1, drop_path_rate=0.5, frozen_stages=stages).train()
        frozen = {name for name, p in model.named_parameters() if not p.requires_grad}
        prefixes = tuple(p for stage in range(stages + 1) for p in parts[stage])
        assert frozen == {name for name, _ in model.named_parameters() if name.startswith(prefixes)}
        blocks = [block for encoder in model.encoders for block in encoder.blocks]
        modes = [any(part.training for part in block.modules()) for block in blocks]
        assert modes == [i > stages for i in range(1, 4)]
        assert model.embed.training is (stages < 0) and model.training
        assert not any(part.training for part in model.eval().modules())
    for wrong in (-2, 4):
        with pytest.raises(ValueError, match=f"frozen_stages must be -1 to 3, got {wrong}"):
            ViViT(**small, temporal_depth=1, frozen_stages=wrong)


def test_training_with_all_blocks_frozen_changes_the_head_only() -> None:
    arch = dict(embed_dims=8, depth=1, num_heads=2)
    model = TimeSformer(arch, img_size=32, frozen_stages=1, drop_path_rate=0.5).train()
    assert not any(p.requires_grad for p in model.parameters())
    clip = torch.randn(2, 3, 8, 32, 32)
    assert torch.equal(model(clip), model(clip))  # no stochastic depth


def test_positions_in_time_are_resized_unless_the_model_runs_frame_by_frame() -> None:
    """No token of either model sees another frame."""
    options = dict(SIZE, clip_len=4, stem=STEM, block=[dict(pattern="space")], positions="time")
    clip = torch.randn(1, 3, 2, 16, 16)
    for pool, places in (("mean", [0, 3]), ("none", [0, 1])):
        model = perturb(VideoTransformer(**options, pool=pool).eval())
        found = model(clip)
        shorter = VideoTransformer(**{**options, "clip_len": 2}, pool=pool).eval()
        weights = model.state_dict()
        weights["encoders.0.pos_embed.t"] = weights["encoders.0.pos_embed.t"][:, places]
        shorter.load_state_dict(weights)
        torch.testing.assert_close(shorter(clip), found)


@pytest.mark.parametrize("cls", [None, "mean"])
@pytest.mark.parametrize(
    "positions",
    ["none", "space", "time", "space_time", "joint", dict(fixed=True), dict(fixed="flat")],
    ids=str,
)
def test_precision_between_the_blocks_is_that_of_the_weights(
    positions: str | dict, cls: str | None
) -> None:
    """Under autocast, whatever the positions; and of a model in half precision."""
    model = VideoTransformer(positions=positions, cls=cls, **{**SIZE, "stem": STEM})
    clip, outputs = torch.randn(1, 3, 4, 16, 16), []
    with torch.autocast("cpu", torch.bfloat16):
        model.forward_features(clip, outputs)
    assert {tokens.tensor.dtype for tokens in outputs} == {torch.float32}
    outputs.clear()
    model.bfloat16().forward_features(clip.bfloat16(), outputs)
    assert {tokens.tensor.dtype for tokens in outputs} == {torch.bfloat16}
