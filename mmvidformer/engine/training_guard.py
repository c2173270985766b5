import signal

import torch
from mmengine.dist import all_reduce, barrier, get_rank
from mmengine.hooks import Hook
from mmengine.optim import OptimWrapper
from mmengine.runner import Runner

from mmvidformer.engine.checkpointing.hook import AtomicCheckpointHook
from mmvidformer.errors import UserError
from mmvidformer.registry import HOOKS


class LossNotFinite(UserError, FloatingPointError):
    """A loss of NaN or infinity."""


@HOOKS.register_module()
class TrainingGuardHook(Hook):
    """Stop training in an orderly way on a signal or at a non-finite loss.

    All ranks stop after the same step: they all-reduce two flags at the end of each.

    On SIGTERM or SIGUSR1 a ``ResumableTrainLoop`` stops after the step, or with accumulated
    gradients after the step that uses them. ``AtomicCheckpointHook`` saves ``interrupted.pth``, and
    every process exits with status 128 + the signal's number. After a loss of NaN or infinity no
    checkpoint is saved. Gradients are not checked.

    Raises:
        LossNotFinite: In each process whose loss is not finite.
        SystemExit: In the others, and after a signal.
    """

    # After averaged weights and schedules are updated, before CheckpointHook saves.
    priority = 80

    def after_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: object = None, outputs: object = None
    ) -> None:
        """Share the flags of this step, and stop if required."""
        loss = (outputs or {}).get("loss", torch.zeros(())).detach()
        received = max(getattr(runner.train_loop, "signals", ()), default=0)
        flags = torch.full((2,), received, dtype=torch.int32, device=loss.device)
        flags[0] = ~torch.isfinite(loss)
        all_reduce(flags, "max")
        bad, number = flags.tolist()
        if bad:
            if loss.isfinite():  # the rank with the bad loss tells why
                raise SystemExit(2)  # as there: the launcher returns that of whichever ends first
            raise LossNotFinite(
                f"step {runner.iter + 1}: the loss is not finite (rank {get_rank()}: loss "
                f"{loss.item()}). Check the learning rate and the data; checkpoints are older"
            )
        wrapper = runner.optim_wrapper
        if number and (not isinstance(wrapper, OptimWrapper) or wrapper.should_update()):
            self._stop(runner, number)

    def _stop(self, runner: Runner, number: int) -> None:
        iteration = runner.iter + 1
        where = "without a checkpoint, since no AtomicCheckpointHook is set"
        for hook in runner.hooks:
            if isinstance(hook, AtomicCheckpointHook):
                where = f"saved {hook.save_now(runner, iteration)}; continue with --resume"
        name = signal.Signals(number).name
        runner.logger.warning(f"{name}: stopped after step {iteration}, {where}")
        # A launcher ends all processes soon after one has ended: wait until all have saved.
        barrier()
        raise SystemExit(128 + number)
