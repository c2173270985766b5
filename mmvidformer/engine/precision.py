"""Mixed precision where MMEngine's own wrapper does not run."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.model import is_model_wrapper
from mmengine.optim import OptimWrapper
from mmengine.runner.amp import autocast
from torch import nn
from torch.utils._pytree import tree_map_only


class Bf16OptimWrapper(OptimWrapper):
    """Run the forward pass under bfloat16 autocast, on any device.

    bfloat16 has the range of float32, so that no loss scaling is needed. MMEngine's
    ``AmpOptimWrapper`` asks for an accelerator. Scores leave the model's ``cls_head`` in float32.
    """

    @contextmanager
    def optim_context(self, model: nn.Module) -> Iterator[None]:
        """Enable autocast, and hold back gradient synchronisation while accumulating."""
        head = getattr(model.module if is_model_wrapper(model) else model, "cls_head", None)
        hook = None if head is None else head.register_forward_hook(scores_to_float32)
        try:
            with super().optim_context(model), autocast(dtype=torch.bfloat16):
                yield
        finally:
            if hook is not None:
                hook.remove()


def scores_to_float32(head: nn.Module, inputs: tuple, scores: object) -> object:
    """Forward hook of a head: MMAction2 counts accuracy with NumPy, which has no bfloat16."""
    return tree_map_only(torch.Tensor, torch.Tensor.float, scores)


def use_amp(cfg: Config) -> None:
    """Switch the optimiser wrapper of ``cfg`` to mixed precision.

    An accelerator gets MMEngine's ``AmpOptimWrapper``, a CPU ``Bf16OptimWrapper``.

    Raises:
        ValueError: If ``cfg`` has an optimiser wrapper of another type.
    """
    wrapper = cfg.optim_wrapper
    kind = wrapper.get("type", "OptimWrapper")
    if kind not in ("OptimWrapper", "AmpOptimWrapper"):
        raise ValueError(f"--amp needs an optim_wrapper of type OptimWrapper, got {kind}")
    if get_device() == "cpu":
        wrapper.type = "mmvidformer.engine.Bf16OptimWrapper"
        for name in ("loss_scale", "dtype"):
            wrapper.pop(name, None)
    else:
        wrapper.type = "AmpOptimWrapper"
        wrapper.setdefault("loss_scale", "dynamic")
