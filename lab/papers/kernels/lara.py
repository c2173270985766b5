import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvidformer.layers import KERNELS
from mmvidformer.layers.kernels.base import LinearCostKernel


@KERNELS.register("lara")
class LaraKernel(LinearCostKernel):
    """Linear randomized attention (LARA), a self-normalized estimate of softmax attention.

    With x' = x d^-1/4, ``log xi(x, w) = w.x' - |x'|^2 / 2`` and proposals N(mu_c, I), whose density
    relative to N(0, I) is ``log r_c(w) = w.mu_c - |mu_c|^2 / 2``::

        y_n = sum_c softmax_c(log a_nc + log xi(q_n, w_c) + L_c - log r_c(w_c)) f_c
        L_c = logsumexp_m log xi(k_m, w_c),  f_c = softmax_m(log xi(k_m, w_c)) v
        a_nc = r_c(w_c) / sum_c' r_c'(w_c) + t_nc - mean_c t_nc  (at least 1e-8)
        t_nc = softmax_c(qb_c.q_n / sqrt(d))

    qb and kb are a linear layer and a norm on average-pooled queries and keys, and
    ``mu = (qb + kb) d^-1/4``. w_c is drawn from its proposal in training and is mu_c in evaluation.
    Zheng et al. 2022, section 4. The official code also scales the noise by ``d^-1/4``, so its
    samples are narrower than the densities that weight them; in evaluation there is no difference.

    A sequence is pooled into runs of nearly equal length (official code: an image, to 7 x 7).
    Groups with fewer tokens than samples use one sample per token.

    Args:
        num_samples: Number of proposals and samples R.
    """

    supports = frozenset({"other_keys", "rotary"})

    def __init__(self, head_dim: int, dropout: float = 0.0, num_samples: int = 49) -> None:
        super().__init__(head_dim, dropout, num_samples=num_samples)
        self.num_samples = num_samples
        self.query_proposal = _proposal(head_dim)
        self.key_proposal = _proposal(head_dim)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        """Attend; see ``forward``."""
        scale = self.head_dim**-0.25
        count = min(self.num_samples, q.shape[-2], k.shape[-2])
        query_mean = _propose(self.query_proposal, q, count)  # (..., R, d)
        mean = (query_mean + _propose(self.key_proposal, k, count)) * scale
        w = mean + torch.randn_like(mean) if self.training else mean

        log_q, log_k = (_log_xi(x * scale, w) for x in (q, k))  # (..., R, S), (..., R, S')
        log_r = _log_xi(mean, w)  # (..., R samples, R proposals)
        log_own = log_r.diagonal(dim1=-1, dim2=-2)[..., None]
        fit = (query_mean @ q.transpose(-1, -2) * self.head_dim**-0.5).softmax(dim=-2)
        balance = (log_own - log_r.logsumexp(dim=-1, keepdim=True)).exp()
        log_a = (balance + fit - fit.mean(dim=-2, keepdim=True)).clamp_min(1e-8).log()

        weights = (log_a + log_q + log_k.logsumexp(dim=-1, keepdim=True) - log_own).softmax(dim=-2)
        return weights.transpose(-1, -2) @ (log_k.softmax(dim=-1) @ v)


def _proposal(head_dim: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(head_dim, head_dim), nn.LayerNorm(head_dim))


def _propose(proposal: nn.Sequential, x: Tensor, count: int) -> Tensor:
    """Average x (..., S, d) over ``count`` runs of the sequence, and map the means."""
    flat = x.flatten(0, -3).transpose(-1, -2)  # (rows, d, S)
    means = F.adaptive_avg_pool1d(flat, count).transpose(-1, -2).unflatten(0, x.shape[:-2])
    return proposal(means.to(next(proposal.parameters()).dtype)).to(x.dtype)  # may be half


def _log_xi(x: Tensor, w: Tensor) -> Tensor:
    """Return ``w.x - |x|^2 / 2`` of all pairs of w (..., R, d) and x (..., S, d): (..., R, S)."""
    return w @ x.transpose(-1, -2) - x.square().sum(dim=-1)[..., None, :] / 2
