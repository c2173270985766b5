"""Training that is told to stop: it saves its state and ends."""

import signal
import threading
from collections.abc import Sequence
from types import FrameType

import torch
from mmengine.device import get_device
from mmengine.dist import all_reduce, barrier
from mmengine.hooks import EMAHook, Hook
from mmengine.optim import OptimWrapper
from mmengine.runner import Runner

from mmvidformer.engine.checkpointing.hook import AtomicCheckpointHook
from mmvidformer.engine.checkpointing.loop import ResumableTrainLoop
from mmvidformer.registry import HOOKS


@HOOKS.register_module()
class PreemptionHook(Hook):
    """Save and end when a cluster takes the machine away.

    A signal to any process is heeded by all of them, after the step (or the batch of validation)
    that is under way: the state is saved as ``interrupted.pth`` by ``AtomicCheckpointHook``, and
    every process ends with status 128 + the signal's number (143 for SIGTERM, 138 for SIGUSR1).
    ``tools/train.py --resume`` goes on from there. With accumulated gradients the stop is after
    the step that uses them. A validation that was cut off is not made up for. Launchers send a
    signal several times, so that further ones change nothing; SIGINT (Ctrl-C) ends the run at
    once.

    Args:
        signals: Their names. SIGUSR1 is what ``sbatch --signal=USR1@120`` sends ahead of the
            end; names that the system lacks (Windows) are left out.

    Raises:
        ValueError: If a name is no signal's name.
    """

    # After all hooks but the checkpoints', whose regular ones come before the stop.
    priority = "LOWEST"

    def __init__(self, signals: Sequence[str] = ("SIGTERM", "SIGUSR1")) -> None:
        for name in signals:
            if not name.startswith("SIG"):
                raise ValueError(f"signals are named as SIGTERM, got {name!r}")
        self.signals = [getattr(signal, name) for name in signals if hasattr(signal, name)]
        self.received = 0
        self._before: dict = {}

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = number

    def before_train(self, runner: Runner) -> None:
        """Listen for the signals."""
        if not isinstance(runner.train_loop, ResumableTrainLoop):
            runner.logger.warning(
                "a run that is told to stop begins its epoch anew when it resumes; with "
                "train_cfg.type = 'mmvidformer.ResumableTrainLoop' it goes on from the middle"
            )
        if threading.current_thread() is not threading.main_thread():
            runner.logger.warning("signals cannot be heeded, since training is in a side thread")
            return
        for number in self.signals:
            self._before[number] = signal.signal(number, self._note)

    def after_train_iter(
        self,
        runner: Runner,
        batch_idx: int,
        data_batch: dict | None = None,
        outputs: dict | None = None,
    ) -> None:
        """Stop between two steps, if a process was told to."""
        number = self._agreed()
        wrapper = runner.optim_wrapper
        if number and (not isinstance(wrapper, OptimWrapper) or wrapper.should_update()):
            self._stop(runner, number, runner.iter + 1)

    def after_val_iter(
        self,
        runner: Runner,
        batch_idx: int,
        data_batch: dict | None = None,
        outputs: Sequence | None = None,
    ) -> None:
        """Stop within a validation, if a process was told to."""
        # In validation processes may have a batch more or less than others, so that they
        # cannot agree; each goes to the end of it unless it is alone.
        if self.received and runner.world_size == 1:
            for hook in runner.hooks:
                if isinstance(hook, EMAHook):  # take back the averaged weights
                    hook.after_val_epoch(runner)
            self._stop(runner, self.received, runner.iter)

    def after_train(self, runner: Runner) -> None:
        """Leave the signals to whoever had them."""
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before.clear()

    def _agreed(self) -> int:
        told = torch.tensor(self.received, device=get_device())
        all_reduce(told, "max")
        return int(told)

    def _stop(self, runner: Runner, number: int, iteration: int) -> None:
        name = signal.Signals(number).name
        saving = [hook for hook in runner.hooks if isinstance(hook, AtomicCheckpointHook)]
        where = "not saved, since no AtomicCheckpointHook is among the hooks"
        if saving:
            where = f"saved in {saving[0].save_now(runner, iteration)}; go on with --resume"
        runner.logger.warning(f"{name}: stopped after iteration {iteration}, {where}")
        # Launchers end the other processes as soon as one has ended: first all is saved.
        barrier()
        if runner.world_size == 1:
            self.after_train(runner)
        raise SystemExit(128 + number)
