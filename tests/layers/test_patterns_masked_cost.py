"""Computation and memory that patterns with masks and options take."""

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from mmvidformer.apis.complexity import count_macs
from mmvidformer.layers import PATTERNS, Attention
from mmvidformer.models.fast.recompute import copy_again
from tests.layers.dense import Place
from tests.layers.largest_tensor import LargestTensor
from tests.layers.masked_patterns import DIM, HEADS, SPECS, build
from tests.layers.pairs import OnGrid, run


def attention_macs(spec: dict, grid: Place, kernel: str = "softmax") -> int:
    """Multiply-accumulates without those of the projections."""
    with torch.device("meta"):
        attn, x = Attention(DIM, HEADS, [spec], "skip", kernel), torch.empty(1, *grid, DIM)
    return count_macs(OnGrid(attn), x) - 4 * x[..., 0].numel() * DIM**2


@pytest.mark.parametrize(
    ("spec", "grid", "pairs"),
    [
        (SPECS["window"], (4, 6, 4), 4 * 6 * 4 * 12),
        (SPECS["shifted"], (4, 6, 4), 4 * 6 * 4 * 12),
        (SPECS["shifted"], (4, 6, 40), 4 * 6 * 40 * 12),
        (SPECS["shifted"], (3, 5, 3), 4 * 6 * 4 * 12),  # padded to the first grid
        (SPECS["window"], (1, 6, 4), 1 * 6 * 4 * 6),  # a window of one frame
        (SPECS["frames"], (6, 5, 3), 6 * 15 * 30),
        (SPECS["frames"], (12, 5, 3), 12 * 15 * 30),
        (SPECS["places"], (6, 5, 3), 6 * 15 * 3),
        (SPECS["places"], (5, 5, 3), 6 * 15 * 3),
        (SPECS["causal_time"], (6, 5, 3), 6 * 15 * 6),
        (SPECS["causal_joint"], (6, 5, 3), (6 * 15) ** 2),
    ],
    ids=str,
)
def test_macs_are_those_of_the_pairs_within_groups(spec: dict, grid: Place, pairs: int) -> None:
    assert attention_macs(spec, grid) == 2 * pairs * DIM
    pattern = PATTERNS.build(spec)
    assert pattern.num_groups(grid) * pattern.num_tokens(grid) ** 2 == pairs


def test_a_bounded_past_costs_in_proportion_to_it() -> None:
    """Runs of two frames see one earlier frame each: 2 x 2 and then 2 x 3 pairs of frames."""
    for frames, pairs in ((2, 4), (6, 4 + 6 + 6), (7, 4 + 6 + 6 + 2), (60, 4 + 29 * 6)):
        grid = (frames, 5, 3)
        assert attention_macs(SPECS["causal_time, past 2"], grid) == 2 * 15 * pairs * DIM
        assert attention_macs(SPECS["causal_joint, past 2"], grid) == 2 * 15**2 * pairs * DIM


@pytest.mark.parametrize("name", ["causal_time", "causal_joint"])
def test_a_causal_linear_kernel_costs_no_more_than_a_full_one(name: str) -> None:
    full, grid = name.removeprefix("causal_"), (6, 5, 3)
    macs = attention_macs({"type": name}, grid, "linear")
    if name == "causal_joint":  # one state per frame
        assert macs == attention_macs({"type": full}, grid, "linear")
    assert attention_macs({"type": name}, (12, 5, 3), "linear") == 2 * macs


@pytest.mark.parametrize("case", ["window", "shifted", "frames", "places", "causal_time"])
def test_memory_grows_with_the_groups(case: str) -> None:
    sizes = []
    for width in (40, 80):
        with torch.no_grad(), LargestTensor() as largest:
            run(build(SPECS[case]), torch.randn(1, 3, 6, width, DIM, dtype=torch.float64))
        sizes.append(largest.size)
    assert sizes[1] <= 2 * sizes[0] < (3 * 6 * 40) ** 2


class Operators(TorchDispatchMode):
    """Records the names of all operators."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("spec", [SPECS["shifted"], "local"], ids=str)
def test_masks_are_built_once_per_grid(spec: dict | str) -> None:
    attn = Attention(DIM, HEADS, [spec], "skip")
    for grid in ((3, 7, 5), (3, 7, 4)):
        x = torch.randn(2, *grid, DIM)
        with FakeTensorMode(allow_non_fake_inputs=True):
            run(attn, x)
        with torch.inference_mode():
            expected = run(attn, x)[0]
        again = Attention(DIM, HEADS, [spec], "skip")  # another layer
        again.load_state_dict(attn.state_dict())
        with Operators() as used:
            mask = again.patterns[0].mask(x)
        assert not used.names and len(mask) == attn.patterns[0].num_groups(grid)  # for all clips
        found = run(again, x)[0]
        torch.testing.assert_close(found, expected)
        found.sum().backward()  # the mask was first needed in inference mode


def test_clips_share_a_mask_of_pairs() -> None:
    attn, masks = Attention(DIM, HEADS, [SPECS["shifted"]], "mean"), []
    attn.kernel.register_forward_pre_hook(lambda _, inputs: masks.append(inputs[3].shape))
    for clips in (1, 3):
        run(attn, torch.randn(clips, 3, 7, 5, DIM), torch.randn(clips, 1, DIM))
    assert masks[0] == masks[1] and masks[0][-2] > 1


def bytes_kept(pattern: str) -> int:
    """Bytes that the forward pass of an attention keeps for the backward pass, beside weights."""
    attn = Attention(DIM, HEADS, [pattern], "mean")
    copy_again(attn)
    weights = {x.untyped_storage().data_ptr() for x in attn.parameters()}
    kept: dict[int, int] = {}

    def keep(x: Tensor) -> Tensor:
        kept[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        out = run(
            attn, torch.randn(1, 2, 12, 12, DIM), torch.randn(1, 1, DIM)
        )  # keeps what it refers to
    assert out[0].requires_grad
    return sum(size for place, size in kept.items() if place not in weights)


def test_gathered_keys_are_not_kept_for_the_backward_pass() -> None:
    """A key is in 36 windows of 6 x 6 places."""
    assert bytes_kept("local") < 2 * bytes_kept("joint")


@pytest.mark.parametrize("cls", ["skip", "mean", "global"])
@pytest.mark.parametrize("kernel", ["softmax", "linear", "orthoformer"])
def test_gathering_again_changes_no_number(cls: str, kernel: str) -> None:
    results = []
    for again in (False, True):
        attn = build("local", cls, kernel).eval()
        if again:
            copy_again(attn)
        inputs = [torch.randn(2, 3, 5, 4, DIM), torch.randn(2, 2, DIM)]
        inputs = [x.double().requires_grad_() for x in inputs]
        out, cls_out = run(attn, *inputs)
        loss = out.square().sum() + (0 if cls_out is None else cls_out.square().sum())
        used = inputs[: 1 if cls == "skip" else 2]
        gradients = torch.autograd.grad(loss, [*used, *attn.parameters()])
        results.append([out, *gradients])
    torch.testing.assert_close(*results, rtol=0, atol=1e-12)
