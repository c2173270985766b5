from mmvidformer.registry import HOOKS  # isort: skip  (repairs MMAction2 first)

import platform
from pathlib import Path

import torch
from mmengine.hooks import Hook
from mmengine.runner import Runner

from mmvidformer.models.cpu import optimize_for_training

CPUINFO = Path("/proc/cpuinfo")


@HOOKS.register_module()
class CpuTrainingHook(Hook):
    """Train linear layers in oneDNN where PyTorch's own products are slow (``mkl_is_slow``).

    This changes nothing on a GPU. See ``optimize_for_training``.
    ``default_hooks.cpu_training=None`` turns it off.
    """

    def before_train(self, runner: Runner) -> None:
        """Change the model."""
        if mkl_is_slow():
            optimize_for_training(runner.model)


def mkl_is_slow() -> bool:
    """Return whether PyTorch multiplies in MKL on an AMD processor.

    There, a training step of TimeSformer takes 0.62 of the time in oneDNN; on an Intel Xeon it
    takes longer (reports/speed.md). Others have not been measured.
    """
    processor = CPUINFO.read_text() if CPUINFO.exists() else platform.processor()
    return torch.backends.mkl.is_available() and "AuthenticAMD" in processor
