"""Clips of different lengths in a batch: outputs and gradients are those of each clip alone."""

import warnings
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

from mmvidformer.layers import KERNELS, DropPath
from mmvidformer.models import FeatureFixationTransformer, TimeSformer, VideoTransformer, ViViT
from mmvidformer.models.fast.inference import optimize_for_inference
from mmvidformer.models.feature_fixation import SCHEMES as FIXATION_SCHEMES
from mmvidformer.models.lengths import run_by_length, valid_frames
from mmvidformer.models.timesformer import SCHEMES as TIMESFORMER_SCHEMES
from mmvidformer.models.vivit import SCHEMES as VIVIT_SCHEMES
from tests.models.tiny import ARCH, STEM, perturb

PADDINGS = {
    "after": ["111111", "110000", "111100", "110000"],
    "anywhere": ["010010", "110110", "000011", "111111"],
}
TUBELETS = dict(tubelet=(2, 8, 8))
OVERLAPPING = dict(STEM, stride=(1, 7, 7), padding=(0, 4, 4), norm=True)
DRAWN = {"performer", "orthoformer", "lara"}  # kernels that draw in training
# Pattern of each sub-layer, and the kernels that can compute them.
ANY = set(KERNELS) - {"recurrence"}
PADDED = ANY - {"orthoformer", "lara"}
BLOCKS: dict[str, tuple[list, set]] = {
    "joint": (["joint"], ANY),
    "factorized": (["space", "time"], ANY),
    "shared heads": ([("time", "space")], ANY),
    "local and strided": (["local", "strided"], {"softmax", "linear", "performer", "linformer"}),
    "windows": ([dict(type="window", size=(2, 2, 2))], PADDED),
    "shifted windows": ([dict(type="window", size=(2, 2, 2), shift=(1, 1, 1))], {"softmax"}),
    "places": ([dict(type="window", size=(2, 1, 1))], PADDED),
    "causal_time": (["causal_time"], {"softmax", "linear", "cosformer", "recurrence"}),
    "causal_joint": (["causal_joint"], {"softmax", "linear", "cosformer"}),
}


def cases() -> Iterator:
    """Scheme x kernel, as model, its options, and whether the kernel draws."""

    def case(name: str, used: str, kind: Callable, **options: object) -> object:
        return pytest.param(kind, options, used in DRAWN, id=f"{name}-{used}")

    for scheme in VIVIT_SCHEMES:
        depth = dict(temporal_depth=1) if scheme == "factorized_encoder" else {}
        yield case(scheme, "softmax", ViViT, scheme=scheme, stem=TUBELETS, **depth)
    for scheme in TIMESFORMER_SCHEMES:
        options = dict(scheme=scheme, stem=STEM, drop_path_rate=0.0)
        yield case(scheme, "softmax", TimeSformer, **options)
    for scheme in FIXATION_SCHEMES:
        for kernel in sorted(ANY):
            options = dict(scheme=scheme, stem=OVERLAPPING, kernel=kernel)
            yield case(scheme, kernel, FeatureFixationTransformer, **options)
    for name, (patterns, kernels) in BLOCKS.items():
        for kernel in sorted(kernels):
            causal = name.startswith("causal")
            shifts = ("spatial",) if causal else ("spatial", "temporal")
            rows = [dict(pattern=one, kernel=kernel, shifts=shifts) for one in patterns]
            options = dict(block=rows, cls=None if causal else "mean", stem=STEM)
            yield case(name, kernel, VideoTransformer, **options)
    means = dict(block=[dict(pattern="joint", kernel="linear")], stem=STEM, positions="time")
    yield case("mean", "linear", VideoTransformer, **means)
    later = [dict(frames="pool", cls="mean"), dict(block=[dict(pattern="causal_time")])]
    yield case("causal frames", "softmax", VideoTransformer, encoders=later, stem=STEM)


def build(kind: Callable, options: dict) -> nn.Module:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # channels are too few for some shifts
        return perturb(kind(arch=dict(ARCH, depth=1), clip_len=4, img_size=16, **options))


def batch(padding: str) -> tuple[Tensor, Tensor]:
    """Clips with nan in the padding, and their mask."""
    valid = torch.tensor([[c == "1" for c in row] for row in PADDINGS[padding]])
    generator = torch.Generator().manual_seed(1)
    clips = torch.randn(4, 3, 6, 16, 16, generator=generator)
    return clips.masked_fill(~valid[:, None, :, None, None], torch.nan), valid


def gradients(model: nn.Module, outputs: list[Tensor]) -> dict[str, Tensor]:
    """Gradients of the sum over clips of random weighted means."""
    weights = torch.Generator().manual_seed(2)
    means = [(out * torch.randn(out.shape, generator=weights)).mean() for out in outputs]
    found = torch.autograd.grad(sum(means), [*model.parameters()], allow_unused=True)
    names = [name for name, _ in model.named_parameters()]
    return {n: g for n, g in zip(names, found, strict=True) if g is not None}


