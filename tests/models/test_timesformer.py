import pytest
import torch

from mmvidformer.models.timesformer import SCHEMES, TimeSformer
from tests.layers.pairs import run

TINY = {"embed_dims": 32, "depth": 2, "num_heads": 4}
SIZE = {"img_size": (16, 24), "clip_len": 3, "stem": {"tubelet": (1, 4, 4)}}


def tiny(attention: str = "divided_space_time", **kwargs) -> TimeSformer:
    torch.manual_seed(0)
    return TimeSformer(TINY, attention, **{**SIZE, "drop_path_rate": 0.0, **kwargs})


def shake(model: TimeSformer) -> TimeSformer:
    """Draw all weights, so that no zero masks an error."""
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model


@pytest.mark.parametrize(
    ("attention", "millions"),
    [  # Table 1, with the 174 classes of Something-Something V2
        ("space_only", 85.9),
        ("joint_space_time", 85.9),
        ("divided_space_time", 121.4),
        ("sparse_local_global", 121.4),
        ("axial", 156.8),
    ],
)
def test_parameters_of_table_1(attention: str, millions: float) -> None:
    with torch.device("meta"):
        model = TimeSformer("b", attention)
    count = sum(p.numel() for p in model.parameters()) + (768 + 1) * 174
    # The table is truncated to one decimal, not rounded (axial is 156.8465, divided 121.3926).
    assert count / 1e6 == pytest.approx(millions, abs=0.05)


@pytest.mark.parametrize(
    ("kwargs", "count"),
    [  # counted on the official code, with 400 classes
        ({"scheme": "space_only"}, 86106256),
        ({"scheme": "joint_space_time"}, 86112400),
        ({"scheme": "divided_space_time"}, 121566352),
        ({"scheme": "divided_space_time", "img_size": 448, "clip_len": 16}, 122024080),
        ({"scheme": "divided_space_time", "clip_len": 96}, 121633936),
    ],
)
def test_parameters_of_the_official_code(kwargs: dict, count: int) -> None:
    with torch.device("meta"):
        model = TimeSformer("b", **kwargs)
    assert sum(p.numel() for p in model.parameters()) + (768 + 1) * 400 == count


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
@pytest.mark.parametrize("order", [{}, {"reverse": True}, {"parallel": True}], ids=str)
def test_every_parameter_has_a_gradient_and_samples_are_independent(
    scheme: str, order: dict
) -> None:
    if order and len(SCHEMES[scheme]["block"]) == 1:
        pytest.skip("a block has one sub-layer")
    model = shake(tiny(scheme, **order))
    clips = torch.randn(2, 3, 3, 16, 24)
    features = model(clips)
    torch.testing.assert_close(features[1:], model(clips[1:]), atol=1e-4, rtol=1e-4)
    features.square().sum().backward()
    still = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert still == []


@pytest.mark.parametrize("attention", sorted(SCHEMES))
@pytest.mark.parametrize("shape", [(1, 3, 5, 32, 16), (2, 3, 1, 4, 8), (1, 3, 3, 18, 27)])
def test_clips_of_other_sizes(attention: str, shape: tuple[int, ...]) -> None:
    features = shake(tiny(attention))(torch.randn(shape))
    assert features.shape == (shape[0], 32)
    assert features.isfinite().all()


@pytest.mark.parametrize("positions", ["none", "space", "space_time", "time", "joint"])
def test_order_of_frames_matters_only_with_a_time_embedding(positions: str) -> None:
    model = shake(tiny(positions=positions))
    clip = torch.randn(1, 3, 3, 16, 24)
    same = torch.allclose(model(clip), model(clip.flip(2)), atol=1e-4)
    assert same == (positions in ("none", "space"))


def test_divided_attention_starts_frame_by_frame() -> None:
    """With zero fcs the network processes each frame on its own."""
    model = tiny()
    for name, parameter in model.named_parameters():
        if ".fc." not in name and "pos_embed.t" not in name:
            torch.nn.init.normal_(parameter, std=0.2)
    clip = torch.randn(1, 3, 1, 16, 24)
    torch.testing.assert_close(model(clip.repeat(1, 1, 3, 1, 1)), model(clip), atol=1e-4, rtol=1e-4)
    grid, _ = run(model.encoders[0].blocks[0], model.embed(torch.randn(1, 3, 3, 16, 24)))
    assert grid.shape == (1, 3, 4, 6, 32)


def test_zero_initialized_fcs_of_each_scheme() -> None:
    counts = {}
    for name in SCHEMES:
        sublayers = tiny(name).encoders[0].blocks[1].sublayers.values()
        fcs = [sublayer.fc for sublayer in sublayers if isinstance(sublayer.fc, torch.nn.Linear)]
        assert not any(fc.weight.any() or fc.bias.any() for fc in fcs)
        counts[name] = len(fcs)
    assert counts == {
        "space_only": 0,
        "joint_space_time": 0,
        "divided_space_time": 1,
        "sparse_local_global": 1,
        "axial": 2,
    }


def test_class_token_in_time_changes_the_features() -> None:
    clip = torch.randn(1, 3, 3, 16, 24)
    without, with_cls = shake(tiny()), shake(tiny(cls_in_time=True))
    with_cls.load_state_dict(without.state_dict())
    assert not torch.allclose(without(clip), with_cls(clip), atol=1e-3)


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"arch": "xxl"}, "'xxl'.*b, h, l, s"),
        ({"scheme": "divided"}, "'divided'.*divided_space_time"),
        ({"positions": "times"}, "'times'.*space_time"),
    ],
)
def test_wrong_arguments_are_named(kwargs: dict, match: str) -> None:
    with pytest.raises(KeyError, match=match):
        TimeSformer(**kwargs)
