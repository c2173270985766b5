"""The labels of a dataset, as arrays."""

from typing import Any, NamedTuple

import numpy as np
from mmengine.dataset import BaseDataset
from torch import Tensor


class LabelTable(NamedTuple):
    """The labels of a dataset, one after another.

    Attributes:
        samples: Number of the sample of each label (n,).
        places: Its place among the labels of its sample (n,), such as the number of the task.
        classes: The labels (n,). Values and distributions are none.
    """

    samples: np.ndarray
    places: np.ndarray
    classes: np.ndarray


def label_table(dataset: Any) -> LabelTable:
    """Return the labels of a dataset of MMEngine's, or of a wrapper with ``get_data_info``.

    Those of a dataset with an array ``labels`` (samples,) are known at once. Others are read sample
    by sample.
    """
    labels = getattr(dataset, "labels", None)
    if isinstance(labels, np.ndarray):
        numbers = np.arange(len(labels))
        return LabelTable(numbers, np.zeros_like(numbers), labels)
    rows = [_labels_of(dataset, number) for number in range(len(dataset))]
    counts = np.array([len(row) for row in rows], int)
    samples = np.repeat(np.arange(len(rows)), counts)
    places = np.arange(len(samples)) - np.repeat(np.cumsum(counts) - counts, counts)
    classes = np.concatenate([*rows, np.zeros(0, int)])
    return LabelTable(samples, places, classes)


def _labels_of(dataset: Any, number: int) -> np.ndarray:
    """Return the labels of a sample; a vector of zeros and ones tells those of several."""
    is_plain = isinstance(dataset, BaseDataset)  # whose own method may turn labels into vectors
    info = BaseDataset.get_data_info(dataset, number) if is_plain else dataset.get_data_info(number)
    label = info.get("label", ())
    if not is_plain and isinstance(label, Tensor) and label.is_floating_point():
        label = label.nonzero()[:, 0]
    label = np.ravel(label)
    return label if label.dtype.kind in "iu" else np.zeros(0, int)
