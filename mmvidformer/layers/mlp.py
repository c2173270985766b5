"""The feed-forward part of a block."""

from torch import Tensor, nn

ACTIVATIONS = {
    "gelu": nn.GELU,
    "gelu_tanh": lambda: nn.GELU(approximate="tanh"),
}


class Mlp(nn.Module):
    """Two linear layers with an activation between, applied to each token.

    Args:
        dim: Token width D.
        hidden_dim: Width of the hidden layer.
        act: ``'gelu'`` (exact, by erf: timm, TimeSformer) or ``'gelu_tanh'`` (flax: ViViT).
        drop: Dropout after either layer.

    Raises:
        KeyError: If the activation is unknown.
    """

    def __init__(self, dim: int, hidden_dim: int, act: str = "gelu", drop: float = 0.0) -> None:
        super().__init__()
        if act not in ACTIVATIONS:
            raise KeyError(f"no activation named {act!r}; known are {sorted(ACTIVATIONS)}")
        self.fc1 = nn.Linear(dim, hidden_dim)
        self.act = ACTIVATIONS[act]()
        self.fc2 = nn.Linear(hidden_dim, dim)
        self.drop = nn.Dropout(drop)

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., D) to (..., D)."""
        return self.drop(self.fc2(self.drop(self.act(self.fc1(x)))))
