import mmvidformer.repairs  # noqa: F401  isort: skip  (repairs MMAction2 first)

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch
from mmaction.datasets import transforms as reading
from mmaction.structures import ActionDataSample
from mmcv.transforms import BaseTransform
from mmengine.logging import print_log
from torch.utils.data import Dataset

from mmvidformer.catalog import DATASETS
from mmvidformer.data.listed_videos import share_samples
from mmvidformer.data.transforms.decoders import check_decoders
from mmvidformer.data.workers import limited_time, set_seed
from mmvidformer.errors import UserError
from mmvidformer.video.errors import BadVideo, TooManyBadVideos, blame, path_of

# MMAction2's transforms that read files; subclasses count.
READING = (
    *(reading.DecordInit, reading.DecordDecode, reading.OpenCVInit, reading.OpenCVDecode),
    *(reading.PyAVInit, reading.PyAVDecode, reading.PIMSInit, reading.PIMSDecode),
    *(reading.RawFrameDecode, reading.ImageDecode, reading.ArrayDecode, reading.LoadRGBFromFile),
    *(reading.LoadAudioFeature, reading.LoadLocalizationFeature, reading.LoadProposals),
)
_call = BaseTransform.__call__
_are_blamed = ContextVar("_are_blamed", default=False)  # in a sample of SafeDataset
PAUSES = (1.0, 4.0)  # seconds before further tries where storage may recover
READ, BAD = 1, 2  # status of a sample; 0 before it is read
MOST_REPLACEMENTS = 50
REMEDY = "mmvidformer data check lists bad videos and writes annotations without them"


