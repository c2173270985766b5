"""How many operators a block takes, and how many frames of the package lie above attention."""

import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import mmvidformer
from mmvidformer.layers import eager
from mmvidformer.models import FeatureFixationTransformer, TimeSformer, VideoTransformer
from mmvidformer.models.fast.kept_rows import compute_kept_rows
from mmvidformer.models.fast.prefix_only import compute_prefix_only
from mmvidformer.models.fast.regrouped_once import regroup_once

SIZE = dict(img_size=32, clip_len=4, stem=dict(tubelet=(1, 8, 8)))
VIEWS = {
    *("view", "_unsafe_view", "t", "transpose", "permute", "expand", "unsqueeze", "squeeze"),
    *("select", "slice", "split", "split_with_sizes", "unbind", "detach", "alias", "as_strided"),
}


class Operators(TorchDispatchMode):
    """Counts the operators that compute."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func.overloadpacket.__name__ not in VIEWS
        return func(*args, **(kwargs or {}))


def arch(depth: int) -> dict:
    return dict(embed_dims=32, depth=depth, num_heads=2)


def joint(depth: int) -> nn.Module:
    return VideoTransformer(arch(depth), block=[dict(pattern="joint")], cls="mean", **SIZE)


def divided(depth: int) -> nn.Module:
    return TimeSformer(arch(depth), drop_path_rate=0.0, **SIZE)


def fixation(depth: int) -> nn.Module:
    return FeatureFixationTransformer(arch=arch(depth), drop_path_rate=0.0, **SIZE)


def fast(make: Callable[[int], nn.Module]) -> Callable[[int], nn.Module]:
    """With the passes, but not oneDNN's products, which depend on the processor."""

    def build(depth: int) -> nn.Module:
        model = make(depth)
        for apply in (regroup_once, compute_kept_rows, compute_prefix_only):
            apply(model)
        return model

    return build


@pytest.mark.skipif(torch.__version__ < "2.7", reason="PyTorch 2.6 takes more operators")
@pytest.mark.parametrize(
    ("make", "most"), [(joint, 29), (divided, 76), (fixation, 179), (fast(divided), 68)]
)
def test_operators_of_a_block_forward_and_backward(
    make: Callable[[int], nn.Module], most: int
) -> None:
    """Without the sums of gradients; timm's block of joint attention takes 30."""
    counts = []
    for depth in (1, 3):
        model, clip = make(depth), torch.randn(2, 3, 4, 32, 32)
        with Operators() as operators:
            model(clip).sum().backward()
        counts.append(operators.count)
    assert (counts[1] - counts[0]) / 2 <= most


@pytest.mark.parametrize(("make", "most"), [(joint, 75), (divided, 178), (fixation, 250)])
def test_python_calls_of_a_block(make: Callable[[int], nn.Module], most: int) -> None:
    """What is left to pay for on a GPU with small batches; timm's block of joint attention: 105."""
    clip, counts = torch.randn(1, 3, 4, 32, 32), []
    for depth in (1, 3):
        model, calls = make(depth).eval(), 0

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal calls
            calls += event == "call"

        with torch.no_grad():
            model(clip)
            sys.setprofile(count)
            model(clip)
            sys.setprofile(None)
        counts.append(calls)
    assert (counts[1] - counts[0]) / 2 <= most


@pytest.mark.parametrize("make", [joint, divided])
def test_few_frames_lie_between_a_model_and_attention(
    make: Callable[[int], nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    package, fused = (
        str(Path(mmvidformer.__file__).parent),
        nn.functional.scaled_dot_product_attention,
    )
    frames = []

    def attend(*args: Tensor, **options: object) -> Tensor:
        stack = traceback.extract_stack()
        frames[:] = [frame.filename for frame in stack if frame.filename.startswith(package)]
        return fused(*args, **options)

    monkeypatch.setattr(nn.functional, "scaled_dot_product_attention", attend)
    make(1)(torch.randn(1, 3, 4, 32, 32))
    # Of model, encoder, block, attention and kernel. The block has a file, which is read first.
    assert 0 < len(frames) <= 7 and len(set(frames)) <= 5


@pytest.mark.parametrize("make", [joint, divided])
@pytest.mark.parametrize(("training", "most"), [(False, 9), (True, 10)])
def test_few_files_run_in_a_forward_pass(
    make: Callable[[int], nn.Module], training: bool, most: int
) -> None:
    """What is for other models, sizes or uses is not on the way."""
    package, files = str(Path(mmvidformer.__file__).parent), set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(package):
            files.add(frame.f_code.co_filename)

    model = make(2).train(training)
    sys.setprofile(note)
    model(torch.randn(1, 3, 4, 32, 32))
    sys.setprofile(None)
    assert 7 < len(files) <= most, sorted(files)


@pytest.mark.parametrize("options", [dict(rope="axial"), dict(positions=dict(fixed="flat"))])
def test_tables_of_places_are_computed_once_per_size(options: dict) -> None:
    """Also if the first pass is in inference mode, whose tensors cannot have gradients."""
    eager._keep.cache_clear()  # tables of other tests
    model = VideoTransformer(arch(1), **options, **SIZE)
    clip = torch.randn(1, 3, 4, 32, 32)
    with torch.inference_mode():
        expected = model(clip)
    names: list[str] = []

    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            names.append(func.overloadpacket.__name__)
            return func(*args, **(kwargs or {}))

    with Names():
        out = model(clip)
        out.sum().backward()
    assert "sin" not in names and "native_layer_norm" in names
    torch.testing.assert_close(out, expected)
    with Names():
        model(clip[:, :, :2]), model.double()(clip.double())
    assert names.count("sin") == 2
