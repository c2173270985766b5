import torch.nn.functional as F
from torch import Tensor, nn

from mmvidformer.lookup import Registry, look_up


class QuickGELU(nn.Module):
    """GELU by the logistic function, ``x sigmoid(1.702 x)`` (OpenAI's CLIP)."""

    def forward(self, x: Tensor) -> Tensor:
        """Map each element."""
        return x * (1.702 * x).sigmoid()


ACTIVATIONS = {
    "gelu": nn.GELU,
    "gelu_tanh": lambda: nn.GELU(approximate="tanh"),
    "quick_gelu": QuickGELU,
}


class DepthwiseConv(nn.Module):
    """A 3 x 3 depthwise convolution of D channels within each frame, with zero padding."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(dim, dim, kernel_size=3, padding=1, groups=dim)

    def forward(self, grid: Tensor) -> Tensor:
        """Convolve tokens (B, T, H, W, D)."""
        frames = self.conv(grid.flatten(0, 1).permute(0, 3, 1, 2))
        return frames.permute(0, 2, 3, 1).unflatten(0, grid.shape[:2])


class Mlp(nn.Sequential):
    """Two linear layers with an activation in between, applied to each token (..., D).

    They run in the order in which they are set. An option that is off has no layer.

    Args:
        dim: Token width D.
        hidden_dim: Width of the hidden layer.
        act: Activation: ``'gelu'`` (exact, by erf; timm and TimeSformer), ``'gelu_tanh'`` (flax
            and ViViT) or ``'quick_gelu'`` (CLIP).
        drop: Dropout rate after the activation and after the second layer.
        depthwise: Whether to apply a 3 x 3 depthwise convolution to each frame before the
            activation (PVT v2, and the official code of feature fixation). The tokens must then be
            a grid.

    Raises:
        KeyError: If the activation is unknown.
    """

    def __init__(
        self,
        dim: int,
        hidden_dim: int,
        act: str = "gelu",
        drop: float = 0.0,
        depthwise: bool = False,
    ) -> None:
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden_dim)
        if depthwise:
            self.depthwise = DepthwiseConv(hidden_dim)
        self.act = look_up(ACTIVATIONS, act, "activation")()
        if drop:
            self.hidden_drop = nn.Dropout(drop)
        self.fc2 = nn.Linear(hidden_dim, dim)
        if drop:
            self.drop = nn.Dropout(drop)


class Gate(nn.Module):
    """Map two halves of the channels to one, ``silu(first) * second``."""

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., 2 h) to (..., h)."""
        first, second = x.chunk(2, dim=-1)
        return F.silu(first) * second


class SwiGLU(Mlp):
    """An MLP with a gated hidden layer, ``fc2(silu(W x) * V x)`` (Shazeer 2020).

    Args:
        dim: Token width D.
        hidden_dim: Width h of the hidden layer after the gate; W and V are the rows of ``fc1``.
        drop: Dropout rate after the gate and after the second layer.
        norm: Whether to apply a layer norm (epsilon 1e-6) to the hidden layer (EVA-02).
    """

    def __init__(self, dim: int, hidden_dim: int, drop: float = 0.0, norm: bool = False) -> None:
        super().__init__(dim, hidden_dim, drop=drop)
        self.fc1 = nn.Linear(dim, 2 * hidden_dim)
        self.act = nn.Sequential(Gate())
        if norm:
            self.act.append(nn.LayerNorm(hidden_dim, eps=1e-6))


MLPS: Registry[nn.Module] = Registry("MLP", {"mlp": Mlp, "swiglu": SwiGLU}, nn.Module)
