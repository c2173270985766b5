"""Backbones of random sizes and options: types, layouts, single clips, ``vmap``."""

import warnings
from collections.abc import Callable

import pytest
import torch
from hypothesis import Phase, given, reject, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from mmvidformer.models import FeatureFixationTransformer, TimeSformer, VideoTransformer, ViViT
from mmvidformer.models.fast.inference import optimize_for_inference
from mmvidformer.models.feature_fixation import SCHEMES as FIXATION_SCHEMES
from mmvidformer.models.horst.layer import KEY_VALUE, VARIANTS
from mmvidformer.models.horst.necks import Horst
from mmvidformer.models.horst.statt import ATTENTIONS
from mmvidformer.models.timesformer import SCHEMES as TIMESFORMER_SCHEMES
from mmvidformer.models.vivit import SCHEMES as VIVIT_SCHEMES
from tests.properties import check_rows, close

SIZES = [4, 5, 9]
POSITIONS = ["none", "space", "time", "space_time", "joint"]
ENCODERS = [
    [{}],
    [dict(frames="pool", block=[{}]), dict(block=[dict(pattern="time")])],
    [dict(frames="average", block=[{}])],
    [{}, dict(embed_dims=12, num_heads=3)],
]
FAMILIES: dict[Callable, dict[str, list]] = {
    TimeSformer: dict(
        scheme=list(TIMESFORMER_SCHEMES),
        stem=[dict(tubelet=(1, 4, 4))],
        reverse=[False, True],
        parallel=[False, True],
        positions=[
            dict(type=kind, rule=rule)
            for kind in POSITIONS
            for rule in ("linear", "nearest", "nearest_1d", "bicubic")
        ],
    ),
    ViViT: dict(
        scheme=list(VIVIT_SCHEMES),
        stem=[dict(tubelet=(1, 4, 4)), dict(tubelet=(2, 4, 2))],
        temporal_depth=[0, 1],
    ),
    FeatureFixationTransformer: dict(
        scheme=list(FIXATION_SCHEMES),
        stem=[
            dict(tubelet=(1, 4, 4)),
            dict(tubelet=(1, 4, 4), stride=(1, 3, 3), padding=(0, 2, 2), norm=True),
        ],
        kernel=["linear", "softmax", "cosformer", "performer", "linformer", "lara"],
        fixation=[None, "qkv_shared"],
        mlp=["mlp", dict(type="mlp", depthwise=True)],
        positions=POSITIONS,
    ),
    VideoTransformer: dict(
        block=[
            [dict(pattern="causal_time"), dict(pattern="space", fc=True)],
            [dict(pattern=("time", "space"), fixation="qk")],
            [dict(pattern=dict(type="window", size=(2, 2, 2), shift=(1, 1, 0)))],
        ],
        encoders=ENCODERS,
        stem=[dict(tubelet=(2, 4, 4)), dict(tubelet=(1, 4, 5))],
        positions=[*POSITIONS, dict(type="joint", fixed=True)],
        cls=[None, "mean", "global"],
        pool=["mean", "none", None],
        parallel=[True, False],
        mlp=["mlp", dict(type="mlp", act="gelu_tanh")],
        norm=["layer", "rms"],
    ),
}


def examples(count: int) -> settings:
    return settings(max_examples=count, deadline=None, derandomize=True, phases=[Phase.generate])


