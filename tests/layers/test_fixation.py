import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from mmvidformer.layers import FIXATIONS, KERNELS, Attention, Context, Fixation, Grid
from tests.layers.pairs import project

D, HEADS = 4, 5


def tokens() -> list[Tensor]:
    torch.manual_seed(1)
    return [torch.randn(2, 3, HEADS, D) for _ in range(3)]


def by_hand(gate: torch.nn.Linear, *read: Tensor) -> Tensor:
    return torch.sigmoid(F.linear(torch.cat(read, -1), gate.weight, gate.bias))


# Inputs of the gate of q and of the gate of k; shared schemes have a single gate.
READ = {
    "separate": ("q", "k"),
    "qk": ("qk", "qk"),
    "qk_shared": ("qk", "qk"),
    "qkv": ("qkv", "qkv"),
    "qkv_shared": ("qkv", "qkv"),
}


@pytest.mark.parametrize("scheme", FIXATIONS)
def test_each_scheme_is_its_row(scheme: str) -> None:
    fixation = Fixation(HEADS * D, HEADS, scheme)
    assert set(fixation.gates) == ({"qk"} if scheme.endswith("shared") else {"q", "k"})
    q, k, v = tokens()
    named = {"q": q, "k": k, "v": v}
    gates = [fixation.gates["qk" if scheme.endswith("shared") else name] for name in "qk"]
    expected = [
        x * by_hand(gate, *(named[letter] for letter in read))
        for x, gate, read in zip((q, k), gates, READ[scheme], strict=True)
    ]
    out = fixation(q, k, v)
    torch.testing.assert_close(out, (*expected, v))


@pytest.mark.parametrize(("combine", "joined"), [("add", torch.add), ("multiply", torch.mul)])
def test_other_combinations(combine: str, joined: object) -> None:
    fixation = Fixation(HEADS * D, HEADS, "qkv_shared", combine)
    assert fixation.gates["qk"].in_features == D
    q, k, v = tokens()
    ratio = by_hand(fixation.gates["qk"], joined(joined(q, k), v))
    torch.testing.assert_close(fixation(q, k, v), (q * ratio, k * ratio, v))


def test_gates_raise_the_share_of_the_important_key() -> None:
    """The toy example of appendix A.2: products a and b of a query with two keys, weighted by m."""
    a, b, weights = 0.6, 0.5, torch.tensor([0.2, 0.9])
    queries, keys = torch.ones(2, 2), torch.tensor([[a, 0.0], [0.0, b]])
    fixation = Fixation(2, 1, "separate")
    for parameter in fixation.parameters():
        torch.nn.init.zeros_(parameter)
    fixation.gates["k"].bias.data = weights.logit()
    fixation.gates["q"].bias.data = torch.full((2,), torch.inf)  # queries stay as they are
    kernel = KERNELS.build({"type": "linear", "offset": False, "eps": 0.0}, head_dim=2)
    q, k, v = (x[None, :, None] for x in (queries, keys, torch.eye(2)))  # (1, tokens, 1 head, 2)
    shares = []
    for q_gated, k_gated in ((q, k), fixation(q, k, v)[:2]):
        heads_first = (x.transpose(1, 2) for x in (q_gated, k_gated, v))
        shares.append(kernel(*heads_first, None)[0, 0, 0, 1].item())
    plain, gated = shares
    m_1, m_2 = weights.tolist()
    assert plain == pytest.approx(b / (a + b))
    assert gated == pytest.approx(m_2 * b / (m_1 * a + m_2 * b))
    assert gated > plain


def test_parameters_of_the_published_gate() -> None:
    """Eq. 5, for a head: from 192 numbers of q, k and v to 64."""
    assert sum(p.numel() for p in Fixation(512, 8).parameters()) == 12352


def test_gates_come_after_the_feature_map() -> None:
    """Eq. 4 and 5 gate relu(q), and so does the official code."""
    attn = Attention(8, 2, kernel="linear", fixation="qkv_shared")
    grid = torch.randn(1, 2, 3, 2, 8)
    q, k, v = attn.qkv(grid).unflatten(-1, (3, 2, D)).unbind(-3)
    q, k = F.relu(q) + D**-0.5, F.relu(k) + D**-0.5
    ratio = by_hand(attn.prepare["fixation"].gates["qk"], q, k, v)
    prepared, _ = project(attn, grid)
    torch.testing.assert_close(prepared, (q * ratio, k * ratio, v))


def test_gates_of_queries_and_keys_before_the_feature_map() -> None:
    """Footnote 3: the gates read and weight q and k as projected."""
    kernel = {"type": "linear", "offset": False, "map_last": True}
    attn = Attention(8, 2, kernel=kernel, fixation="separate")
    grid = torch.randn(1, 2, 3, 2, 8)
    q, k, v = attn.qkv(grid).unflatten(-1, (3, 2, D)).unbind(-3)
    gates = attn.prepare["fixation"].gates
    q, k = q * by_hand(gates["q"], q), k * by_hand(gates["k"], k)
    prepared, _ = project(attn, grid)
    torch.testing.assert_close(prepared, (q, k, v))
    order = Grid(2, 3, 2)
    out = attn.mix(*(x.flatten(1, 3) for x in prepared), Context(order)).unflatten(1, order.size)
    weights = torch.einsum("bthwnd,bxyznd->bnthwxyz", q.relu(), k.relu()).flatten(5)
    weights = weights / (weights.sum(-1, keepdim=True) + 1e-6)
    expected = torch.einsum("bnthws,bsnd->bthwnd", weights, v.flatten(1, 3)).flatten(4)
    torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("scheme", ["separate", "qkv_shared"])
def test_a_gate_of_all_heads_has_the_weights_of_equation_4(scheme: str) -> None:
    fixation = Fixation(HEADS * D, HEADS, scheme, joint_heads=True)
    q, k, v = tokens()
    wide = {"q": q.flatten(-2), "k": k.flatten(-2), "v": v.flatten(-2)}
    read = READ[scheme]
    gates = [fixation.gates["qk" if scheme.endswith("shared") else name] for name in "qk"]
    assert gates[0].weight.shape == (HEADS * D, len(read[0]) * HEADS * D)
    expected = [
        (wide[name] * by_hand(gate, *(wide[letter] for letter in letters))).view_as(q)
        for name, gate, letters in zip("qk", gates, read, strict=True)
    ]
    torch.testing.assert_close(fixation(q, k, v), (*expected, v))


def test_class_token_is_gated_too() -> None:
    attn = Attention(8, 2, fixation="separate")
    cls = torch.randn(1, 1, 8)
    _, prepared = project(attn, torch.randn(1, 1, 1, 1, 8), cls)
    as_grid, _ = project(attn, cls[:, :, None, None])
    torch.testing.assert_close(prepared, tuple(x[:, :, 0, 0] for x in as_grid))


def test_wrong_names_are_named() -> None:
    with pytest.raises(KeyError, match="all.*qkv_shared"):
        Fixation(D, 1, "all")
    with pytest.raises(KeyError, match="mean.*concat"):
        Fixation(D, 1, combine="mean")
