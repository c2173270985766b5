"""Each kernel of linear cost compared with a dense evaluation of its formula."""

import copy
import logging

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvidformer.layers import KERNELS
from mmvidformer.layers.kernels.base import LinearCostKernel
from mmvidformer.layers.masks import Causal
from tests.layers.dense_kernels import D, dense

S = 9

# name: kernel and options
CASES = {
    "linear relu": {"type": "linear"},
    "linear relu no offset": {"type": "linear", "offset": False, "eps": 1e-3},
    "linear elu": {"type": "linear", "feature": "elu"},
    "linear sigmoid offset": {"type": "linear", "feature": "sigmoid", "offset": True},
    "linear identity": {"type": "linear", "feature": "identity", "eps": 40.0},  # sums of any sign
    "linear map last": {"type": "linear", "map_last": True},
    "cosformer": {"type": "cosformer"},
    "performer": {"type": "performer", "num_features": 8},
    "linformer": {"type": "linformer", "length": S, "rank": 4},
    "linformer resized": {"type": "linformer", "length": 5, "rank": 4},
    "orthoformer": {"type": "orthoformer", "num_landmarks": 4},
    "orthoformer few tokens": {"type": "orthoformer", "num_landmarks": 99},
    "lara": {"type": "lara", "num_samples": 4},
}


def make(options: dict) -> nn.Module:
    torch.manual_seed(0)
    return KERNELS.build(options, head_dim=D).double().eval()


def apply(kernel: nn.Module, q: Tensor, k: Tensor, v: Tensor, **kwargs: Tensor) -> Tensor:
    if kernel.feature_map:
        q, k, v = kernel.feature_map(q, k, v)
    return kernel(q, k, v, **kwargs)


def tokens(length: int = S, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    torch.manual_seed(1)
    return [torch.randn(2, 3, length, D, dtype=dtype, requires_grad=True) for _ in range(3)]


def test_every_kernel_has_a_case() -> None:
    """Other kernels are in test_kernels_naive.py, the recurrence in test_recurrence.py."""
    linear = {name for name, kernel in KERNELS.items() if issubclass(kernel, LinearCostKernel)}
    assert {options["type"] for options in CASES.values()} == linear - {"recurrence"}


@pytest.mark.parametrize("case", CASES)
def test_kernel_equals_its_formula_with_all_gradients(case: str) -> None:
    kernel, inputs = make(CASES[case]), tokens()
    expected = dense(kernel, CASES[case]["type"], *inputs)
    out = apply(kernel, *inputs)
    torch.testing.assert_close(out, expected, rtol=1e-8, atol=1e-10)
    leaves = [*inputs, *kernel.parameters()]
    weight = torch.randn_like(out)
    for fast, direct in zip(
        torch.autograd.grad((out * weight).sum(), leaves),
        torch.autograd.grad((expected * weight).sum(), leaves),
        strict=True,
    ):
        torch.testing.assert_close(fast, direct, rtol=1e-7, atol=1e-9)

    single = apply(kernel.float(), *(x.float() for x in inputs))
    error = (single - expected).abs().max() / expected.abs().max()
    assert error < 1e-5


@pytest.mark.parametrize("case", [case for case in CASES if "ortho" not in case])
def test_gradients_equal_numerical_ones(case: str) -> None:
    """Not for Orthoformer, whose landmarks are detached but depend on the queries."""
    kernel = make(CASES[case])
    inputs = [x[:1, :1].detach().requires_grad_() for x in tokens()]
    assert torch.autograd.gradcheck(lambda *x: apply(kernel, *x), inputs, fast_mode=True)


@pytest.mark.parametrize("case", CASES)
def test_sums_are_in_single_precision_under_autocast(case: str) -> None:
    kernel = make(CASES[case]).float()
    half = [x.bfloat16() for x in tokens(64)]
    inputs = half if kernel.half_products else [x.float() for x in half]
    expected = kernel(*inputs).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(kernel(*half), expected)


def test_long_sums_do_not_saturate() -> None:
    """A bfloat16 sum of ones saturates at 256."""
    ones = torch.ones(1, 1, 1024, D, dtype=torch.bfloat16)
    values = torch.arange(1024, dtype=torch.bfloat16)[:, None].expand(1, 1, 1024, D)
    out = make({"type": "linear"}).bfloat16()(ones, ones, values)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), torch.full_like(out.float(), 512.0), rtol=1e-2, atol=0)