def noise(*size: int) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def perturb(model: nn.Module) -> nn.Module:
    """Move weights away from zeros."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


def call(model: nn.Module, clip: Tensor) -> Tensor:
    return model(clip)


@pytest.fixture(autouse=True)
def quiet() -> None:
    warnings.filterwarnings("ignore", ".*nothing is shifted")


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_backbone(family: Callable) -> None:
    """Also for one frame, one token, and clips of other sizes than those of the position tables."""

    @examples(4)
    @given(
        options=st.fixed_dictionaries(
            {name: st.sampled_from(values) for name, values in FAMILIES[family].items()}
        ),
        width=st.sampled_from([2, 14]),
        size=st.tuples(st.sampled_from([1, 2, 5]), *[st.sampled_from(SIZES)] * 2),
        with_cp=st.booleans(),
    )
    def run(options: dict, width: int, size: tuple, with_cp: bool) -> None:
        clip = noise(2, 3, *size)
        arch = dict(embed_dims=width, depth=2, num_heads=2, mlp_ratio=1)
        try:
            model = family(arch, clip_len=4, img_size=8, with_cp=with_cp, **options)
            model(clip[:1].float())
        except ValueError as error:  # such as a clip that is smaller than a tubelet
            assert "\n" not in str(error)
            reject()
        out = check_rows(perturb(model), call, clip, half=width > 2)
        model.eval()
        with torch.no_grad():
            # Not ``out``: Performer and others draw in training.
            close(optimize_for_inference(model)(clip), model(clip), 1e-9)
            assert model(clip[:0]).shape == (0, *out.shape[1:])

    run()


@pytest.mark.skipif(torch.__version__ < "2.7", reason="PyTorch 2.6 has no group norm in vmap")
@examples(10)
@given(
    channels=st.lists(st.sampled_from([2, 4, 8]), min_size=1, max_size=2),
    num_heads=st.sampled_from([1, 2]),
    order=st.sampled_from([1, 3]),
    variant=st.sampled_from(list(VARIANTS)),
    attention=st.sampled_from(list(ATTENTIONS)),
    key_value=st.sampled_from([None, *KEY_VALUE]),
    steps=st.sampled_from([1, 4]),
    size=st.tuples(*[st.sampled_from([1, 2, 5])] * 2),
)
def test_horst(channels: list[int], steps: int, size: tuple, **options: object) -> None:
    """Also frame by frame, and an empty batch."""
    model = perturb(Horst(3, channels, **options))
    maps = noise(2, steps, 3, *size)
    out = check_rows(model, lambda model, maps: torch.cat(model(maps)[0], 2), maps, half=False)
    assert out.shape == (2, steps, 3 * channels[-1], *size)
    model.eval()
    states = None
    with torch.no_grad():
        assert model(maps[:0])[0].y.shape == (0, steps, channels[-1], *size)
        for t in range(steps):
            found, states = model.step(maps[:, t], states)
            close(torch.cat(found, 1), out[:, t], 1e-9)


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_horst_with_fewer_channels_than_excitation_divides_by(channels: int) -> None:
    model = Horst(3, [channels])
    assert model.layers[0].readout.excite.fc1.out_channels == 1
    assert model(torch.zeros(1, 2, 3, 4, 4))[0].y.shape == (1, 2, channels, 4, 4)


@pytest.mark.parametrize("name", ["embed_dims", "depth", "num_heads", "mlp_ratio"])
@pytest.mark.parametrize("number", [0, -1])
def test_sizes_are_positive(name: str, number: int) -> None:
    arch = dict(embed_dims=8, depth=1, num_heads=2)
    for options in (dict(arch={**arch, name: number}), dict(encoders=[{}, {name: number}])):
        with pytest.raises(ValueError, match=f"{name} must be positive, got {number}"):
            VideoTransformer(**{"arch": arch, **options})


def test_gradients_of_each_clip_by_torch_func() -> None:
    """Their sum is the gradient of the sum of the losses."""
    arch = dict(embed_dims=8, depth=1, num_heads=2)
    model = (
        perturb(ViViT(arch, clip_len=2, img_size=8, stem=dict(tubelet=(1, 4, 4)))).double().eval()
    )
    clips, weights = noise(3, 3, 2, 8, 8), dict(model.named_parameters())

    def loss(weights: dict[str, Tensor], clip: Tensor) -> Tensor:
        return torch.func.functional_call(model, weights, clip[None]).square().sum()

    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(weights, clips)
    model(clips).square().sum().backward()
    for name, weight in weights.items():
        torch.testing.assert_close(each[name].sum(0), weight.grad)
