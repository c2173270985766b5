"""A hook that ends the process as a power cut would."""

import os
import signal

from mmengine.hooks import Hook

from mmvidformer.registry import HOOKS


@HOOKS.register_module()
class CutPower(Hook):
    """Send SIGKILL to the own process after iteration ``at``, counted from 1."""

    def __init__(self, at: int) -> None:
        self.at = at

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None) -> None:
        if runner.iter + 1 == self.at:
            os.kill(os.getpid(), signal.SIGKILL)
