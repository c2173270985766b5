"""Each kernel compared with a dense evaluation of its formula, and their common properties."""

import logging
import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Independent, Normal
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from mmvidformer.layers import KERNELS, build_kernel
from mmvidformer.layers.kernels.linear import FEATURE_MAPS

D, S = 6, 9

# name: kernel and options
CASES = {
    "linear relu": {"type": "linear"},
    "linear relu no offset": {"type": "linear", "offset": False, "eps": 1e-3},
    "linear elu": {"type": "linear", "feature": "elu"},
    "linear sigmoid offset": {"type": "linear", "feature": "sigmoid", "offset": True},
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
    return build_kernel(options, head_dim=D).double().eval()


def apply(kernel: nn.Module, q: Tensor, k: Tensor, v: Tensor, **kwargs: Tensor) -> Tensor:
    if kernel.feature_map:
        q, k, v = kernel.feature_map(q, k, v)
    return kernel(q, k, v, **kwargs)


def tokens(length: int = S, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    torch.manual_seed(1)
    return [torch.randn(2, 3, length, D, dtype=dtype, requires_grad=True) for _ in range(3)]


# Weights (S, S') of one head, with weights @ v as the output; one pair of tokens at a time if the
# formula is a sum over pairs.


def linear_weights(kernel: nn.Module, q: Tensor, k: Tensor) -> Tensor:
    function, offset = FEATURE_MAPS[kernel.feature_map.name], kernel.feature_map.offset
    weights = torch.stack(
        [torch.stack([(function(a) + offset) @ (function(b) + offset) for b in k]) for a in q]
    )
    return weights / (weights.sum(1, keepdim=True) + kernel.eps)


def cosformer_weights(kernel: nn.Module, q: Tensor, k: Tensor) -> Tensor:
    place = torch.arange(len(q)).double()
    distance = place[:, None] - place
    weights = F.relu(q) @ F.relu(k).T * torch.cos(math.pi / 2 * distance / len(q))
    return weights / weights.sum(1, keepdim=True).clamp_min(1e-6)


def performer_weights(kernel: nn.Module, q: Tensor, k: Tensor) -> Tensor:
    def exponents(x: Tensor) -> Tensor:
        x = x / D**0.25
        return torch.stack(
            [torch.stack([w @ row - row @ row / 2 for w in kernel.directions]) for row in x]
        )

    q, k = exponents(q), exponents(k)
    q = (q - q.amax(1, keepdim=True).detach()).exp() + kernel.eps
    k = (k - k.max().detach()).exp() + kernel.eps
    weights = q @ k.T / kernel.num_features
    return weights / weights.sum(1, keepdim=True)


def linformer_weights(kernel: nn.Module, q: Tensor, k: Tensor) -> Tensor:
    def resized(x: Tensor) -> Tensor:
        made_for, columns = x.shape[1], []
        for j in range(len(k)):
            at = j * (made_for - 1) / (len(k) - 1)
            low = min(int(at), made_for - 2)
            columns.append(x[:, low] * (low + 1 - at) + x[:, low + 1] * (at - low))
        return torch.stack(columns, 1) * (made_for / len(k))

    return (q @ (resized(kernel.keys) @ k).T / D**0.5).softmax(-1) @ resized(kernel.values)


def orthoformer_weights(kernel: nn.Module, q: Tensor, k: Tensor) -> Tensor:
    q, k = q / D**0.25, k / D**0.25
    chosen = [0]
    while len(chosen) < min(kernel.num_landmarks, len(q)):
        worst = {
            i: max(abs(F.cosine_similarity(q[i], q[j], dim=0).item()) for j in chosen)
            for i in range(len(q))
            if i not in chosen
        }
        chosen.append(min(worst, key=worst.get))
    landmarks = q[chosen].detach()
    return (q @ landmarks.T).softmax(-1) @ (landmarks @ k.T).softmax(-1)


def lara_weights(kernel: nn.Module, q: Tensor, k: Tensor) -> Tensor:
    def pooled(x: Tensor) -> Tensor:
        count = kernel.num_samples
        edges = [(i * len(x) // count, -(-(i + 1) * len(x) // count)) for i in range(count)]
        return torch.stack([x[a:b].mean(0) for a, b in edges])

    def standard_normal_ratio(w: Tensor, mean: Tensor) -> Tensor:
        def density(center: Tensor) -> Independent:
            return Independent(Normal(center, torch.ones_like(center)), 1)

        return (density(mean).log_prob(w) - density(torch.zeros_like(mean)).log_prob(w)).exp()

    query_mean, key_mean = kernel.query_proposal(pooled(q)), kernel.key_proposal(pooled(k))
    means = (query_mean + key_mean) / D**0.25
    fit = (q @ query_mean.T / D**0.5).softmax(1)
    rows, xi_k = [], []
    for w in means:
        xi_k.append((k / D**0.25 @ w - k.square().sum(1) / D**0.5 / 2).exp())
    for n in range(len(q)):
        x = q[n] / D**0.25
        row = 0.0
        total = 0.0
        for c, w in enumerate(means):
            ratios = torch.stack([standard_normal_ratio(w, mean) for mean in means])
            share = (ratios[c] / ratios.sum() + fit[n, c] - fit[n].mean()).clamp_min(1e-8)
            weight = share * (w @ x - x @ x / 2).exp() / ratios[c] * xi_k[c].sum()
            row = row + weight * xi_k[c] / xi_k[c].sum()
            total = total + weight
        rows.append(row / total)
    return torch.stack(rows)


WEIGHTS: dict[str, Callable[[nn.Module, Tensor, Tensor], Tensor]] = {
    "linear": linear_weights,
    "cosformer": cosformer_weights,
    "performer": performer_weights,
    "linformer": linformer_weights,
    "orthoformer": orthoformer_weights,
    "lara": lara_weights,
}


def dense(kernel: nn.Module, name: str, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    outs = [
        WEIGHTS[name](kernel, q[b, h], k[b, h]) @ v[b, h]
        for b in range(q.shape[0])
        for h in range(q.shape[1])
    ]
    return torch.stack(outs).unflatten(0, q.shape[:2])


def test_every_kernel_has_a_case() -> None:
    assert {options["type"] for options in CASES.values()} | {"softmax"} == set(KERNELS)


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
    expected = kernel(*(x.float() for x in half)).bfloat16()
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
    torch.testing.assert_close(kernel.eval()(*inputs), kernel(*inputs), atol=0, rtol=0)


@pytest.mark.parametrize("case", ["linear relu", "performer", "orthoformer", "softmax"])
def test_masked_keys_have_no_effect(case: str) -> None:
    kernel = make(CASES.get(case, {"type": case}))
    q, k, v = tokens()
    mask = torch.tensor([True] * 5 + [False] * 4)
    out = apply(kernel, q, k, v, mask=mask.expand(2, 1, 1, S))
    torch.testing.assert_close(out, apply(kernel, q, k[..., :5, :], v[..., :5, :]))


def test_masked_keys_do_not_overflow_performer() -> None:
    """A masked zero key has a much larger exponent than the long keys."""
    kernel = make(CASES["performer"]).float()
    q, k, v = tokens(dtype=torch.float32)
    long = torch.cat([100 * F.normalize(k[..., :5, :], dim=-1), 0 * k[..., 5:, :]], dim=-2)
    mask = torch.tensor([True] * 5 + [False] * 4).expand(2, 1, 1, S)
    out = kernel(q, long, v, mask=mask)
    assert out.isfinite().all()
    grads = torch.autograd.grad(out.square().sum(), (q, k, v))
    assert all(grad.isfinite().all() for grad in grads)


def test_masked_keys_count_as_zero_for_linformer() -> None:
    kernel = make(CASES["linformer"])
    q, k, v = tokens()
    mask = torch.tensor([True] * 5 + [False] * 4)
    zero = (~mask)[:, None]
    expected = kernel(q, k.masked_fill(zero, 0), v.masked_fill(zero, 0))
    torch.testing.assert_close(kernel(q, k, v, mask=mask.expand(2, 1, 1, S)), expected)


def test_linformer_loads_weights_of_another_length(caplog: pytest.LogCaptureFixture) -> None:
    short = make(CASES["linformer resized"])
    longer = make(CASES["linformer"])
    with caplog.at_level(logging.WARNING, "mmvidformer"):
        longer.load_state_dict(short.state_dict())
    assert "projection keys of length 5 was resized to 9" in caplog.text
    inputs = tokens()
    torch.testing.assert_close(longer(*inputs), short(*inputs))


class LargestTensor(TorchDispatchMode):
    """Records the size of the largest result of any operator."""

    def __init__(self) -> None:
        super().__init__()
        self.size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, tuple | list) else [out]:
            self.size = max(self.size, x.numel() if isinstance(x, Tensor) else 0)
        return out


@pytest.mark.parametrize("name", sorted(set(KERNELS) - {"softmax"}))
def test_cost_is_linear_in_the_tokens(name: str) -> None:
    options = {"linformer": {"length": 64, "rank": 16}, "lara": {"num_samples": 16},
               "orthoformer": {"num_landmarks": 8}}  # fmt: skip
    kernel = build_kernel({"type": name, **options.get(name, {})}, head_dim=D).eval()
    cost = []
    for length in (256, 512):
        x = torch.randn(1, 1, length, D)
        with FlopCounterMode(display=False) as flops, LargestTensor() as largest:
            kernel(x, x, x)
        cost.append((flops.get_total_flops(), largest.size))
    assert cost[1][0] < 2.05 * cost[0][0]
    assert cost[1][1] <= 2 * cost[0][1] < 512 * 512


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"type": "hard"}, KeyError, "hard.*cosformer.*softmax"),
        ({"type": "linear", "feature": "tanh"}, KeyError, "tanh.*relu"),
        ({"type": "linformer"}, TypeError, "'length'"),
        ({"type": "linformer", "length": 9, "rank": 0}, ValueError, "rank of Linformer.* 1, got 0"),
        ({"type": "performer", "num_features": 0}, ValueError, "num_features of .* 1, got 0"),
        ({"type": "orthoformer", "num_landmarks": -1}, ValueError, "num_landmarks .* got -1"),
        ({"type": "lara", "num_samples": 0}, ValueError, "num_samples of LaraKernel .* got 0"),
    ],
)
def test_wrong_options_are_named(options: dict, error: type, match: str) -> None:
    with pytest.raises(error, match=match):
        build_kernel(options, head_dim=D)


def test_unsupported_arguments_are_named() -> None:
    q, k, v = tokens()
    with pytest.raises(ValueError, match=r"LinearKernel.*dropout must be 0, got 0\.1"):
        build_kernel("linear", D, dropout=0.1)
    with pytest.raises(ValueError, match=r"mask of keys.*\(9, 9\)"):
        build_kernel("linear", D)(q, k, v, torch.ones(S, S, dtype=torch.bool))
    with pytest.raises(ValueError, match="LaraKernel takes no mask"):
        build_kernel("lara", D)(q, k, v, torch.ones(1, S, dtype=torch.bool))
    with pytest.raises(ValueError, match="needs 9 keys, as many as queries, got 5"):
        build_kernel("cosformer", D)(q, k[..., :5, :], v[..., :5, :])