def softmax_case(repeats: int = 1) -> tuple[list[Tensor], Tensor]:
    """Tokens of moderate magnitude: the variance of both estimates grows exponentially with it."""
    q, k, v = (x.detach()[:1, :1].repeat(1, 1, repeats, 1) for x in tokens())
    inputs = [q / 2, k / 2, v]
    return inputs, F.scaled_dot_product_attention(*inputs)


def root_mean_square(x: Tensor) -> float:
    return x.square().mean().sqrt().item()


def test_performer_converges_to_softmax_with_many_features() -> None:
    inputs, exact = softmax_case()
    few, many = (
        make({"type": "performer", "num_features": count, "eps": 0.0}) for count in (30, 30000)
    )
    error = root_mean_square(many(*inputs) - exact)
    assert error < 0.01 and error < root_mean_square(few(*inputs) - exact) / 5


def test_lara_converges_to_softmax_with_many_samples() -> None:
    inputs, exact = softmax_case(repeats=300)
    errors = []
    for count in (4, 2000):
        kernel = make({"type": "lara", "num_samples": count}).train()
        for proposal in (kernel.query_proposal, kernel.key_proposal):
            nn.init.constant_(proposal[1].weight, 0.2)  # distant proposals need many more samples
        errors.append(root_mean_square(kernel(*inputs) - exact))
    assert errors[1] < 0.03 and errors[1] < errors[0] / 5


def test_performer_directions_are_orthogonal_and_redrawn_in_training_only() -> None:
    kernel = make({"type": "performer", "num_features": 2 * D + 1})
    first, second, last = kernel.directions.split([D, D, 1])
    for block in (first, second):
        gram = block @ block.T
        torch.testing.assert_close(gram, torch.diag(gram.diagonal()), atol=1e-5, rtol=0)
    assert last.norm() > 0
    inputs = tokens()
    torch.testing.assert_close(kernel(*inputs), kernel(*inputs), atol=0, rtol=0)
    assert not torch.equal(kernel.train()(*inputs), kernel(*inputs))


def test_processes_that_draw_differently_evaluate_the_same_performer() -> None:
    """After MMEngine's SyncBuffersHook, which averages buffers over the processes."""
    ranks = [make({"type": "performer"}).train() for _ in range(4)]
    for rank in ranks[1:]:
        rank.load_state_dict(ranks[0].state_dict())  # as DDP does at the start
    inputs = tokens()
    expected, drawn = copy.deepcopy(ranks[0]).eval()(*inputs), []
    for seed, rank in enumerate(ranks):
        torch.manual_seed(seed)
        drawn.append(rank(*inputs))
    assert not torch.allclose(drawn[0], drawn[1])
    average = torch.stack([rank.directions for rank in ranks]).mean(dim=0)
    for rank in ranks:
        rank.directions.copy_(average)
        torch.testing.assert_close(rank.eval()(*inputs), expected)


def test_performer_evaluates_with_the_directions_of_its_checkpoint() -> None:
    kernel, other = make({"type": "performer"}), make({"type": "performer"})
    state = {"directions": torch.randn_like(kernel.directions)}
    inputs = tokens()
    for one in (kernel, other):
        one.load_state_dict(state)
    torch.testing.assert_close(kernel(*inputs), other(*inputs), atol=0, rtol=0)
    torch.testing.assert_close(kernel.train().state_dict(), state)


def test_orthoformer_is_softmax_for_a_single_query() -> None:
    """As that of a class token that attends alone."""
    q, k, v = tokens()
    inputs = (q[..., :1, :].detach().requires_grad_(), k, v)
    outs = make(CASES["orthoformer"])(*inputs), F.scaled_dot_product_attention(*inputs)
    torch.testing.assert_close(*outs)
    torch.testing.assert_close(*(torch.autograd.grad(x.square().sum(), inputs) for x in outs))


def test_settings_are_printed() -> None:
    kernel = make({"type": "linear", "feature": "relu", "offset": False})
    assert repr(kernel.feature_map) == "FeatureMap(relu, offset=0)"