@pytest.mark.parametrize("kind, options, draws", list(cases()))
def test_each_clip_gets_what_it_gets_alone(kind: Callable, options: dict, draws: bool) -> None:
    model = build(kind, options).train(not draws)
    for padding in PADDINGS:
        clips, valid = batch(padding)
        alone = [model(clip[None, :, mask])[0] for clip, mask in zip(clips, valid, strict=True)]
        together = model(clips, valid)
        assert isinstance(together, Tensor) == (model.pool != "none")
        torch.testing.assert_close(list(together), alone, atol=1e-5, rtol=1e-5)
        expected, found = gradients(model, alone), gradients(model, list(together))
        assert len(expected) > len(list(model.parameters())) // 2
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_kernels_that_draw_do_so_for_each_length() -> None:
    """In training, each pass has its own random features, as that of a clip alone."""
    options = dict(scheme="joint", stem=STEM, kernel="performer")
    model = build(FeatureFixationTransformer, options).train()
    clips, valid = batch("after")
    torch.manual_seed(3)
    together = model(clips, valid)
    torch.manual_seed(3)
    alone = [model(clips[:1]), model(clips[[1, 3], :, :2]), model(clips[2:3, :, :4])]
    for i, (group, row) in enumerate([(0, 0), (1, 0), (2, 0), (1, 1)]):
        torch.testing.assert_close(together[i], alone[group][row], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("frames", ["pool", "average"])
def test_single_frames_of_all_clips_run_together(
    frames: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the draws of stochastic depth that it gets in the batch, a clip alone gives the same."""
    encoders = [dict(frames=frames, depth=3, drop_path_rate=0.5), dict(depth=1)]
    model = build(VideoTransformer, dict(encoders=encoders, cls="mean", stem=TUBELETS)).train()
    clips, valid = batch("anywhere")
    counts = (valid.sum(1) // 2).tolist()
    draws: list[Tensor] = []
    draw = DropPath.forward

    def record(part: DropPath, tokens: Tensor, **options: object) -> Tensor | None:
        found = draw(part, tokens, **options)
        if found is not None:
            assert len(tokens) == sum(counts)
            draws.append(found)
        return found

    monkeypatch.setattr(DropPath, "forward", record)
    together = model(clips, valid)
    assert len(draws) == 4  # attention and MLP of the blocks with a rate above 0
    assert len(torch.cat(draws).unique()) > 2
    parts = [one.split(counts) for one in draws]
    if frames == "pool":
        assert all((one == one[0]).all() for part in parts for one in part)
    alone = []
    for i, (clip, mask) in enumerate(zip(clips, valid, strict=True)):
        left = iter([part[i] for part in parts])
        replay = lambda part, tokens, left=left, **_: next(left) if part.rate else None  # noqa: E731
        monkeypatch.setattr(DropPath, "forward", replay)
        alone.append(model(clip[None, :, mask])[0])
    torch.testing.assert_close(list(together), alone, atol=1e-5, rtol=1e-5)
    expected, found = gradients(model, alone), gradients(model, list(together))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_optimized_models_take_masks() -> None:
    model = build(ViViT, dict(scheme="spacetime", stem=TUBELETS)).eval()
    clips, valid = batch("after")
    with torch.no_grad():
        expected = model(clips, valid)
        torch.testing.assert_close(optimize_for_inference(model)(clips, valid), expected)


@pytest.mark.slow
def test_compiled_models_take_masks() -> None:
    model = build(ViViT, dict(scheme="spacetime", stem=TUBELETS)).eval()
    clips, valid = batch("after")
    expected = model(clips, valid)
    torch.testing.assert_close(torch.compile(model, backend="eager")(clips, valid), expected)
    torch.compiler.reset()
    whole = torch.compile(model, backend="eager", fullgraph=True)
    found = run_by_length(whole, valid_frames(clips, valid))
    torch.testing.assert_close(torch.stack(found), expected)


@pytest.mark.parametrize(
    "valid, match",
    [
        (torch.ones(4, 5).bool(), r"mask \(B, T\) = \(4, 6\) of torch.bool, got \(4, 5\) of torch"),
        (torch.ones(4).bool(), r"got \(4,\)"),
        (torch.tensor([6, 2, 4, 2]), r"got \(4,\) of torch.int64"),
        (torch.ones(4, 6), r"got \(4, 6\) of torch.float32"),
        (torch.tensor([[True] * 6] * 3 + [[False] * 6]), "must be at least 1; clip 3 has 0"),
        (torch.arange(6) < torch.tensor([6, 2, 3, 2])[:, None], "of the tubelet, 2; clip 2 has 3"),
    ],
)
def test_wrong_masks(valid: Tensor, match: str) -> None:
    model = build(ViViT, dict(stem=TUBELETS, temporal_depth=1))
    with pytest.raises(ValueError, match=match) as error:
        model(torch.zeros(4, 3, 6, 16, 16), valid)
    assert "\n" not in str(error.value)
