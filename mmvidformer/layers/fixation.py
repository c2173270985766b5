"""Feature fixation: gates on queries and keys, applied before the attention.

=============  ================================================  ==================
name           gate of q, gate of k (sigmoid of a linear layer)  paper, table 4
=============  ================================================  ==================
separate       from q, from k                                    Q, K, Sep. (eq. 4)
qk             from (q, k), another from (q, k)                  Q, K, Coo.
qk_shared      one from (q, k) for both                          Q, K, Coo., FS
qkv            from (q, k, v), another from (q, k, v)            Q, K, V, Coo.
qkv_shared     one from (q, k, v) for both                       Q, K, V, Coo., FS
=============  ================================================  ==================
"""

from collections.abc import Callable
from functools import reduce

import torch
from torch import Tensor, nn

from mmvidformer.lookup import look_up

# For each gate, letters of what it is applied to: letters of what it is computed from.
FIXATIONS: dict[str, dict[str, str]] = {
    "separate": {"q": "q", "k": "k"},
    "qk": {"q": "qk", "k": "qk"},
    "qk_shared": {"qk": "qk"},
    "qkv": {"q": "qkv", "k": "qkv"},
    "qkv_shared": {"qk": "qkv"},
}

COMBINATIONS: dict[str, Callable[[list[Tensor]], Tensor]] = {
    "concat": lambda parts: torch.cat(parts, dim=-1),
    "add": lambda parts: reduce(torch.add, parts),
    "multiply": lambda parts: reduce(torch.mul, parts),
}


class Fixation(nn.Module):
    """Weight the features of queries and keys, ``q * g`` and ``k * g``, with g in (0, 1).

    ``g = sigmoid(W [q; k; v] + b)``: feature fixation, eq. 4 and 5. It reads queries and keys after
    the kernel's feature map (ReLU in the paper), and values as they are. W maps up to 3d numbers of
    a head to d and is shared by the heads, as in the official code and the paper's counts. The text
    has D x D weights (below eq. 4), where D is the width of all heads: ``joint_heads``.

    Args:
        dim: Token width D.
        num_heads: Number n of heads, of width d = D / n.
        name: A name in ``FIXATIONS``.
        combine: How a gate combines its inputs: ``'concat'``, ``'add'`` or ``'multiply'``.
        joint_heads: Whether a gate reads and weights the features of all heads together. W then
            maps up to 3D numbers to D.

    Raises:
        KeyError: If the name or the combination is unknown.
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        name: str = "qkv_shared",
        combine: str = "concat",
        joint_heads: bool = False,
    ) -> None:
        super().__init__()
        self.name = name
        self.joint_heads = joint_heads
        width = dim if joint_heads else dim // num_heads
        self.combine = look_up(tuple(COMBINATIONS), combine, "combination")
        self.gates = nn.ModuleDict()
        for weighted, read in look_up(FIXATIONS, name, "fixation").items():
            parts = len(read) if combine == "concat" else 1
            self.gates[weighted] = nn.Linear(parts * width, width)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Gate queries and keys, (..., n, d) each; values pass unchanged."""
        tokens, shape = {"q": q, "k": k, "v": v}, q.shape
        if self.joint_heads:
            tokens = {letter: x.flatten(-2) for letter, x in tokens.items()}
        gated = dict(tokens)
        for weighted, letters in FIXATIONS[self.name].items():
            inputs = COMBINATIONS[self.combine]([tokens[letter] for letter in letters])
            gate = self.gates[weighted](inputs).sigmoid()
            for letter in weighted:
                gated[letter] = tokens[letter] * gate
        if self.joint_heads:
            return gated["q"].view(shape), gated["k"].view(shape), v
        return gated["q"], gated["k"], v

    def extra_repr(self) -> str:
        """Show the settings in the printed model."""
        joint = ", joint_heads=True" if self.joint_heads else ""
        return f"{self.name}, {self.combine}{joint}"
