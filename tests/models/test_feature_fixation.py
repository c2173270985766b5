from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from mmvidformer.layers import FIXATIONS, KERNELS
from mmvidformer.models import FeatureFixationTransformer
from mmvidformer.models.feature_fixation import SCHEMES
from mmvidformer.models.heads import TokenMlpHead

TINY = {"embed_dims": 32, "depth": 2, "num_heads": 4}
SIZE = {"img_size": (32, 48), "clip_len": 3}
PLAIN = {"fixation": None, "shifts": {}}
ANY = sorted(set(KERNELS) - {"recurrence"})  # which is causal
SMALL_KERNELS = {
    "performer": {"type": "performer", "num_features": 8},
    "linformer": {"type": "linformer", "rank": 4},
    "lara": {"type": "lara", "num_samples": 4},
}


def tiny(**kwargs) -> FeatureFixationTransformer:
    torch.manual_seed(0)
    return shake(FeatureFixationTransformer(TINY, **{**SIZE, **kwargs})).eval()


def shake(model: FeatureFixationTransformer) -> FeatureFixationTransformer:
    """Draw all weights, so that no zero masks an error."""
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)
    return model


def with_head(**kwargs) -> nn.Sequential:
    """The model of the paper's table 1, with the 174 classes of Something-Something V2."""
    with torch.device("meta"):
        model = nn.Sequential(FeatureFixationTransformer(**kwargs), TokenMlpHead(174, 512))
    return model.eval().requires_grad_(False)


@pytest.mark.parametrize(
    ("kwargs", "count"),
    [  # counted on the official code, without its layer new_fc, which is never used
        (PLAIN, 51626926),
        ({"fixation": "qkv_shared"}, 51923374),
        ({"fixation": "qkv"}, 52219822),
        # The paper's 53.5M: 256 x (17^2 + 16) weights twice in each block, against 51.7.
        ({**PLAIN, "kernel": "linformer"}, 51626926 + 12 * 2 * 256 * (289 + 16)),
    ],
)
def test_parameters(kwargs: dict, count: int) -> None:
    assert sum(p.numel() for p in with_head(**kwargs).parameters()) == count


@pytest.mark.parametrize(
    ("kernel", "billions"),
    [("linear", 243.3), ("cosformer", 250.6), ("performer", 250.6), ("linformer", 294.2)],
)
def test_operations_of_table_1(kernel: str, billions: float) -> None:
    """The paper's counter adds 5 D per token and norm; ours counts matmuls only."""
    model, tokens = with_head(kernel=kernel, **PLAIN), 16 * 17 * 17
    with FlopCounterMode(display=False) as counter:
        model(torch.empty(1, 3, 16, 224, 224, device="meta"))
    macs = counter.get_total_flops() / 2
    norms = (12 * 3 + 2) * 5 * tokens * 512
    assert (macs + norms) / 1e9 == pytest.approx(billions, abs=0.1)
    assert macs / 1e9 == pytest.approx(billions, rel=0.005)


