"""Training that goes on from the middle of an epoch, with the clips that it had not seen."""

import logging
from collections.abc import Iterator

from mmengine.dataset import DefaultSampler
from mmengine.logging import print_log
from mmengine.runner import EpochBasedTrainLoop
from torch import nn

from mmvidformer.registry import DATA_SAMPLERS, LOOPS


@DATA_SAMPLERS.register_module()
class ResumableSampler(DefaultSampler):
    """MMEngine's ``DefaultSampler``, which can leave out the samples that were already seen.

    ``skip`` holds for the next pass only. Arguments are those of ``DefaultSampler``.
    """

    skip: int = 0

    def __iter__(self) -> Iterator[int]:
        """Give the numbers of the process's samples in this epoch, without the first ``skip``."""
        skip, self.skip = self.skip, 0
        return iter([*super().__iter__()][skip:])


@LOOPS.register_module()
class ResumableTrainLoop(EpochBasedTrainLoop):
    """MMEngine's ``EpochBasedTrainLoop``, which finishes an epoch that a checkpoint cut in two.

    MMEngine begins the epoch anew, and makes more steps than the schedule has. With a
    ``ResumableSampler`` the batches of the epoch that were already taken are left out, without
    being read, and the order of the rest is that of the first run, whatever the seed is now.
    ``AtomicCheckpointHook`` keeps in checkpoints what is needed for it. Where epochs had another
    length (another number of processes, batch size or data set) nobody can tell what was seen;
    the epoch begins anew then, at its first step, and the log says so. Arguments are those of
    ``EpochBasedTrainLoop``.
    """

    _saved: dict | None = None
    _seen: int = 0

    def sampling_state(self) -> dict:
        """What the order of the clips depends on, to be kept in a checkpoint."""
        sampler = self.dataloader.sampler
        return dict(epoch_length=len(self.dataloader), seed=getattr(sampler, "seed", None))

    def load_sampling_state(self, state: dict | None) -> None:
        """Take over the ``sampling_state`` of a checkpoint, None if it has none."""
        self._saved = state or {}

    def run(self) -> nn.Module:
        """Train."""
        if self._saved is not None:
            self._enter_epoch(self._saved)
        return super().run()

    def _enter_epoch(self, saved: dict) -> None:
        """Prepare to go on from where the checkpoint was saved."""
        now, sampler = len(self.dataloader), self.dataloader.sampler
        length = saved.get("epoch_length", now)
        seen = self._iter - self._epoch * length
        if saved.get("seed") is not None and hasattr(sampler, "seed"):
            sampler.seed = saved["seed"]
        reason = None
        if length != now:
            reason = f"it has {now} batches here, and {length} in the run that saved it"
        elif "epoch_length" not in saved or not 0 <= seen <= now:
            reason = "its checkpoint does not tell which of its clips were seen"
        elif not isinstance(sampler, ResumableSampler) or self.dataloader.batch_size is None:
            reason = "train_dataloader.sampler is not of type 'mmvidformer.ResumableSampler'"
        if reason is None:
            self._seen = seen
            return
        if seen:
            print_log(
                f"epoch {self._epoch + 1} begins anew after iteration {self._iter}: {reason}",
                logger="current",
                level=logging.WARNING,
            )
        self._iter = self._epoch * now

    def run_epoch(self) -> None:
        """Make one epoch, or what is left of it."""
        first, self._seen = self._seen, 0
        if first:
            self.dataloader.sampler.skip = first * self.dataloader.batch_size
        self.runner.call_hook("before_train_epoch")
        self.runner.model.train()
        for number, batch in enumerate(self.dataloader, first):
            self.run_iter(number, batch)
        self.runner.call_hook("after_train_epoch")
        self._epoch += 1
