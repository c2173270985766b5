"""Mixed precision, where MMEngine's own wrapper does not run too."""

from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.optim import OptimWrapper
from mmengine.runner.amp import autocast
from torch import nn

# Name on the command line: type.
PRECISIONS = {"bf16": torch.bfloat16, "fp16": torch.float16}


def add_amp_argument(parser: ArgumentParser) -> None:
    """Add ``--amp``; without a precision as MMAction2's."""
    parser.add_argument(
        "--amp",
        nargs="?",
        const="auto",
        choices=["auto", *PRECISIONS],
        help="mixed precision; auto: fp16 on a GPU, bf16 on a CPU",
    )


class Bf16OptimWrapper(OptimWrapper):
    """Run the forward pass under bfloat16 autocast, on any device.

    bfloat16 has the range of float32, so that no loss scaling is needed. MMEngine's
    ``AmpOptimWrapper`` asks for an accelerator, and scales in any case. Losses and accuracies are
    float32 (``compat.half_scores``).
    """

    @contextmanager
    def optim_context(self, model: nn.Module) -> Iterator[None]:
        """Enable autocast, and hold back gradient synchronisation while accumulating."""
        with super().optim_context(model), autocast(dtype=torch.bfloat16):
            yield


def use_amp(cfg: Config, precision: str = "auto") -> None:
    """Switch the training of ``cfg`` to mixed precision.

    float16 is MMEngine's ``AmpOptimWrapper`` with loss scaling, bfloat16 ``Bf16OptimWrapper``.

    Args:
        cfg: A whole config; its ``optim_wrapper`` is rewritten.
        precision: ``'bf16'``, ``'fp16'`` or ``'auto'``: the ``dtype`` of an ``AmpOptimWrapper`` of
            the config, else as MMAction2 float16 on an accelerator; on a CPU bfloat16.

    Raises:
        ValueError: If ``cfg`` has an optimiser wrapper of another type, or ``'fp16'`` meets a CPU.
    """
    wrapper = cfg.optim_wrapper
    kind = wrapper.get("type", "OptimWrapper")
    if kind not in ("OptimWrapper", "AmpOptimWrapper"):
        raise ValueError(f"--amp needs an optim_wrapper of type OptimWrapper, got {kind}")
    named = str(wrapper.pop("dtype", "float16")).removeprefix("torch.")
    default = "bf16" if named == "bfloat16" else "fp16"
    if _resolve(precision, default) == "fp16":
        wrapper.update(type="AmpOptimWrapper", dtype="float16")
        wrapper.setdefault("loss_scale", "dynamic")
    else:
        wrapper.type = "mmvidformer.engine.optim.precision.Bf16OptimWrapper"
        wrapper.pop("loss_scale", None)


def use_amp_in_test(cfg: Config, precision: str = "auto") -> None:
    """Switch the test loop of ``cfg`` to mixed precision.

    MMEngine's loops have a switch but no type: they take PyTorch's type for autocast on the
    device, which is set here for the process.

    Args:
        cfg: A whole config; its ``test_cfg`` is rewritten.
        precision: ``'bf16'``, ``'fp16'`` or ``'auto'``: float16 on an accelerator, bfloat16 on a
            CPU.

    Raises:
        ValueError: If ``'fp16'`` meets a CPU.
    """
    torch.set_autocast_dtype(get_device(), PRECISIONS[_resolve(precision, "fp16")])
    cfg.test_cfg.fp16 = True


def _resolve(precision: str, default: str) -> str:
    if get_device() != "cpu":
        return default if precision == "auto" else precision
    if precision == "fp16":
        raise ValueError("--amp fp16 needs an accelerator; on a CPU there is --amp bf16")
    return "bf16"