def test_linformer_loads_weights_of_another_length(caplog: pytest.LogCaptureFixture) -> None:
    short = make(CASES["linformer resized"])
    longer = make(CASES["linformer"])
    with caplog.at_level(logging.WARNING, "mmvidformer"):
        longer.load_state_dict(short.state_dict())
    assert "projection keys of length 5 was resized to 9" in caplog.text
    caplog.clear()
    longer.load_state_dict(longer.state_dict())
    assert not caplog.text
    inputs = tokens()
    torch.testing.assert_close(longer(*inputs), short(*inputs))


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"type": "hard"}, KeyError, "hard.*cosformer.*softmax"),
        ({"type": "linear", "feature": "tanh"}, KeyError, "tanh.*relu"),
        ({"type": "linformer"}, ValueError, "needs the option length"),
        ({"type": "linformer", "length": 9, "rank": 0}, ValueError, "rank of Linformer.* 1, got 0"),
        ({"type": "performer", "num_features": 0}, ValueError, "num_features of .* 1, got 0"),
        ({"type": "orthoformer", "num_landmarks": -1}, ValueError, "num_landmarks .* got -1"),
        ({"type": "lara", "num_samples": 0}, ValueError, "num_samples of LaraKernel .* got 0"),
    ],
)
def test_wrong_options_are_named(options: dict, error: type, match: str) -> None:
    with pytest.raises(error, match=match):
        KERNELS.build(options, head_dim=D)


@pytest.mark.parametrize(
    "options",
    [
        {"type": "linformer", "length": S, "rank": 1},
        {"type": "performer", "num_features": 1},
        {"type": "lara", "num_samples": 1},
    ],
)
def test_counts_may_be_one(options: dict) -> None:
    assert KERNELS.build(options, head_dim=D)(*tokens()).isfinite().all()


def test_a_stream_keeps_the_keys_that_the_next_frame_sees() -> None:
    """Two tokens a frame; of three frames that are seen, one is the next."""
    kernel, (q, k, v) = KERNELS.build("softmax", head_dim=D), tokens()
    past = None
    for start in range(0, 8, 2):
        rows = slice(start, start + 2)
        _, past = kernel.resume(
            q[..., rows, :], k[..., rows, :], v[..., rows, :], Causal(2, 3, start // 2), past
        )
        assert past.key.shape[-2] == 4  # from the start, so that shapes stay
        first = max(start - 2, 0)
        for kept, seen in ((past.key, k), (past.value, v)):
            last = kept[..., first - start - 2 :, :]
            torch.testing.assert_close(last, seen[..., first : start + 2, :])


@pytest.mark.parametrize("case", CASES)
def test_kernels_say_whether_they_treat_each_query_on_its_own(case: str) -> None:
    kernel, (q, k, v) = make(CASES[case]), tokens()
    if "other_keys" not in kernel.supports:  # which they then cannot
        assert "some_queries" not in kernel.supports
        return
    alone = apply(kernel, q[..., 4:5, :], k, v)
    same = torch.allclose(alone, apply(kernel, q, k, v)[..., 4:5, :], atol=1e-10)
    assert same == ("some_queries" in kernel.supports)


def test_unsupported_arguments_are_named() -> None:
    q, k, v = tokens()
    assert all(kernel(D) for name, kernel in KERNELS.items() if name != "linformer")
    with pytest.raises(ValueError, match=r"LinearKernel.*dropout must be 0, got 0\.1"):
        KERNELS.build("linear", head_dim=D, dropout=0.1)
    with pytest.raises(ValueError, match=r"mask of keys.*\(9, 9\)"):
        KERNELS.build("linear", head_dim=D)(q, k, v, torch.ones(S, S, dtype=torch.bool))
    with pytest.raises(ValueError, match="LaraKernel takes no mask"):
        KERNELS.build("lara", head_dim=D)(q, k, v, torch.ones(1, S, dtype=torch.bool))
    with pytest.raises(ValueError, match="needs 9 keys, as many as queries, got 5"):
        KERNELS.build("cosformer", head_dim=D)(q, k[..., :5, :], v[..., :5, :])
