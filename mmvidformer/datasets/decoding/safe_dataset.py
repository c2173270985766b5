"""A dataset some of whose samples cannot be read."""

import logging
import random
import signal
import threading
from collections.abc import Iterator

import numpy as np
import torch
from mmengine.logging import print_log
from torch.utils.data import Dataset

from mmvidformer.datasets.decoding.errors import (
    BadSamples,
    BadVideo,
    TooManyBadVideos,
    bad_video,
    path_of,
)
from mmvidformer.datasets.decoding.helper_process import (
    HAS_FORK,
    CallFailed,
    CallInterrupted,
    HelperProcess,
)
from mmvidformer.registry import DATASETS

# Tries of a sample before it counts as bad, and before interruptions from outside end the run.
TRIES = 2
MOST_INTERRUPTIONS = 3
# Samples that are tried in place of a bad one before the run ends.
MOST_REPLACEMENTS = 50
REMEDY = "mmvidformer data check lists bad videos and writes annotations without them"


class ReadingInterrupted(RuntimeError):
    """A sample could not be read because of the system, not because of the sample."""

    for_user = True


@DATASETS.register_module()
class SafeDataset:
    """A dataset with a policy for samples that cannot be read.

    A sample is bad if its pipeline raises, takes longer than the time limit, or crashes, and does
    so again at a second try in another process. With the policy ``'resample'`` it is added to the
    record ``bad_samples``, is not tried again in this run, and

    - in training is replaced by a random sample, as in MMEngine when a pipeline returns None;
    - in test mode keeps its place and label. Its data sample has ``bad_video`` (the reason) and
      ``bad_path`` in its metainfo, and the clip of the next good sample, only to fill the batch.
      ``mmvidformer.BadVideoHook`` makes metrics use these flags, and has to be set.

    With a time limit each dataloader worker reads samples in a helper process, which is killed when
    it hangs. If the helper is killed from outside or the storage stalls, the sample is tried again
    and does not count as bad. No helper is needed if the pipelines open videos by ``VideoInit``
    with a backend that never crashes or hangs: then workers read themselves, and stop with an error
    after the time limit, in processor time. Random numbers are those of a run without
    ``SafeDataset``. Systems without fork (Windows) have no time limit. Other attributes are those
    of the dataset.

    Args:
        dataset: The dataset, which may be a wrapper such as ``RepeatDataset``, or its config.
        on_bad_video: ``'raise'`` or ``'resample'``.
        max_bad_share: Largest allowed share of bad samples with ``'resample'``, of all samples in
            the dataset. After each epoch ``BadVideoHook`` counts those that other ranks found too.
        time_limit: Seconds for one sample. None for no limit and no helper process.
        helper: Whether to use helper processes with a time limit; None for only if needed.

    Raises:
        ValueError: If an argument is out of range.
        BadVideo: On reading a bad sample with the policy ``'raise'``, or in test mode without hook.
        TooManyBadVideos: On reading, if more than ``max_bad_share`` of the samples are bad.
        ReadingInterrupted: On reading, if interruptions from outside do not stop.
    """

    def __init__(
        self,
        dataset: dict | Dataset,
        on_bad_video: str = "raise",
        max_bad_share: float = 0.05,
        time_limit: float | None = None,
        helper: bool | None = None,
    ) -> None:
        if on_bad_video not in ("raise", "resample"):
            raise ValueError(f"on_bad_video must be 'raise' or 'resample', got {on_bad_video!r}")
        if not 0 <= max_bad_share <= 1:
            raise ValueError(f"max_bad_share must be from 0 to 1, got {max_bad_share}")
        if time_limit is not None and not HAS_FORK:
            _warn("SafeDataset: this system cannot fork; samples are read without a time limit")
            time_limit = None
        self.dataset = DATASETS.build(dataset) if isinstance(dataset, dict) else dataset
        self.on_bad_video = on_bad_video
        self.max_bad_share = max_bad_share
        self.time_limit = time_limit
        self.bad_samples = BadSamples()
        self.is_hooked = False  # whether metrics use the flags; set by the hook
        needed = _may_crash(self.dataset) if helper is None else helper
        self._helper = HelperProcess(self._answer, time_limit) if time_limit and needed else None

    def __getattr__(self, name: str) -> object:
        # Private names too would let torch fetch whole batches past __getitem__.
        if name.startswith("_") or name == "dataset":
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __len__(self) -> int:
        return len(self.dataset)

    @property
    def test_mode(self) -> bool:
        """Whether the dataset is for validation or test."""
        return any(getattr(one, "test_mode", False) for one in with_inner(self.dataset))

    def check_share(self) -> None:
        """Raise if too many samples are bad."""
        known = self.bad_samples.known()
        if len(known) > self.max_bad_share * len(self):
            raise TooManyBadVideos(
                f"{len(known)} of {len(self)} samples are bad, too many for max_bad_share="
                f"{self.max_bad_share:g}; one is {': '.join([*known.values()][-1])}. {REMEDY}"
            )

    def __getitem__(self, idx: int) -> dict:
        """Read a sample, or what the policy puts in its place."""
        try:
            return self._read(idx)
        except BadVideo as error:
            if self.on_bad_video == "raise" or (self.test_mode and not self.is_hooked):
                raise
            fault = error
        self._add(idx, fault)
        other = idx
        for _ in range(MOST_REPLACEMENTS):
            other = (other + 1) % len(self) if self.test_mode else np.random.randint(len(self))
            try:
                sample = self._read(other)
            except BadVideo as error:
                self._add(other, error)
            else:
                return self._flagged(sample, idx, fault) if self.test_mode else sample
        raise TooManyBadVideos(
            f"sample {idx} is bad ({fault}), and so are {MOST_REPLACEMENTS} samples tried in its "
            f"place. Check data_prefix and the pipeline. {REMEDY}"
        )

    def _read(self, idx: int) -> dict:
        known = self.bad_samples.known().get(idx)
        if known is not None:
            raise BadVideo(*known)
        state = _random_state()
        tries = interruptions = 0
        while True:
            try:
                sample, fault, new_state = (self._helper or self._limited)((idx, state))
            except CallFailed as error:
                fault = BadVideo(path_of(self._info(idx)), str(error))
            except CallInterrupted as error:
                interruptions += 1
                message = f"sample {idx} ({path_of(self._info(idx))}): {error}"
                if interruptions == MOST_INTERRUPTIONS:
                    raise ReadingInterrupted(f"{message}. Tried {interruptions} times") from None
                _warn(f"{message}; trying again")
                continue
            if fault is None:
                _set_random_state(new_state)
                return sample
            # A decoder that failed may have damaged its process.
            if self._helper is not None:
                self._helper.stop()
            tries += 1
            if tries == TRIES:
                _set_random_state(state)  # the same whether the sample is known to be bad or not
                raise fault

    def _limited(self, request: tuple[int, tuple]) -> tuple[dict | None, BadVideo | None, tuple]:
        """Read a sample in this process, which raises after the time limit, between native calls.

        Only processor time counts, so that stalls of the storage do not.
        """
        if not self.time_limit or threading.current_thread() is not threading.main_thread():
            return self._answer(request)

        def stop(*_: object) -> None:
            raise TimeoutError(f"took longer than {self.time_limit:g} s")

        before = signal.signal(signal.SIGPROF, stop)
        signal.setitimer(signal.ITIMER_PROF, self.time_limit)
        try:
            return self._answer(request)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)

    def _answer(self, request: tuple[int, tuple]) -> tuple[dict | None, BadVideo | None, tuple]:
        """Read a sample; return it or its fault, and the new random state."""
        idx, state = request
        _set_random_state(state)
        try:
            return self.dataset[idx], None, _random_state()
        except ImportError:  # a missing package is not the video's fault
            raise
        except Exception as error:
            fault = bad_video(self._info(idx), error)
            fault.__cause__ = error
            return None, fault, state

    def _info(self, idx: int) -> dict:
        known = hasattr(self.dataset, "get_data_info")  # not all datasets of PyTorch
        return self.dataset.get_data_info(idx) if known else {"sample_idx": idx}

    def _add(self, idx: int, fault: BadVideo) -> None:
        if (fault.path, fault.reason) not in self.bad_samples.known().values():
            _warn(f"bad video: {fault}")
        self.bad_samples.add(int(idx), fault.path, fault.reason)
        self.check_share()

    def _flagged(self, filler: dict, idx: int, fault: BadVideo) -> dict:
        """The clip of another sample with the label and metainfo of a bad one."""
        info = self._info(idx)
        kept = filler["data_samples"]
        sample = type(kept)()
        sample.set_metainfo({key: info.get(key, value) for key, value in kept.metainfo.items()})
        sample.set_metainfo({"bad_video": fault.reason, "bad_path": fault.path})
        if "label" in info:
            sample.set_gt_label(info["label"])
        return {**filler, "data_samples": sample}


