from collections.abc import Iterator
from contextlib import contextmanager

import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.optim import OptimWrapper
from torch import nn

from mmvidformer.registry import OPTIM_WRAPPERS

BF16_WRAPPER = "mmvidformer.Bf16OptimWrapper"


@OPTIM_WRAPPERS.register_module()
class Bf16OptimWrapper(OptimWrapper):
    """Optimizer wrapper that runs the forward pass under bfloat16 autocast, on any device.

    The loss is not scaled. Losses and accuracies are float32 (``compat.half_scores``).
    """

    @contextmanager
    def optim_context(self, model: nn.Module) -> Iterator[None]:
        """Enable autocast, and skip gradient synchronization while gradients accumulate."""
        with super().optim_context(model), torch.autocast(get_device(), torch.bfloat16):
            yield


def use_amp(cfg: Config, precision: str = "auto") -> None:
    """Switch training to mixed precision.

    Args:
        cfg: Config, whose ``optim_wrapper`` is changed.
        precision: ``'bf16'`` (``Bf16OptimWrapper``), ``'fp16'`` (``AmpOptimWrapper`` with loss
            scaling, not on a CPU), or ``'auto'``: fp16 on an accelerator, bf16 on a CPU.

    Raises:
        ValueError: If ``cfg`` has an optimizer wrapper of another type.
    """
    wrapper = cfg.optim_wrapper
    wrapper_type = wrapper.get("type", "OptimWrapper")
    if wrapper_type not in ("OptimWrapper", "AmpOptimWrapper", BF16_WRAPPER):
        raise ValueError(f"--amp needs an optim_wrapper of type OptimWrapper, got {wrapper_type}")
    if precision == "auto":
        precision = "bf16" if get_device() == "cpu" else "fp16"
    if precision == "fp16":
        wrapper.update(type="AmpOptimWrapper", dtype="float16")
        wrapper.setdefault("loss_scale", "dynamic")
    else:
        wrapper.type = BF16_WRAPPER
        for name in ("dtype", "loss_scale"):
            wrapper.pop(name, None)
