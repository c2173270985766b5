"""The optimizer of the quick start."""

from collections.abc import Callable
from functools import partial

import torch
from timm.optim import muon
from torch import Tensor


class CpuMuon(muon.Muon):
    """timm's Muon, with updates that are orthogonalized in float32 on a CPU.

    timm does it in bfloat16, which processors without AVX-512 emulate, at 20 times the cost. Its
    function has an argument for the type, which its optimizer does not pass on; so the function has
    another default while a step runs. Arguments are those of ``timm.optim.Muon``.
    """

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update the parameters; returns the loss of ``closure``."""
        original = muon.zeropower_via_newtonschulz
        muon.zeropower_via_newtonschulz = partial(_orthogonalize, original)
        try:
            return super().step(closure)
        finally:
            muon.zeropower_via_newtonschulz = original


def _orthogonalize(original: Callable[..., Tensor], update: Tensor, *args, **options) -> Tensor:
    if update.device.type == "cpu":
        options.setdefault("dtype", torch.float32)
    return original(update, *args, **options)
