"""Masked pretraining: what it encodes and predicts, with any composition."""

import pytest
import torch
import transformers
from transformers import VideoMAEConfig, VideoMAEForPreTraining

from mmvidformer.layers.tokens import Places
from mmvidformer.models import FeatureFixationTransformer, TimeSformer, VideoTransformer, ViViT
from mmvidformer.models.fast.inference import optimize_for_inference
from mmvidformer.models.masked import MaskedPretraining
from mmvidformer.models.timesformer import SCHEMES as TIMESFORMER
from mmvidformer.models.vivit import SCHEMES as VIVIT
from tests.models.tiny import perturb

SIZES = dict(arch=dict(embed_dims=32, depth=2, num_heads=4), img_size=(64, 48), clip_len=8)


def compose(**options: object) -> VideoTransformer:
    return VideoTransformer(**SIZES, stem=dict(tubelet=(2, 16, 16)), **options)


def sub(pattern: object, **options: object) -> dict:
    return dict(block=[dict(pattern=pattern, **options)])


# Models that drop masked tokens, and those that need the tokens of all places.
DROPPING = {
    **{name: lambda name=name: ViViT(**SIZES, scheme=name) for name in VIVIT},
    **{
        name: lambda name=name: TimeSformer(**SIZES, scheme=name)
        for name in ("divided_space_time", "joint_space_time", "space_only")
    },
    "places": lambda: compose(
        block=[{"pattern": "space"}, {"pattern": dict(type="window", size=(2, 1, 1))}]
    ),
    "causal": lambda: compose(**sub("causal_joint")),
    "rotary": lambda: compose(rope="vjepa2", positions="none", cls="mean", registers=2),
    "flat": lambda: compose(positions=dict(type="joint", fixed="flat"), fc_norm="layer"),
    "two encoders": lambda: compose(encoders=[{}, {}]),
    "frames, then averaged": lambda: compose(encoders=[dict(frames="average"), {}]),
    "linear": lambda: compose(**sub("joint", kernel="linear", fixation="qkv_shared")),
}
WHOLE = {
    "axial": (lambda: TimeSformer(**SIZES, scheme="axial"), "pattern 'width'"),
    "sparse": (lambda: TimeSformer(**SIZES, scheme="sparse_local_global"), "pattern 'local'"),
    "window": (lambda: compose(**sub(dict(type="window", size=(2, 2, 2)))), "pattern {'type'"),
    "linformer": (
        lambda: compose(**sub("joint", kernel=dict(type="linformer", rank=4))),
        "kernel 'linformer'",
    ),
    "shifts": (
        lambda: FeatureFixationTransformer(**SIZES, stem=dict(tubelet=(1, 16, 16))),
        "shift",
    ),
    "depthwise": (lambda: compose(mlp=dict(type="mlp", depthwise=True)), "depthwise"),
}
BUILD = DROPPING | {name: build for name, (build, _) in WHOLE.items()}


def test_all_schemes_are_covered() -> None:
    assert {*VIVIT} | {*TIMESFORMER} - {"axial", "sparse_local_global"} <= {*DROPPING}


@pytest.mark.parametrize("name", DROPPING)
def test_masked_pixels_do_not_reach_the_encoder(name: str) -> None:
    """Tokens of visible places depend on the visible pixels alone."""
    torch.manual_seed(0)
    model = MaskedPretraining(DROPPING[name](), mask_ratio=0.6).eval()
    assert model.whole == []
    clips = torch.randn(2, 3, 8, 64, 48)
    visible, masked = model.draw_places(clips)
    assert visible.numbers.shape == (2, 5) and masked.numbers.shape == (2, 7)
    both = torch.cat([visible.numbers, masked.numbers], 1)
    assert both.sort().values.tolist() == [[*range(12)]] * 2
    other = clips.clone()
    for clip, places in zip(other, masked.numbers.tolist(), strict=True):
        for place in places:
            row, column = divmod(place, 3)
            clip[:, :, 16 * row : 16 * row + 16, 16 * column : 16 * column + 16] = 9.0
    tokens = model.encode(clips, visible)
    t = model.backbone.grid[0]
    assert tokens.shape == (2, t, 1, 5, 32)
    torch.testing.assert_close(model.encode(other, visible), tokens)
    # All places together are the model itself.
    every = Places(torch.arange(12).expand(2, -1), (4, 3))
    grid = model.backbone.fc_norm(model.backbone.forward_features(clips).places)
    grid = grid.expand(-1, t, -1, -1, -1)
    expected = grid.flatten(2, 3).expand(-1, -1, 12, -1)
    torch.testing.assert_close(model.encode(clips, every)[:, :, 0], expected)


