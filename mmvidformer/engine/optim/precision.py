"""Mixed precision on all devices."""

from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.optim import OptimWrapper
from torch import nn

from mmvidformer.registry import OPTIM_WRAPPERS

PRECISIONS = {"bf16": torch.bfloat16, "fp16": torch.float16}
BF16_WRAPPER = "mmvidformer.Bf16OptimWrapper"


def add_amp_argument(parser: ArgumentParser) -> None:
    """Add ``--amp`` with an optional precision."""
    parser.add_argument(
        "--amp",
        nargs="?",
        const="auto",
        choices=["auto", *PRECISIONS],
        help="use mixed precision; auto is fp16 on a GPU and bf16 on a CPU",
    )


@OPTIM_WRAPPERS.register_module()
class Bf16OptimWrapper(OptimWrapper):
    """Optimizer wrapper that runs the forward pass under bfloat16 autocast, on any device.

    bfloat16 has the range of float32 and needs no loss scaling. MMEngine's ``AmpOptimWrapper``
    requires an accelerator and always scales. Losses and accuracies are float32
    (``compat.half_scores``).
    """

    @contextmanager
    def optim_context(self, model: nn.Module) -> Iterator[None]:
        """Enable autocast, and skip gradient synchronization while gradients accumulate."""
        with super().optim_context(model), torch.autocast(get_device(), torch.bfloat16):
            yield


def use_amp(cfg: Config, precision: str = "auto") -> None:
    """Switch training to mixed precision.

    float16 uses MMEngine's ``AmpOptimWrapper`` with loss scaling, bfloat16 ``Bf16OptimWrapper``.

    Args:
        cfg: Config, whose ``optim_wrapper`` is changed.
        precision: ``'bf16'``, ``'fp16'`` or ``'auto'``. The latter keeps the precision of a config
            that has one; otherwise it is float16 on an accelerator and bfloat16 on a CPU.

    Raises:
        ValueError: If ``cfg`` has an optimizer wrapper of another type, or for ``'fp16'`` on a CPU.
    """
    wrapper = cfg.optim_wrapper
    kind = wrapper.get("type", "OptimWrapper")
    if kind not in ("OptimWrapper", "AmpOptimWrapper", BF16_WRAPPER):
        raise ValueError(f"--amp needs an optim_wrapper of type OptimWrapper, got {kind}")
    is_bf16 = kind == BF16_WRAPPER or "bfloat16" in str(wrapper.pop("dtype", ""))
    if _resolve(precision, default="bf16" if is_bf16 else "fp16") == "fp16":
        wrapper.update(type="AmpOptimWrapper", dtype="float16")
        wrapper.setdefault("loss_scale", "dynamic")
    else:
        wrapper.type = BF16_WRAPPER
        wrapper.pop("loss_scale", None)


def use_amp_in_test(cfg: Config, precision: str = "auto") -> None:
    """Switch testing to mixed precision: ``use_amp`` for the ``test_cfg`` of a config.

    MMEngine's test loop takes PyTorch's autocast dtype of the device, which this function sets for
    the process.
    """
    torch.set_autocast_dtype(get_device(), PRECISIONS[_resolve(precision, default="fp16")])
    cfg.test_cfg.fp16 = True


def _resolve(precision: str, default: str) -> str:
    if get_device() != "cpu":
        return default if precision == "auto" else precision
    if precision == "fp16":
        raise ValueError("--amp fp16 needs an accelerator; on a CPU use --amp bf16")
    return "bf16"