@DATASETS.add
class SafeDataset:
    """A dataset with a policy for videos that cannot be read.

    A sample is bad if a transform raises ``BadVideo``. What one raises that reads files becomes one
    (``blame``): ``READING``, and those with an attribute ``reads_files``, wherever they are, such
    as in a ``RandomApply``. All other errors are raised unchanged. Errors of mounted storage
    (``PASSING``) get two further tries, after 1 and 4 seconds.
    With ``'resample'`` a bad sample is logged and

    - in training a random one is read in its place;
    - in test mode it keeps its place and annotation. Its inputs, and all else, are those of the
      next good sample, only to fill the batch. The metainfo of its data sample has ``bad_video``
      (the reason), ``bad_path`` and ``annotation_keys``, the names of what is its own, for
      ``mmvidformer.BadVideoEvaluator``. A label that a transform sets raises.

    In test mode, the metainfo of each data sample has its file as ``video_path``.

    The share of bad samples is counted in each process with its workers: of all samples, or of more
    than 1000 only of those read, at least 1000. One may be bad if the share is not 0. An attribute
    ``seed`` of an index seeds the draws.

    Args:
        dataset: The dataset, which may be a wrapper such as ``RepeatDataset``, or its config.
        on_bad_video: ``'resample'``, or ``'raise'`` to raise ``BadVideo``.
        max_bad_share: Largest allowed share of bad samples with ``'resample'``.

    Raises:
        UserError: If an argument is out of range, or a transform cannot decode what another opens.
        BadVideo: On reading a bad sample with ``'raise'``.
        TooManyBadVideos: On reading, if too many samples are bad, or 50 in a row.
    """

    def __init__(
        self, dataset: dict | Dataset, on_bad_video: str = "resample", max_bad_share: float = 0.05
    ) -> None:
        if on_bad_video not in ("raise", "resample"):
            raise UserError(f"on_bad_video must be 'raise' or 'resample', got {on_bad_video!r}")
        if not 0 <= max_bad_share <= 1:
            raise UserError(f"max_bad_share must be from 0 to 1, got {max_bad_share}")
        self.dataset = DATASETS.build(dataset) if isinstance(dataset, dict) else dataset
        for inner in with_inner(self.dataset):
            share_samples(inner)
            check_decoders(getattr(getattr(inner, "pipeline", None), "transforms", ()))
        self.on_bad_video, self.max_bad_share = on_bad_video, max_bad_share
        # The workers of a process write to the same memory.
        self._status = torch.zeros(len(self.dataset), dtype=torch.uint8).share_memory_()

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
        return any(getattr(part, "test_mode", False) for part in with_inner(self.dataset))

    def __getitem__(self, idx: int) -> object:
        sample, fault = self._read(idx)
        test_mode, other = self.test_mode, idx
        if fault is None:
            return self._named(sample, idx) if test_mode else sample
        for _ in range(MOST_REPLACEMENTS):
            other = (other + 1) % len(self) if test_mode else np.random.randint(len(self))
            sample, fault_of_other = self._read(other)
            if fault_of_other is None:
                return self._named(self._flagged(sample, idx, fault), idx) if test_mode else sample
        raise TooManyBadVideos(
            f"sample {idx} is bad ({fault}), and so are {MOST_REPLACEMENTS} samples tried in its "
            f"place. Check data_prefix and the pipeline. {REMEDY}"
        )

    def _read(self, idx: int) -> tuple[object, BadVideo | None]:
        """Return a sample, or why it could not be read, which is logged and counted."""
        try:
            sample, fault = self._try(idx), None
        except BadVideo as error:
            if self.on_bad_video == "raise":
                raise
            sample, fault = None, error.without_cause()
        self._status[idx] = READ if fault is None else BAD
        if fault is not None:
            # MMEngine's logger gives each warning once, and so each file.
            print_log(f"bad video: {fault}", logger="current", level=logging.WARNING)
            self._check_share(fault)
        return sample, fault

    def _try(self, idx: int) -> object:
        """Return a sample; try again where storage may recover, with the same random draws."""
        for pause in (*PAUSES, None):
            if hasattr(idx, "seed"):
                set_seed(idx.seed)
            try:
                with limited_time(), _blamed_transforms():
                    return self.dataset[idx]
            except BadVideo as error:
                if pause is None or not error.may_pass:
                    raise
                message = f"{error}; trying again in {pause:g} s"
                print_log(message, logger="current", level=logging.WARNING)
            time.sleep(pause)

    def _info(self, idx: int) -> dict:
        known = hasattr(self.dataset, "get_data_info")  # not all datasets of PyTorch
        return self.dataset.get_data_info(idx) if known else {"sample_idx": idx}

    def _check_share(self, last: BadVideo) -> None:
        bad, read = int((self._status == BAD).sum()), int(self._status.count_nonzero())
        allowed = self.max_bad_share * max(read, min(len(self), 1000))
        if bad > max(allowed, 1 if self.max_bad_share else 0):
            raise TooManyBadVideos(
                f"{bad} bad ones among {read} samples of {len(self)} are too many for "
                f"max_bad_share={self.max_bad_share:g}; the last is {last}. {REMEDY}"
            )

    def _named(self, sample: object, idx: int) -> object:
        """Return a sample whose metainfo has its file."""
        data_sample = sample.get("data_samples") if isinstance(sample, dict) else None
        if isinstance(data_sample, ActionDataSample):
            data_sample.set_metainfo(dict(video_path=path_of(self._info(idx))))
        return sample

    def _flagged(self, filler: object, idx: int, fault: BadVideo) -> dict:
        """Return another sample with the annotation of a bad one."""
        info = self._info(idx)
        data_sample = filler.get("data_samples") if isinstance(filler, dict) else None
        if not isinstance(data_sample, ActionDataSample):
            raise fault  # metrics could not tell that it is wrong
        if "gt_label" in data_sample and "label" not in info:
            raise fault  # the label was made from the other video
        sample = data_sample.clone()
        known = {key: info[key] for key in sample.metainfo_keys() if key in info}
        flags = dict(bad_video=fault.reason, bad_path=fault.path, annotation_keys=tuple(known))
        sample.set_metainfo({**known, **flags})
        if "gt_label" in sample:
            sample.set_gt_label(info["label"])
        return {**filler, "data_samples": sample}


@contextmanager
def _blamed_transforms() -> Iterator[None]:
    before = _are_blamed.set(True)
    try:
        yield
    finally:
        _are_blamed.reset(before)


def _call_blamed(transform: BaseTransform, results: dict) -> Any:
    """Call a transform, also one in another; what one that reads files raises is ``BadVideo``.

    Other datasets, and who calls transforms, get the errors of MMAction2.
    """
    reads_files = isinstance(transform, READING) or getattr(transform, "reads_files", False)
    if not (reads_files and _are_blamed.get()):
        return _call(transform, results)
    with blame(path_of(results), type(transform).__name__):
        return _call(transform, results)


BaseTransform.__call__ = _call_blamed


def with_inner(dataset: object) -> Iterator[object]:
    """Yield a dataset and all that it wraps as ``dataset`` or ``datasets``, outermost first."""
    yield dataset
    inner = getattr(dataset, "dataset", None)
    wrapped = getattr(dataset, "datasets", ()) if inner is None else (inner,)
    for part in wrapped:
        yield from with_inner(part)
