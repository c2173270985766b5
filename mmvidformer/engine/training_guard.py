"""When training stops early: on a signal, or at a loss that is not finite."""

import signal
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

import torch
from mmengine.device import get_device
from mmengine.dist import all_gather_object, barrier, get_rank
from mmengine.hooks import CheckpointHook, Hook
from mmengine.optim import OptimWrapper
from mmengine.runner import Runner
from torch import Tensor, distributed

from mmvidformer.datasets.bad_videos import with_inner
from mmvidformer.engine.checkpointing.hook import AtomicCheckpointHook
from mmvidformer.registry import HOOKS

# Where datasets keep what a sample was read from.
FILE_KEYS = ("filename", "frame_dir", "video_id")
# Windows lacks the second one.
SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGUSR1") if hasattr(signal, name)]


@HOOKS.register_module()
class TrainingGuardHook(Hook):
    """Stop training in an orderly way on a signal or at a non-finite loss.

    All ranks act alike, even if only one received the signal or has the bad loss. They all-reduce
    two flags once per step, while the next step is computed, and read them one step later, but at
    once before a checkpoint: none holds weights from a bad step.

    **Signals.** On SIGTERM or SIGUSR1 training stops within two steps, or with accumulated
    gradients after the step that uses them. ``AtomicCheckpointHook`` saves ``interrupted.pth``,
    from which ``tools/train.py --resume`` resumes, and every process exits with status 128 + the
    signal's number. A validation is finished first.

    **Losses.** The error for a loss of NaN or infinity names the step, the rank and the files of
    its batch. Gradients are not checked: with float16 that is the task of the loss scaler.

    Args:
        non_finite: ``'stop'`` raises an error. ``'skip'`` skips the step on all ranks, logs
            ``skipped_steps``, and raises the error after ``max_skips``. This is decided before the
            backward pass, so each step waits for the all-reduce.
        max_skips: Number of consecutive steps that may be skipped.

    Raises:
        ValueError: If ``non_finite`` is not one of these.
    """

    # After averaged weights and schedules are updated, before CheckpointHook saves.
    priority = 80

    def __init__(self, non_finite: Literal["stop", "skip"] = "stop", max_skips: int = 10) -> None:
        if non_finite not in ("stop", "skip"):
            raise ValueError(f"non_finite must be 'stop' or 'skip', got {non_finite!r}")
        self.skips = non_finite == "skip"
        self.max_skips = max_skips
        self.received = 0  # signal that this process received
        self.agreed = 0  # signal that all ranks know of
        self.skipped = self.skipped_in_a_row = 0
        self._files = ""
        # Number, files and loss of a step; whether a loss is bad, and a signal; their all-reduce.
        self._pending: tuple[int, str, Tensor, Tensor, distributed.Work | None] | None = None
        self._handlers: dict = {}

    def before_train(self, runner: Runner) -> None:
        """Listen for the signals, and keep the names of files in the samples."""
        for dataset in with_inner(runner.train_dataloader.dataset):
            for step in getattr(getattr(dataset, "pipeline", None), "transforms", ()):
                if hasattr(step, "meta_keys"):
                    step.meta_keys = tuple(dict.fromkeys((*step.meta_keys, *FILE_KEYS)))
        if self.skips:
            wrapper = runner.optim_wrapper  # one optimizer; MMEngine's for several has no such step
            wrapper.update_params = partial(self._update, runner, wrapper, wrapper.update_params)
        # Python allows no handlers in other threads.
        main = threading.current_thread() is threading.main_thread()
        for number in SIGNALS if main else ():
            self._handlers[number] = signal.signal(number, self._receive)

    def before_train_iter(self, runner: Runner, data_batch: object, **kwargs: object) -> None:
        """Keep the names of the batch's files."""
        self._files = files_of(data_batch)

    def after_train_iter(
        self, runner: Runner, batch_idx: int, outputs: Mapping | None = None, **kwargs: object
    ) -> None:
        """Read the flags of the step before, share those of this one, and stop if required."""
        if not self.skips:
            self._read(runner)
            self._share(runner, (outputs or {}).get("loss", torch.zeros((), device=get_device())))
            # Whether a checkpoint or the end of the epoch comes before the next step.
            now = self.end_of_epoch(runner.train_dataloader, batch_idx)
            now |= self.is_last_train_iter(runner)
            for hook in runner.hooks:
                if isinstance(hook, CheckpointHook) and not hook.by_epoch:
                    now |= self.every_n_train_iters(runner, hook.interval, hook.save_begin)
            if now:
                self._read(runner)
        wrapper = runner.optim_wrapper
        if self.agreed and (not isinstance(wrapper, OptimWrapper) or wrapper.should_update()):
            self._stop(runner)

    def before_val(self, runner: Runner) -> None:
        """Read the flags of the last step, since the best checkpoint may follow."""
        self._read(runner)

    def after_train(self, runner: Runner) -> None:
        """Restore the signal handlers."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers.clear()

    def _receive(self, number: int, frame: object) -> None:
        self.received = number

    def _update(
        self, runner: Runner, wrapper: OptimWrapper, update: Callable, loss: Tensor, *args, **kwargs
    ) -> None:
        """Update the parameters unless the loss of a rank is not finite."""
        self._share(runner, loss)
        if not self._read(runner):
            self.skipped_in_a_row = 0
            update(loss, *args, **kwargs)
            return
        wrapper._inner_count += 1
        if wrapper.should_update():  # drop accumulated gradients, which no other rank has added up
            wrapper.zero_grad()

    def _share(self, runner: Runner, loss: Tensor) -> None:
        """Start the all-reduce of this step's flags."""
        loss = loss.detach()
        flags = torch.full((2,), self.received, dtype=torch.int32, device=loss.device)
        flags[0] = ~torch.isfinite(loss)
        work = None
        if runner.world_size > 1:
            work = distributed.all_reduce(flags, distributed.ReduceOp.MAX, async_op=True)
        self._pending = runner.iter + 1, self._files, loss, flags, work

    def _read(self, runner: Runner) -> bool:
        """Wait for the flags. Returns whether the step is skipped; raises an error to stop."""
        if self._pending is None:
            return False
        number, files, loss, flags, work = self._pending
        self._pending = None
        if work is not None:
            work.wait()
        # After a step, this wait is over: MMEngine's RuntimeInfoHook has just read the loss.
        bad, self.agreed = flags.tolist()
        if not bad:
            return False
        own = f"rank {get_rank()}: loss {loss.item()}, files {files}"
        ranks = all_gather_object(None if loss.isfinite() else own)
        what = f"step {number}: the loss is not finite ({'; '.join(filter(None, ranks))})"
        if self.skips and self.skipped_in_a_row < self.max_skips:
            self.skipped += 1
            self.skipped_in_a_row += 1
            runner.logger.warning(f"{what}; the step is skipped")
            runner.message_hub.update_scalar("train/skipped_steps", self.skipped)
            return True
        self.after_train(runner)
        if self.skips:
            raise FloatingPointError(f"{what}, as in the {self.max_skips} steps before")
        raise FloatingPointError(
            f"{what}. Check these files and the learning rate; checkpoints are from before this "
            "step. TrainingGuardHook(non_finite='skip') skips such steps"
        )

    def _stop(self, runner: Runner) -> None:
        """Save the state and exit."""
        iteration = runner.iter + 1
        where = "not saved, since there is no AtomicCheckpointHook"
        for hook in runner.hooks:
            if isinstance(hook, AtomicCheckpointHook):
                where = f"saved {hook.save_now(runner, iteration)}; continue with --resume"
        name = signal.Signals(self.agreed).name
        runner.logger.warning(f"{name}: stopped after step {iteration}, {where}")
        # A launcher ends all processes as soon as one has ended: wait until all have saved.
        barrier()
        if runner.world_size == 1:
            self.after_train(runner)
        raise SystemExit(128 + self.agreed)


def files_of(batch: object) -> str:
    """Name the files of a batch as MMEngine collates it."""
    names = []
    for sample in (batch.get("data_samples") or ()) if isinstance(batch, Mapping) else ():
        found = (sample.get(key) for key in FILE_KEYS)
        names.append(str(next(filter(None, found), "unknown")))
    return ", ".join(names) or "unknown"
