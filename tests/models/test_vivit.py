import pytest
import torch

from mmvidformer.models.vivit import SCHEMES, ViViT

TINY = {"embed_dims": 32, "depth": 2, "num_heads": 4}
SIZE = {"img_size": (16, 24), "clip_len": 4, "stem": {"tubelet": (2, 8, 8)}}


def tiny(scheme: str, **kwargs) -> ViViT:
    torch.manual_seed(0)
    return ViViT(TINY, scheme, **{**SIZE, **kwargs})


@pytest.mark.parametrize(
    ("kwargs", "millions"),
    [  # counted on the official code, with the 400-way classifier
        ({"scheme": "spacetime"}, 88.954),
        ({"scheme": "factorized_encoder"}, 115.062928),
        ({"scheme": "factorized_self_attention"}, 117.319312),
        ({"scheme": "factorized_dot_product"}, 88.952464),
        ({"scheme": "factorized_encoder", "temporal_depth": 0}, 86.69608),
        ({"arch": "l", "temporal_depth": 24}, 606.828),
        ({"arch": "l", "temporal_depth": 4}, 354.903),
    ],
)
def test_parameters(kwargs: dict, millions: float) -> None:
    with torch.device("meta"):
        model = ViViT(**kwargs)
    count = sum(p.numel() for p in model.parameters()) + (model.embed_dims + 1) * 400
    assert count / 1e6 == pytest.approx(millions, abs=6e-4)


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
def test_every_parameter_has_a_gradient_and_samples_are_independent(scheme: str) -> None:
    model = tiny(scheme)
    for parameter in model.parameters():  # so that no zero masks an error
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.1)
    clips = torch.randn(2, 3, 4, 16, 24)
    features = model(clips)
    torch.testing.assert_close(features[1:], model(clips[1:]), atol=1e-5, rtol=1e-4)
    features.square().sum().backward()
    still = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert still == []


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
@pytest.mark.parametrize("shape", [(1, 3, 6, 32, 16), (2, 3, 2, 8, 8), (1, 3, 5, 19, 25)])
def test_clips_of_other_sizes(scheme: str, shape: tuple[int, ...]) -> None:
    features = tiny(scheme)(torch.randn(shape))
    assert features.shape == (shape[0], 32)
    assert features.isfinite().all()


@pytest.mark.parametrize("scheme", ["factorized_self_attention", "factorized_self_attention_ts"])
def test_model_3_starts_frame_by_frame_and_learns(scheme: str) -> None:
    model = tiny(scheme, stem=dict(tubelet=(1, 8, 8)))
    torch.nn.init.zeros_(model.encoders[0].pos_embed.thw)
    clip = torch.randn(1, 3, 4, 16, 24)
    whole = model.forward_features(clip).places
    single = model.forward_features(clip[:, :, 1:2]).places
    torch.testing.assert_close(whole[:, 1:2], single)

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    attn = model.encoders[0].blocks[0].sublayers["time"].attn
    before = attn.qkv.weight.detach().clone()
    for _ in range(3):
        optimizer.zero_grad()
        model(clip).square().sum().backward()
        optimizer.step()
    assert not torch.equal(attn.qkv.weight, before)
    assert attn.proj.weight.abs().max() > 0


def test_baseline_averages_the_frames() -> None:
    model = tiny("factorized_encoder", temporal_depth=0)
    clip = torch.randn(1, 3, 4, 16, 24)
    halves = [model(clip[:, :, i : i + 2]) for i in (0, 2)]
    torch.testing.assert_close(model(clip), torch.stack(halves).mean(0))


@pytest.mark.parametrize("scheme", ["spacetime", "factorized_encoder"])
def test_mean_pooling_has_no_class_token(scheme: str) -> None:
    model = tiny(scheme, pool="mean")
    assert not [name for name, _ in model.named_parameters() if "cls" in name]
    tokens = model.forward_features(clip := torch.randn(1, 3, 4, 16, 24))
    assert tokens.prefix.shape == (1, 0, 32)
    torch.testing.assert_close(model(clip), tokens.places.mean((1, 2, 3)))


def test_frames_of_a_clip_share_stochastic_depth() -> None:
    model = tiny("factorized_encoder", temporal_depth=0, drop_path_rate=0.5).train()
    model.encoders[0].pos_embed.requires_grad_(False)
    still = torch.randn(1, 3, 2, 16, 24).repeat(16, 1, 2, 1, 1)  # the same tubelet twice
    grid = model.forward_features(still).places
    torch.testing.assert_close(grid[:, 0], grid[:, 1])
    assert len(grid[:, 0, ..., 0].detach().round(decimals=4).unique()) > 1


@pytest.mark.parametrize(
    ("kwargs", "error", "match"),
    [
        ({"arch": "xxl"}, KeyError, "xxl"),
        ({"arch": {**TINY, "mlp_ration": 2}}, ValueError, "arch must have.*mlp_ration"),
        ({"arch": {"embed_dims": 32, "depth": 2}}, ValueError, "arch must have.*num_heads"),
        ({"scheme": "axial"}, KeyError, "axial.*spacetime"),
        (
            {"scheme": "factorized_dot_product", "pool": "cls"},
            ValueError,
            "needs a class token; cls must not be None",
        ),
        ({"scheme": "spacetime", "pool": "max"}, KeyError, "'max'.*cls, mean, none"),
    ],
)
def test_wrong_arguments_are_named(kwargs: dict, error: type, match: str) -> None:
    with pytest.raises(error, match=match):
        ViViT(**kwargs)