def with_inner(dataset: object) -> Iterator[object]:
    """Yield a dataset and all that it wraps, outermost first.

    Wrappers have what they wrap as ``dataset`` (``SafeDataset``, and MMEngine's ``RepeatDataset``
    and ``ClassBalancedDataset``) or ``datasets`` (``ConcatDataset``).
    """
    yield dataset
    inner = getattr(dataset, "dataset", None)
    for one in getattr(dataset, "datasets", ()) if inner is None else (inner,):
        yield from with_inner(one)


def _may_crash(dataset: object) -> bool:
    """Whether a pipeline in a dataset does not open videos with a safe backend."""
    pipelines = [one.pipeline for one in with_inner(dataset) if hasattr(one, "pipeline")]
    steps = [getattr(pipeline, "transforms", ()) for pipeline in pipelines]
    return not steps or not all(any(getattr(s, "safe", False) for s in one) for one in steps)


def _random_state() -> tuple:
    """States of the generators that transforms use: Python's, NumPy's and PyTorch's."""
    return random.getstate(), np.random.get_state(), torch.get_rng_state().numpy()


def _set_random_state(state: tuple) -> None:
    random.setstate(state[0])
    np.random.set_state(state[1])
    torch.set_rng_state(torch.from_numpy(state[2]))


def _warn(message: str) -> None:
    print_log(message, logger="current", level=logging.WARNING)