def test_operations_of_a_shared_gate() -> None:
    """3 d^2 per token and head; the paper's 257.8 is for an earlier gate with twice 2 d^2."""
    counts = []
    for fixation in (None, "qkv_shared"):
        model = with_head(fixation=fixation, shifts={})
        with FlopCounterMode(display=False) as counter:
            model(torch.empty(1, 3, 16, 224, 224, device="meta"))
        counts.append(counter.get_total_flops() // 2)
    assert counts[1] - counts[0] == 24 * 4624 * 8 * 3 * 64**2


VARIANTS = {
    **{f"scheme {name}": {"scheme": name} for name in SCHEMES},
    **{f"kernel {name}": {"kernel": SMALL_KERNELS.get(name, name)} for name in ANY},
    **{f"fixation {name}": {"fixation": name} for name in FIXATIONS},
    "fixation add": {"fixation": {"type": "qkv_shared", "combine": "add"}},
    "fixation multiply": {"fixation": {"type": "qkv", "combine": "multiply"}},
    "plain": PLAIN,
    "paper": {
        "scheme": "space_time",
        "stem": {"tubelet": (1, 16, 16)},
        "kernel": {"type": "linear", "offset": False},
        "shifts": {"temporal": "temporal_window", "spatial": "spatial_cross"},
        "mlp": "mlp",
        "positions": "space_time",
    },
    "joint softmax": {"scheme": "joint", "kernel": "softmax"},
    "joint linformer": {"scheme": "joint", "kernel": {"type": "linformer", "rank": 4}},
    "shift last": {
        "shifts": {"temporal": "temporal", "spatial": "spatial_square"},
        "shift_last": True,
    },
    "no positions": {"positions": "none"},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_parameter_has_a_gradient_and_samples_are_independent(variant: str) -> None:
    model = tiny(**VARIANTS[variant])
    clips = torch.randn(2, 3, 3, 32, 48)
    tokens = model(clips)
    torch.testing.assert_close(tokens[1:], model(clips[1:]), atol=1e-4, rtol=1e-4)
    tokens[:, 0].square().sum().backward()
    still = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert still == []


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("shape", [(1, 3, 5, 64, 32), (2, 3, 1, 16, 16)])
def test_clips_of_other_sizes(variant: str, shape: tuple[int, ...]) -> None:
    model = tiny(**VARIANTS[variant])
    tokens = model(torch.randn(shape))
    assert tokens.shape == (shape[0], *model.embed.grid(shape[2:]), 32)
    assert tokens.isfinite().all()


@pytest.mark.parametrize("kernel", ANY)
def test_mixed_precision_trains(kernel: str) -> None:
    """Under autocast numbers are those of single precision, but for rounding."""
    model = tiny(kernel=SMALL_KERNELS.get(kernel, kernel))
    clip = torch.randn(1, 3, 3, 32, 48)
    expected = model(clip)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        tokens = model(clip)
    assert (tokens - expected).norm() < 0.1 * expected.norm()
    tokens.float().square().sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("kernel", ["performer", "orthoformer", "lara"])
def test_checkpointing_repeats_the_draws(kernel: str) -> None:
    grads = []
    for with_cp in (False, True):
        model = tiny(kernel=SMALL_KERNELS.get(kernel, kernel), with_cp=with_cp).train()
        torch.manual_seed(0)
        model(torch.randn(1, 3, 3, 32, 48)).square().sum().backward()
        grads.append([p.grad for p in model.parameters()])
    for plain, saved in zip(*grads, strict=True):
        torch.testing.assert_close(plain, saved)


def test_default_is_the_official_layout() -> None:
    with torch.device("meta"):
        model = FeatureFixationTransformer()
    assert model.embed.grid((16, 224, 224)) == (16, 17, 17)
    assert model.embed.grid((16, 336, 336)) == (16, 25, 25)
    block = model.encoders[0].blocks[0]
    assert list(block.sublayers) == ["time", "space"]
    for sublayer, offset in (("time", (0, 1, 0)), ("space", (1, 0, 0))):
        prepare = block.sublayers[sublayer].attn.prepare
        assert list(prepare) == ["shift0", "features", "fixation"]
        assert prepare["shift0"].offsets[0] == offset
        assert prepare["features"].offset == 64**-0.5


def test_shifts_of_each_attention() -> None:
    def moves(**kwargs) -> list[list[tuple[int, int, int]]]:
        sublayers = tiny(**kwargs).encoders[0].blocks[0].sublayers.values()
        return [
            [part.offsets[0] for name, part in sublayer.attn.prepare.items() if "shift" in name]
            for sublayer in sublayers
        ]

    space, time = (0, 1, 0), (1, 0, 0)
    assert moves(scheme="space_time") == [[time, space], [time, space]]
    assert moves(scheme="joint") == [[space, time]]
    assert moves(scheme="windowed") == [[space, time]]
    assert moves(shifts={"temporal": "temporal", "spatial": None}) == [[], [time]]


def test_windowed_attention_reaches_the_next_frame_only() -> None:
    """Only the shift mixes frames, and it reaches one frame per block."""
    torch.manual_seed(0)
    arch = {**TINY, "depth": 1}
    model = shake(FeatureFixationTransformer(arch, "windowed", **{**SIZE, "clip_len": 5})).eval()
    clip = torch.randn(1, 3, 5, 32, 48)
    other = clip.clone()
    other[:, :, 2] = torch.randn(3, 32, 48)
    changed = (model(clip) - model(other)).abs().amax(dim=(0, 2, 3, 4)) > 1e-4
    assert changed.tolist() == [False, True, True, True, False]


def test_init_from_an_image_checkpoint_of_this_package(tmp_path: Path) -> None:
    image = tiny(clip_len=1, scheme="windowed")
    torch.save({"state_dict": image.state_dict()}, tmp_path / "image.pth")
    video = tiny(init_from=str(tmp_path / "image.pth"))
    video.init_weights()
    for name in ("space", "time"):
        sublayer, source = (m.encoders[0].blocks[1].sublayers for m in (video, image))
        assert torch.equal(sublayer[name].attn.qkv.weight, source["space"].attn.qkv.weight)
    assert torch.equal(video.embed.norm.weight, image.embed.norm.weight)


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"arch": "t"}, "'t'.*b"),
        ({"scheme": "divided"}, "'divided'.*time_space"),
        ({"positions": "places"}, "'places'.*space_time"),
        ({"kernel": "hard"}, "'hard'.*cosformer"),
        ({"fixation": "all"}, "'all'.*qkv_shared"),
        ({"shifts": {"spatial": "up"}}, "'up'.*spatial"),
        ({"shifts": {"space": "spatial"}}, "'space'.*spatial"),
    ],
)
def test_wrong_arguments_are_named(kwargs: dict, match: str) -> None:
    with pytest.raises(KeyError, match=match), torch.device("meta"):
        FeatureFixationTransformer(**kwargs)
