from math import log

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvidformer.layers.block import TransformerBlock
from mmvidformer.layers.config import Choice, EncoderConfig
from mmvidformer.layers.kernels import SoftmaxKernel
from mmvidformer.layers.mlp import Mlp
from mmvidformer.layers.norm import NORMS
from mmvidformer.layers.tokens import Context, Grid
from mmvidformer.lookup import Registry


class AttentivePooling(nn.Module):
    """Pool tokens by the attention of a learned query (Bardes et al. 2024, V-JEPA).

    Blocks of self-attention, if any, and then ``q = q + attention(q, norm(tokens))`` without output
    projection and ``q = q + mlp(norm(q))``. Hidden layers of the MLPs are 4 D wide.

    Args:
        dim: Token width D.
        num_heads: Number of attention heads.
        depth: Number of blocks of self-attention before. V-JEPA 2's classifiers have 3.
        norm: Norm, as in ``EncoderConfig``.
    """

    def __init__(self, dim: int, num_heads: int, depth: int = 0, norm: Choice = "layer") -> None:
        super().__init__()
        config = EncoderConfig(embed_dims=dim, num_heads=num_heads, norm=norm)
        self.blocks = nn.ModuleList(TransformerBlock(config) for _ in range(depth))
        self.num_heads = num_heads
        self.query = nn.Parameter(nn.init.trunc_normal_(torch.empty(1, 1, dim), std=0.02))
        self.norm = NORMS.build(norm, normalized_shape=dim)
        self.q, self.kv = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim)
        self.kernel = SoftmaxKernel(dim // num_heads)
        self.mlp_norm = NORMS.build(norm, normalized_shape=dim)
        self.mlp = Mlp(dim, 4 * dim)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens (B, ..., D) to features (B, D)."""
        tokens = tokens.flatten(1, -2)
        context = Context(Grid(1, 1, tokens.shape[1]))
        for block in self.blocks:
            tokens = block(tokens, context)
        tokens = self.norm(tokens)
        q = self.q(self.query).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k, v = self.kv(tokens).unflatten(-1, (2, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        pooled = self.kernel(q.expand(k.shape[0], -1, -1, -1), k, v)  # (B, n, 1, d)
        query = self.query + pooled.transpose(1, 2).flatten(2)
        return (query + self.mlp(self.mlp_norm(query)))[:, 0]


class ScaledPooling(nn.Module):
    """Pool tokens by the attention of a learned query with scaled channels (VideoPrism).

    Channel c of the projected query is multiplied by ``softplus(s_c) / log(2)``, which is 1 at
    first, with a learned s that the heads share. The heads are together 4 D wide; their output is
    projected to D and normalized.

    Args:
        dim: Token width D.
        num_heads: Number of attention heads.
        norm: Norm, as in ``EncoderConfig``.
    """

    def __init__(self, dim: int, num_heads: int, norm: Choice = "layer") -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query = nn.Parameter(nn.init.trunc_normal_(torch.empty(1, 1, dim), std=0.02))
        self.q, self.kv = nn.Linear(dim, 4 * dim), nn.Linear(dim, 8 * dim)
        self.scale = nn.Parameter(torch.zeros(4 * dim // num_heads))
        self.kernel = SoftmaxKernel(4 * dim // num_heads)
        self.proj = nn.Linear(4 * dim, dim)
        self.norm = NORMS.build(norm, normalized_shape=dim)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens (B, ..., D) to features (B, D)."""
        tokens = tokens.flatten(1, -2)
        q = self.q(self.query).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        q = q * (F.softplus(self.scale) / log(2))
        k, v = self.kv(tokens).unflatten(-1, (2, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        pooled = self.kernel(q.expand(k.shape[0], -1, -1, -1), k, v)  # (B, n, 1, d)
        return self.norm(self.proj(pooled.transpose(1, 2).flatten(2)))[:, 0]


class ProbePooling(nn.Module):
    """Pool tokens by multi-head attention of a learned query and an MLP (SigLIP).

    ``x = attention(query, tokens)`` with an output projection, then ``x + mlp(norm(x))``.

    Args:
        dim: Token width D.
        num_heads: Number of attention heads.
        norm: Norm, as in ``EncoderConfig``.
        mlp_ratio: Hidden width of the MLP over D.
        act: Activation of the MLP (``layers.mlp``).
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        norm: Choice = "layer",
        mlp_ratio: float = 4.0,
        act: str = "gelu_tanh",
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query = nn.Parameter(nn.init.trunc_normal_(torch.empty(1, 1, dim), std=0.02))
        self.q, self.kv = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim)
        self.kernel = SoftmaxKernel(dim // num_heads)
        self.proj = nn.Linear(dim, dim)
        self.norm = NORMS.build(norm, normalized_shape=dim)
        self.mlp = Mlp(dim, int(dim * mlp_ratio), act)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens (B, ..., D) to features (B, D)."""
        tokens = tokens.flatten(1, -2)
        q = self.q(self.query).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k, v = self.kv(tokens).unflatten(-1, (2, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        pooled = self.kernel(q.expand(k.shape[0], -1, -1, -1), k, v)  # (B, n, 1, d)
        x = self.proj(pooled.transpose(1, 2).flatten(2))[:, 0]
        return x + self.mlp(self.norm(x))


class MeanQueryPooling(nn.Module):
    """Pool tokens by multi-head attention of their mean (InternVideo).

    The mean, and the tokens as keys and as values, have a norm each; InternVideo's have an epsilon
    of 1e-5.

    Args:
        dim: Token width D.
        num_heads: Number of attention heads.
        norm: Norm, as in ``EncoderConfig``.
        out_dim: Width of the features. Default: D.
    """

    def __init__(
        self, dim: int, num_heads: int, norm: Choice = "layer", out_dim: int | None = None
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query_norm, self.key_norm, self.value_norm = (
            NORMS.build(norm, normalized_shape=dim) for _ in range(3)
        )
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))
        self.kernel = SoftmaxKernel(dim // num_heads)
        self.proj = nn.Linear(dim, out_dim or dim)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens (B, ..., D) to features (B, out_dim)."""
        tokens = tokens.flatten(1, -2)
        q = self.q(self.query_norm(tokens.mean(dim=1, keepdim=True)))
        k, v = self.k(self.key_norm(tokens)), self.v(self.value_norm(tokens))
        q, k, v = (x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for x in (q, k, v))
        return self.proj(self.kernel(q, k, v).transpose(1, 2).flatten(2))[:, 0]


POOLINGS: Registry[nn.Module] = Registry(
    "pooling",
    {
        "vjepa": AttentivePooling,
        "videoprism": ScaledPooling,
        "siglip": ProbePooling,
        "internvideo": MeanQueryPooling,
    },
    nn.Module,
)