@pytest.mark.parametrize("name", BUILD)
@torch.no_grad()
def test_optimized_for_inference(name: str) -> None:
    torch.manual_seed(0)
    model = perturb(MaskedPretraining(BUILD[name]()).eval())
    clips = torch.randn(2, 3, 8, 64, 48)
    pixels, visible = model.reconstruct(clips)
    found, _ = optimize_for_inference(model).reconstruct(clips, visible)
    torch.testing.assert_close(found, pixels, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", WHOLE)
def test_the_whole_grid_gets_mask_tokens(name: str) -> None:
    build, reason = WHOLE[name]
    torch.manual_seed(0)
    model = MaskedPretraining(build(), mask_ratio=0.6).eval()
    assert any(reason in one for one in model.whole), model.whole
    clips = torch.randn(1, 3, 8, 64, 48)
    visible, _ = model.draw_places(clips)
    assert model.encode(clips, visible).shape == (1, *model.backbone.grid, 32)
    hidden = clips.clone()
    row, column = divmod(next(iter({*range(12)} - {*visible.numbers[0].tolist()})), 3)
    hidden[..., 16 * row : 16 * row + 16, 16 * column : 16 * column + 16] = 9.0
    torch.testing.assert_close(model.encode(hidden, visible), model.encode(clips, visible))


@pytest.mark.parametrize("name", BUILD)
def test_all_parameters_are_trained(name: str) -> None:
    """So that several processes need not search for unused ones."""
    model = MaskedPretraining(BUILD[name](), mask_ratio=0.6)
    loss = model(torch.randn(2, 1, 3, 8, 64, 48), mode="loss")["loss_pixels"]
    loss.backward()
    assert 0.8 < loss.item() < 1.3  # an untrained model predicts about 0; the variance is 1
    assert [name for name, one in model.named_parameters() if one.grad is None] == []


@pytest.mark.skipif(transformers.__version__ < "5", reason="transformers 4 has other names")
def test_the_loss_is_that_of_transformers() -> None:
    """With the same weights, positions and mask."""
    torch.manual_seed(0)
    sizes = dict(image_size=48, patch_size=16, num_frames=4, tubelet_size=2)
    config = VideoMAEConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        decoder_num_hidden_layers=2,
        decoder_num_attention_heads=2,
        decoder_hidden_size=16,
        decoder_intermediate_size=64,
        use_mean_pooling=False,
        layer_norm_eps=1e-5,
        **sizes,
    )
    theirs = VideoMAEForPreTraining(config).eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    arch = dict(embed_dims=32, depth=2, num_heads=4)
    norm = dict(type="layer", eps=1e-5)
    shared = dict(norm=norm, positions=dict(type="joint", fixed="flat"), qkv_bias="qv")
    backbone = VideoTransformer(arch, 4, 48, stem=dict(tubelet=(2, 16, 16)), **shared)
    decoder = dict(arch=dict(embed_dims=16, depth=2, num_heads=2), **shared)
    ours = MaskedPretraining(backbone, 0.6, decoder).eval()
    source = theirs.state_dict()

    def block(theirs: str, ours: str) -> dict[str, torch.Tensor]:
        attn, names = f"{theirs}.attention.attention", ("query", "key", "value")
        found = {
            f"{ours}.sublayers.joint.attn.qkv.weight": torch.cat(
                [source[f"{attn}.{name}.weight"] for name in names]
            ),
            f"{ours}.sublayers.joint.attn.qkv.bias": torch.cat(
                [source[f"{attn}.{name}.bias"] for name in ("query", "value")]
            ),
        }
        pairs = {
            "layernorm_before": "sublayers.joint.norm",
            "attention.output.dense": "sublayers.joint.attn.proj",
            "layernorm_after": "norm",
            "intermediate.dense": "mlp.fc1",
            "output.dense": "mlp.fc2",
        }
        for old, new in pairs.items():
            for kind in ("weight", "bias"):
                found[f"{ours}.{new}.{kind}"] = source[f"{theirs}.{old}.{kind}"]
        return found

    state = {"mask_token": source["mask_token"].view(1, 1, 1, 1, 16)}
    for i in range(2):
        state |= block(f"videomae.encoder.layer.{i}", f"backbone.encoders.0.blocks.{i}")
        state |= block(f"decoder.decoder_layers.{i}", f"decoder.blocks.{i}")
    pairs = {
        "videomae.embeddings.patch_embeddings.projection": "backbone.embed.proj",
        "videomae.layernorm": "backbone.encoders.0.norm",
        "decoder.norm": "decoder.norm",
        "decoder.head": "to_pixels",
    }
    for old, new in pairs.items():
        for kind in ("weight", "bias"):
            state[f"{new}.{kind}"] = source[f"{old}.{kind}"]
    state["to_decoder.weight"] = source["encoder_to_decoder.weight"]
    ours.load_state_dict(state)

    mean, std = (
        torch.tensor(one).view(3, 1, 1, 1) for one in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    )
    clips = (torch.rand(2, 3, 4, 48, 48) - mean) / std
    visible, masked = ours.draw_places(clips)
    mask = ~visible.mask().flatten(1).repeat(1, 2)
    with torch.no_grad():
        expected = theirs(clips.transpose(1, 2), bool_masked_pos=mask)
        found = ours.loss(clips, visible, masked)
        pixels, _ = ours.reconstruct(clips, visible)
    torch.testing.assert_close(found, expected.loss, rtol=1e-5, atol=1e-5)
    logits = masked.take(pixels.flatten(-2)).flatten(1, 3)
    torch.testing.assert_close(logits, expected.logits, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(mask_ratio=1.0), "mask_ratio must be between 0 and 1, got 1.0"),
        (dict(backbone=torch.nn.Identity()), "must be a VideoTransformer or a preset"),
        (
            dict(backbone=FeatureFixationTransformer(**SIZES)),
            r"tubelets that do not overlap, without padding; got tubelet \(1, 16, 16\)",
        ),
        (dict(mask_ratio=0.05), "mask_ratio 0.05 masks none of the 12 places"),
        (dict(decoder=dict(deep=4)), "no option of the decoder named 'deep'"),
    ],
)
def test_mistakes(options: dict, message: str) -> None:
    with pytest.raises((ValueError, KeyError), match=message):
        MaskedPretraining(**{"backbone": compose(), **options})
