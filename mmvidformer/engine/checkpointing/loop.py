import hashlib
import math
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath

import numpy as np
import torch
from mmengine.dataset import DefaultSampler
from mmengine.runner import EpochBasedTrainLoop, set_random_seed
from torch import nn
from torch.utils.data import Dataset

from mmvidformer.engine.process_group import STOP_SIGNALS
from mmvidformer.registry import DATA_SAMPLERS, LOOPS


class SampleIndex(int):
    """The index of a sample, with the ``seed`` from which its random numbers are drawn."""

    seed: int

    def __new__(cls, index: int, seed: int = 0) -> "SampleIndex":
        """Create an index."""
        self = super().__new__(cls, index)
        self.seed = seed
        return self


@DATA_SAMPLERS.register_module()
class ResumableSampler(DefaultSampler):
    """MMEngine's ``DefaultSampler``, whose next pass skips the first ``skip`` samples of a rank.

    It yields ``SampleIndex``, with which ``mmvidformer.SafeDataset`` draws random numbers: they
    depend on the sampler's seed, the epoch and the position in it.

    Args:
        repeats: How often each sample comes in a row, over all ranks. Epochs keep their length, so
            that only ``1 / repeats`` of the dataset is seen in each (DeiT's repeated augmentation).
        draws: How often each sample is drawn in an epoch, which is as many times as long.
        **kwargs: Arguments of ``DefaultSampler``.
    """

    skip: int = 0

    def __init__(self, *args: object, repeats: int = 1, draws: int = 1, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.repeats = repeats
        self.samples = self.list_samples().repeat(draws)
        count = len(self.samples)
        if self.round_up:
            self.num_samples = math.ceil(count / self.world_size)
            self.total_size = self.num_samples * self.world_size
        else:
            self.num_samples = math.ceil((count - self.rank) / self.world_size)
            self.total_size = count

    def list_samples(self) -> torch.Tensor:
        """Return the samples of an epoch (samples,), in which one may come several times."""
        return torch.arange(len(self.dataset))

    def __iter__(self) -> Iterator[SampleIndex]:
        skip, self.skip = self.skip, 0
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        order = self.order(generator)
        positions = torch.arange(self.rank, self.total_size, self.world_size)[skip:]
        indices = order[positions // self.repeats % len(order)].tolist()
        entropy = np.random.SeedSequence([self.seed, self.epoch])
        seeds = entropy.generate_state(self.total_size, np.uint64)[positions.numpy()] >> 1
        return map(SampleIndex, indices, seeds.tolist())

    def order(self, generator: torch.Generator) -> torch.Tensor:
        """Return the samples of an epoch in the order in which they are drawn."""
        if not self.shuffle:
            return self.samples
        return self.samples[torch.randperm(len(self.samples), generator=generator)]


def digest_names(dataset: Dataset) -> str | None:
    """Return a digest of the file names of 100 samples, evenly spaced.

    It is None for datasets without MMEngine's ``get_data_info``. Folders do not count, since videos
    may be moved.
    """
    if not hasattr(dataset, "get_data_info"):
        return None
    count = len(dataset)
    rows = map(
        dataset.get_data_info, np.linspace(0, count - 1, min(count, 100), dtype=int).tolist()
    )
    names = [PurePath(row.get("filename") or row.get("frame_dir") or "").name for row in rows]
    return hashlib.sha256("\n".join([str(count), *names]).encode()).hexdigest()


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """Note the first SIGTERM or SIGUSR1 in a list, where it would end the process.

    The handlers from before are restored then, so that a second signal ends the process, and when
    the context ends. Outside the main thread Python allows no handlers, and nothing is noted.
    """
    received: list[int] = []

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)
        before.clear()

    def receive(number: int, _: object) -> None:
        received.append(number)
        restore()

    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, receive) for number in STOP_SIGNALS if is_main}
    try:
        yield received
    finally:
        restore()


@LOOPS.register_module()
class ResumableTrainLoop(EpochBasedTrainLoop):
    """MMEngine's ``EpochBasedTrainLoop``, which continues an interrupted run as if it had not been.

    With a ``ResumableSampler``, batches that were already seen are skipped without being read, and
    the rest keep their order, whatever the seed is now. An epoch that has another length now
    restarts with a warning. Each step seeds the model's random numbers, otherwise on each rank. It
    needs ``AtomicCheckpointHook``; ``TrainingGuardHook``
    acts on ``signals``.
    """

    saved: dict | None = None  # what a checkpoint holds of the order of samples
    _seen: int = 0

    def describe_order(self) -> dict:
        """Return what determines the order of the samples, for checkpoints."""
        seed = getattr(self.dataloader.sampler, "seed", None)
        names = digest_names(self.dataloader.dataset)
        return dict(epoch_length=len(self.dataloader), seed=seed, names=names)

    def has_new_length(self) -> bool:
        """Whether an epoch had another number of batches when the checkpoint was saved."""
        length = len(self.dataloader)
        return self.saved.get("epoch_length", length) != length

    def run(self) -> nn.Module:
        """Train."""
        if self.saved is not None:
            self._find_seen()
        with stop_signals() as self.signals:
            return super().run()

    def _find_seen(self) -> None:
        length, sampler = len(self.dataloader), self.dataloader.sampler
        saved_length, seed = map(self.saved.get, ("epoch_length", "seed"))
        if seed is not None and hasattr(sampler, "seed"):
            sampler.seed = seed
        seen = self._iter - self._epoch * (saved_length or length)
        names = self.saved.get("names")
        if names is not None and names != digest_names(self.dataloader.dataset):
            self.runner.logger.warning(
                "the training list has other videos than when the checkpoint was saved"
            )
        resumable = isinstance(sampler, ResumableSampler) and self.dataloader.batch_size is not None
        if resumable and saved_length == length and 0 <= seen <= length:
            self._seen = seen
            return
        if seen:
            self.runner.logger.warning(
                f"epoch {self._epoch + 1} restarts after step {self._iter}: to continue it needs a "
                "'mmvidformer.ResumableSampler', and as many batches as when it was saved "
                f"(now {length}, then {saved_length or 'unknown'})"
            )
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

    def run_iter(self, idx: int, data_batch: object) -> None:
        """Run one step, whose random numbers depend on the run's seed, the step and the rank."""
        entropy = np.random.SeedSequence([self.runner.seed, self._iter, self.runner.rank])
        set_random_seed(int(entropy.generate_state(1)[0]))
        super().run_iter(idx, data_batch)
