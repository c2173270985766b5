"""What to do about a loss that is not a number."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import torch
from mmengine.dist import all_gather_object, all_reduce, get_rank
from mmengine.hooks import Hook
from mmengine.optim import OptimWrapper
from mmengine.runner import Runner
from torch import Tensor

from mmvidformer.datasets.wrapped import with_inner
from mmvidformer.registry import HOOKS

# Where datasets keep what a clip was read from.
FILE_KEYS = ("filename", "frame_dir", "video_id")


@HOOKS.register_module()
class NonFiniteLossHook(Hook):
    """Stop training at a loss that is NaN or infinite, or go on without that step.

    The loss is looked at before gradients are computed, so that weights, averages and optimiser
    stay clean; the update that was due is left out. All processes decide alike: the loss of one is
    enough. The message names the step, the process and the files of its batch.

    Args:
        policy: ``'stop'`` ends training with an error; ``'skip'`` leaves the step out, counts it
            in the log as ``skipped_steps``, and stops after ``max_skips`` in a row.
        max_skips: Steps in a row that may be left out.

    Raises:
        ValueError: If an argument is neither of these.
    """

    priority = "VERY_HIGH"

    def __init__(self, policy: Literal["stop", "skip"] = "stop", max_skips: int = 10) -> None:
        if policy not in ("stop", "skip"):
            raise ValueError(f"policy must be 'stop' or 'skip', got {policy!r}")
        if max_skips < 1:
            raise ValueError(f"max_skips must be at least 1, got {max_skips}")
        self.policy = policy
        self.max_skips = max_skips
        self.skipped = 0
        self.in_a_row = 0
        self._batch: Mapping | Sequence | None = None

    def before_train(self, runner: Runner) -> None:
        """Look at each loss on its way to the optimiser, and have samples tell their files."""
        dataset = getattr(runner.train_loop.dataloader, "dataset", None)
        for one in with_inner(dataset):  # the workers start after this
            for step in getattr(getattr(one, "pipeline", None), "transforms", ()):
                if hasattr(step, "meta_keys"):
                    step.meta_keys = tuple(dict.fromkeys((*step.meta_keys, *FILE_KEYS)))
        wrapper = runner.optim_wrapper
        if isinstance(wrapper, OptimWrapper):
            wrapper.update_params = self._guard(runner, wrapper, wrapper.update_params)

    def before_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: dict | None = None
    ) -> None:
        """Keep the batch, to name its files."""
        self._batch = data_batch

    def _guard(self, runner: Runner, wrapper: OptimWrapper, update: Callable) -> Callable:
        def update_params(loss: Tensor, *args, **kwargs) -> None:
            bad = (~torch.isfinite(loss.detach()).all()).to(torch.int32)
            anywhere = bad.clone()
            all_reduce(anywhere, "max")
            if not anywhere:
                self.in_a_row = 0
                update(loss, *args, **kwargs)
                return
            self._report(runner, float(loss.detach().sum()), bool(bad))
            _leave_out(wrapper)

        return update_params

    def _report(self, runner: Runner, loss: float, bad: bool) -> None:
        told = [None] * runner.world_size
        mine = f"process {get_rank()}: loss {loss}, batch {files_of(self._batch)}" if bad else None
        told = [text for text in all_gather_object(mine) if text]
        what = f"iteration {runner.iter + 1}: the loss is not finite ({'; '.join(told)})"
        self.skipped += 1
        self.in_a_row += 1
        if self.policy == "stop":
            raise FloatingPointError(
                f"{what}. Look at these files and the learning rate; the checkpoints before are "
                "clean. NonFiniteLossHook(policy='skip') leaves such steps out"
            )
        if self.in_a_row > self.max_skips:
            raise FloatingPointError(f"{what}, as in the {self.max_skips} steps before")
        runner.logger.warning(f"{what}; the step is left out")
        runner.message_hub.update_scalar("train/skipped_steps", self.skipped)


def files_of(batch: Mapping | Sequence | None) -> str:
    """Name the files of a batch as MMEngine collates it, in words."""
    samples = batch.get("data_samples") if isinstance(batch, Mapping) else None
    names = []
    for sample in samples or []:
        found = [sample.get(key) for key in FILE_KEYS]
        names.append(str(next((name for name in found if name is not None), "unknown")))
    return ", ".join(names) or "of unknown files"


def _leave_out(wrapper: OptimWrapper) -> None:
    """Count a step without its gradients.

    If it is the one that an update of accumulated gradients was due at, they are dropped: those of
    other processes have not been added to them.
    """
    wrapper._inner_count += 1
    if wrapper.should_update():
        wrapper.zero_grad()
