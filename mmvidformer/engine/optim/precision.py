from collections.abc import Iterator
from contextlib import contextmanager

import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.optim import OptimWrapper
from torch import nn

from mmvidformer.config.fragments import Fragment, replace, without
from mmvidformer.errors import UserError
from mmvidformer.registry import OPTIM_WRAPPERS

BF16_WRAPPER = "mmvidformer.Bf16OptimWrapper"


@OPTIM_WRAPPERS.register_module()
class Bf16OptimWrapper(OptimWrapper):
    """Optimizer wrapper that runs the forward pass under bfloat16 autocast, on any device.

    The loss is not scaled. Losses and accuracies are float32 (``repairs``).
    """

    @contextmanager
    def optim_context(self, model: nn.Module) -> Iterator[None]:
        """Enable autocast, and skip gradient synchronization while gradients accumulate."""
        with super().optim_context(model), torch.autocast(get_device(), torch.bfloat16):
            yield


def check_precision(cfg: Config) -> None:
    """Raise a UserError if a config, such as one of MMAction2, trains in float16 on a CPU."""
    wrapper = (cfg.get("optim_wrapper") or {}).get("type")
    if wrapper == "AmpOptimWrapper" and get_device() == "cpu":
        wanted = "add --amp bf16, or --cfg-options optim_wrapper.type=OptimWrapper"
        raise UserError(f"optim_wrapper.type={wrapper} needs a GPU; on a CPU, {wanted}")


def precision_fragment(cfg: Config, precision: str = "auto") -> Fragment:
    """Return the fragment that lets a config train in mixed precision.

    Args:
        cfg: The config; it is not changed.
        precision: ``'bf16'`` (``Bf16OptimWrapper``), ``'fp16'`` (``AmpOptimWrapper`` with loss
            scaling, not on a CPU), or ``'auto'``: fp16 on an accelerator, bf16 on a CPU.

    Raises:
        UserError: If ``cfg`` has an optimizer wrapper of another type.
    """
    wrapper = cfg.optim_wrapper
    wrapper_type = wrapper.get("type", "OptimWrapper")
    if wrapper_type not in ("OptimWrapper", "AmpOptimWrapper", BF16_WRAPPER):
        raise UserError(f"--amp needs an optim_wrapper of type OptimWrapper, got {wrapper_type}")
    if precision == "auto":
        precision = "bf16" if get_device() == "cpu" else "fp16"
    if precision == "fp16":
        scale = wrapper.get("loss_scale", "dynamic")
        values = dict(type="AmpOptimWrapper", dtype="float16", loss_scale=scale)
        return {"optim_wrapper": values}
    values = without(wrapper, "dtype", "loss_scale") | dict(type=BF16_WRAPPER)
    return replace(cfg, "optim_wrapper", values)
