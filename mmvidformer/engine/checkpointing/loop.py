"""Training that resumes in the middle of an epoch, with the samples it has not seen yet."""

from collections.abc import Iterator

import torch
from mmengine.dataset import DefaultSampler
from mmengine.runner import EpochBasedTrainLoop
from torch import nn

from mmvidformer.registry import DATA_SAMPLERS, LOOPS


@DATA_SAMPLERS.register_module()
class ResumableSampler(DefaultSampler):
    """MMEngine's ``DefaultSampler``, whose next pass skips the first ``skip`` samples of a rank.

    Args:
        repeats: How often each sample comes in a row, over all ranks. Epochs keep their length, so
            that only ``1 / repeats`` of the dataset is seen in each (DeiT's repeated augmentation).
        **kwargs: Arguments of ``DefaultSampler``.
    """

    skip: int = 0

    def __init__(self, *args: object, repeats: int = 1, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.repeats = repeats

    def __iter__(self) -> Iterator[int]:
        """Yield the indices of this rank's samples."""
        skip, self.skip = self.skip, 0
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        count = len(self.dataset)
        order = torch.randperm(count, generator=generator) if self.shuffle else torch.arange(count)
        places = torch.arange(self.rank, self.total_size, self.world_size)[skip:]
        return iter(order[places // self.repeats % count].tolist())


@LOOPS.register_module()
class ResumableTrainLoop(EpochBasedTrainLoop):
    """MMEngine's ``EpochBasedTrainLoop``, which finishes an interrupted epoch when it resumes.

    MMEngine restarts the epoch and so makes more steps than the schedule has. With a
    ``ResumableSampler``, the batches that were already seen are skipped without being read, and the
    rest keep the order of the first run, whatever the seed is now. ``AtomicCheckpointHook`` stores
    what is needed in checkpoints. If the epoch has another length now (number of ranks, batch size
    or dataset), the epoch restarts and a warning gives the reason. The arguments are those of
    ``EpochBasedTrainLoop``.
    """

    _saved: dict | None = None
    _seen: int = 0

    def sampling_state(self) -> dict:
        """Return what determines the order of the samples, for a checkpoint."""
        sampler = self.dataloader.sampler
        return dict(epoch_length=len(self.dataloader), seed=getattr(sampler, "seed", None))

    def load_sampling_state(self, state: dict | None) -> None:
        """Load the ``sampling_state`` of a checkpoint; None if it has none."""
        self._saved = state or {}

    def run(self) -> nn.Module:
        """Train."""
        if self._saved is not None:
            self._find_seen(self._saved)
        return super().run()

    def _find_seen(self, saved: dict) -> None:
        """Find how much of the epoch was seen when the checkpoint was saved."""
        length, sampler = len(self.dataloader), self.dataloader.sampler
        saved_length = saved.get("epoch_length", length)
        seen = self._iter - self._epoch * saved_length
        if saved.get("seed") is not None and hasattr(sampler, "seed"):
            sampler.seed = saved["seed"]
        if saved_length != length:
            reason = f"it has {length} batches, but had {saved_length} when it was saved"
        elif "epoch_length" not in saved or not 0 <= seen <= length:
            reason = "its checkpoint does not say which samples were seen"
        elif not isinstance(sampler, ResumableSampler) or self.dataloader.batch_size is None:
            reason = "train_dataloader.sampler is not of type 'mmvidformer.ResumableSampler'"
        else:
            self._seen = seen
            return
        if seen:
            message = f"epoch {self._epoch + 1} restarts after step {self._iter}: {reason}"
            self.runner.logger.warning(message)
        self._iter = self._epoch * length

    def run_epoch(self) -> None:
        """Run one epoch, or the rest of an interrupted one."""
        first, self._seen = self._seen, 0
        if first:
            self.dataloader.sampler.skip = first * self.dataloader.batch_size
        self.runner.call_hook("before_train_epoch")
        self.runner.model.train()
        for number, batch in enumerate(self.dataloader, first):
            self.run_iter(number, batch)
        self.runner.call_hook("after_train_epoch")
        self._epoch += 1
