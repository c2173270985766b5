"""A data set some of whose videos may be bad."""

import logging
import os
import random
from contextlib import suppress

import numpy as np
import torch
from mmengine.dataset import BaseDataset
from mmengine.logging import MMLogger, print_log

from mmvidformer.datasets.decoding.errors import BadVideo, TooManyBadVideos
from mmvidformer.datasets.decoding.faults import fault, path_of
from mmvidformer.datasets.decoding.helper_process import HAS_FORK, HelperDied, HelperProcess
from mmvidformer.datasets.decoding.ledger import BadSample, Ledger
from mmvidformer.datasets.wrapped import with_inner
from mmvidformer.registry import DATASETS

# Samples tried in place of a bad one before giving up, whatever share is allowed.
MOST_TRIES = 50


class DeadlyVideo(BadVideo):
    """A video on which a decoder hangs or crashes."""


@DATASETS.register_module()
class SafeDataset:
    """Any data set of MMEngine's kind, with a policy for samples that cannot be read.

    Bad is a sample whose pipeline raises, whatever the cause, or is not done within the time limit,
    or crashes its process. ``'raise'`` ends the run with a ``BadVideo``, which names file and
    fault. ``'resample'`` enters the sample in ``ledger``, logs each file once, and

    - in training takes another one, drawn at random, as MMEngine does where a pipeline gives None;
    - in test mode never replaces it: the item is there, with its own label and the flags
      ``bad_video`` (the reason) and ``bad_path`` in the metainfo of its data sample; its clip is
      the next good one's, only to fill the batch. ``mmvidformer.BadVideoHook`` makes the metrics
      heed the flags. Without the hook the first bad sample raises.

    With a time limit the samples are read in a helper process of each worker, which is killed when
    it hangs or crashes. Files that killed a helper are not tried again in this run. Random numbers
    are those of a run without: their state goes to the helper and back. That takes a POSIX system;
    elsewhere a warning says that samples are read without limit.

    Args:
        dataset: The data set, or its config; wrappers of data sets (``RepeatDataset``,
            ``ConcatDataset``) too.
        on_bad_video: ``'raise'`` or ``'resample'``.
        max_bad_share: With ``'resample'``, largest share of the data set's samples that may be bad.
        time_limit: Seconds for one sample; None for no limit and no helper.

    Raises:
        ValueError: If an argument is out of range.
        BadVideo: On reading, if a sample is bad and the policy is ``'raise'``, or no hook heeds
            the flags in test mode.
        RuntimeError: On reading, if more than the allowed share is bad.
    """

    def __init__(
        self,
        dataset: dict | BaseDataset,
        on_bad_video: str = "raise",
        max_bad_share: float = 0.05,
        time_limit: float | None = None,
        lazy_init: bool = False,
    ) -> None:
        if on_bad_video not in ("raise", "resample"):
            raise ValueError(f"on_bad_video must be 'raise' or 'resample', got {on_bad_video!r}")
        if not 0 <= max_bad_share <= 1:
            raise ValueError(f"max_bad_share must be in 0 to 1, got {max_bad_share}")
        if time_limit is not None and time_limit <= 0:
            raise ValueError(f"time_limit must be positive or None, got {time_limit}")
        if time_limit is not None and not HAS_FORK:
            print_log(
                "SafeDataset: this system has no fork; samples are read without a time limit",
                logger="current",
                level=logging.WARNING,
            )
            time_limit = None
        self.dataset = DATASETS.build(dataset) if isinstance(dataset, dict) else dataset
        self.on_bad_video = on_bad_video
        self.max_bad_share = max_bad_share
        self.time_limit = time_limit
        self.flags_are_heeded = False  # set by the hook
        self.ledger = Ledger()
        self._helper: HelperProcess | None = None
        self._again = False  # whether this process has had a helper
        if not lazy_init:
            self.full_init()

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_helper": None, "_again": False}

    @property
    def metainfo(self) -> dict:
        """Meta information of the data set."""
        return self.dataset.metainfo

    @property
    def test_mode(self) -> bool:
        """Whether the data are for validation or test."""
        return any(getattr(one, "test_mode", False) for one in with_inner(self.dataset))

    def full_init(self) -> None:
        """Load the annotations."""
        self.dataset.full_init()

    def __len__(self) -> int:
        return len(self.dataset)

    def get_data_info(self, idx: int) -> dict:
        """Give the fields that the pipeline starts from."""
        return self.dataset.get_data_info(idx)

    def get_cat_ids(self, idx: int) -> list[int]:
        """Classes of a sample, for ``ClassBalancedDataset``."""
        return self.dataset.get_cat_ids(idx)

    def __getitem__(self, idx: int) -> dict:
        """Read a sample, or what the policy puts in its place."""
        first: BadVideo | None = None
        tried = idx
        for _ in range(MOST_TRIES):
            try:
                sample = self._read(tried)
            except BadVideo as error:
                if self.on_bad_video == "raise":
                    raise
                if self.test_mode and not self.flags_are_heeded:
                    raise BadVideo(
                        error.path,
                        f"{error.reason}. In test mode on_bad_video='resample' needs the hook "
                        "mmvidformer.BadVideoHook in custom_hooks, which keeps bad videos apart "
                        "in the metrics",
                    ) from error
                first = first or error
                self._enter(tried, error)
                tried = (tried + 1) % len(self) if self.test_mode else np.random.randint(len(self))
                continue
            if first is not None and self.test_mode:
                return self._flagged(sample, idx, first)
            return sample
        raise TooManyBadVideos(
            f"{MOST_TRIES} samples in a row are bad, from sample {idx} on; the first is {first}. "
            "Look for a wrong data_prefix or a fault of the pipeline; tools/data/check_videos.py "
            "lists bad videos"
        )

    def _read(self, idx: int) -> dict:
        if self.time_limit is None:
            return self._sample(idx)
        path = path_of(self.get_data_info(idx))
        known = self.ledger.deadly.get(path)
        if known is not None:
            raise DeadlyVideo(path, known)
        if self._helper is None or self._helper.owner != os.getpid():
            with suppress(ImportError):
                import decord  # noqa: F401  # here once, or else in each helper anew
            self._helper = HelperProcess(self._answer)
            self._again = True
        try:
            self._helper.submit((idx, random_state()))
            error, sample, state = self._helper.receive(self.time_limit)
        except HelperDied as died:
            self._helper = None
            raise DeadlyVideo(path, str(died)) from None
        set_random_state(state)
        if error is not None:
            # A decoder that failed may have left its process damaged; the next file gets a new one.
            self._helper.stop()
            self._helper = None
            raise error
        return sample

    def _answer(self, request: tuple[int, tuple]) -> tuple[BadVideo | None, dict | None, tuple]:
        idx, state = request
        if self._again:  # what a transform says once it would say in each new helper
            MMLogger.get_current_instance().addFilter(_no_deprecation)
        set_random_state(state)
        try:
            return None, self._sample(idx), random_state()
        except BadVideo as error:
            return BadVideo(error.path, error.reason), None, random_state()

    def _sample(self, idx: int) -> dict:
        try:
            return self.dataset[idx]
        except ImportError:  # a package is missing; no video is to blame
            raise
        except Exception as error:
            raise fault(self.get_data_info(idx), error) from error

    def _enter(self, idx: int, error: BadVideo) -> None:
        deadly = isinstance(error, DeadlyVideo)
        sample = BadSample(int(idx), error.path, error.reason, deadly)
        new = self.ledger.add(sample)
        if new:
            print_log(f"bad video: {error}", logger="current", level=logging.WARNING)
        bad = len(self.ledger.samples())
        if bad > self.max_bad_share * len(self):
            raise TooManyBadVideos(
                f"{bad} of {len(self)} samples are bad, more than the share of "
                f"{self.max_bad_share:g} that max_bad_share allows; the last is {error}. "
                "tools/data/check_videos.py lists bad videos and writes the annotations without"
            )

    def _flagged(self, filler: dict, idx: int, error: BadVideo) -> dict:
        """The clip of another sample, under the label and names of a bad one."""
        info = self.get_data_info(idx)
        kept = filler["data_samples"]
        sample = type(kept)()
        sample.set_metainfo({key: info.get(key, value) for key, value in kept.metainfo.items()})
        sample.set_metainfo({"bad_video": error.reason, "bad_path": error.path})
        if "label" in info:
            sample.set_gt_label(info["label"])
        return {**filler, "data_samples": sample}


def _no_deprecation(record: logging.LogRecord) -> bool:
    return "deprecated" not in record.getMessage()


def random_state() -> tuple:
    """States of the generators that transforms use: Python's, NumPy's and PyTorch's."""
    return random.getstate(), np.random.get_state(), torch.get_rng_state()


def set_random_state(state: tuple) -> None:
    """Put the generators into the states that ``random_state`` gave."""
    random.setstate(state[0])
    np.random.set_state(state[1])
    torch.set_rng_state(state[2])
