"""A text list of videos that all workers of a process share."""

import mmvidformer.repairs  # noqa: F401  isort: skip  (repairs MMAction2 first)

from collections.abc import Sequence
from os.path import join
from typing import Any

import numpy as np
import torch
from mmaction.datasets import VideoDataset
from mmengine.dataset import BaseDataset
from torch import Tensor

from mmvidformer.catalog import DATASETS
from mmvidformer.data.lists import DEFAULT_DELIMITER, find_delimiter, read_list
from mmvidformer.data.text import decode_text
from mmvidformer.errors import UserError
from mmvidformer.storage.files import read_file

NO_LABEL = -1  # MMAction2's, of a line without one


class ListedVideos(Sequence):
    """The samples of a list, each read from its line when it is asked for.

    Text, places of the lines, and labels are in shared memory: workers get no copies.

    Args:
        text: The list, in UTF-8.
        delimiter: Delimiter of the columns.
        folder: Folder of the videos.
        multi_class: Whether a line has any number of labels.

    Raises:
        UserError: If a line has another form.
    """

    def __init__(self, text: bytes, delimiter: str, folder: str, multi_class: bool) -> None:
        self._delimiter, self._folder, self._multi_class = delimiter, folder, multi_class
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").rstrip()
        lines = text.decode().split("\n") if text else []
        read_label = self._labels if multi_class else self._label
        labels = [read_label(line) for line in lines]
        self._labels_of_lines = None if multi_class else shared(np.array(labels, np.int64))
        content = np.frombuffer(text, np.uint8)
        ends = np.flatnonzero(content == ord("\n"))
        if len(ends) < len(lines):
            ends = np.append(ends, len(content))
        self._text, self._ends = shared(content), shared(ends)

    @property
    def labels(self) -> np.ndarray | None:
        """The label of each line (n,), -1 if it has none; None with ``multi_class``."""
        return None if self._labels_of_lines is None else self._labels_of_lines.numpy()

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, number: int | slice) -> Any:
        """Return ``filename`` and ``label`` of a line, or a list of them."""
        numbers = range(len(self))[number]
        if isinstance(numbers, range):
            return [self[place] for place in numbers]
        start = int(self._ends[numbers - 1]) + 1 if numbers else 0
        line = self._text[start : int(self._ends[numbers])].numpy().tobytes().decode()
        path = join(self._folder, line.strip().split(self._delimiter)[0])
        label = self._labels(line) if self._multi_class else int(self.labels[numbers])
        return dict(filename=path, label=label)

    def paths(self) -> list[str]:
        """Return the path of each video."""
        lines = self._text.numpy().tobytes().decode().split("\n")[: len(self)]
        return [join(self._folder, line.strip().split(self._delimiter)[0]) for line in lines]

    def _labels(self, line: str) -> list[int]:
        path, *labels = line.strip().split(self._delimiter)
        if not path:
            raise UserError("no path")
        return [int(label) for label in labels]

    def _label(self, line: str) -> int:
        labels = self._labels(line)
        if len(labels) > 1:
            raise UserError(f"more than one label: {line[:100]!r}")
        return labels[0] if labels else NO_LABEL


@DATASETS.add
class ListedVideoDataset(VideoDataset):
    """MMAction2's ``VideoDataset``, whose list may be long.

    Its samples are the same. The list is read at once and kept as text, shared by the workers of a
    process. It may be in object storage. ``mmvidformer train`` puts it in place of
    ``VideoDataset``, whose arguments it has; with its default ``delimiter``, a space, the one that
    the list has is found (``find_delimiter``).

    Raises:
        UserError: If a line has another form; names file, line and text.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "serialize_data": False})

    def load_data_list(self) -> ListedVideos:
        """Read the list."""
        text = decode_text(read_file(self.ann_file), self.ann_file).encode()
        folder = self.data_prefix["video"] or ""
        if self.delimiter == DEFAULT_DELIMITER:
            self.delimiter = find_delimiter(text.decode())
        try:
            return ListedVideos(text, self.delimiter, folder, self.multi_class)
        except ValueError:
            read_list(self.ann_file, self.delimiter, self.multi_class)  # says which line
            raise

    @property
    def labels(self) -> np.ndarray | None:
        """The label of each sample (n,), -1 if it has none; None if they are not known at once."""
        return getattr(self.data_list, "labels", None)


class _SharedArray:
    """An array of the workers of a process, with what MMEngine needs of one."""

    def __init__(self, array: np.ndarray) -> None:
        self._tensor = shared(array)

    def __len__(self) -> int:
        return len(self._tensor)

    def __getitem__(self, place: int | slice) -> Any:
        return self._tensor.numpy()[place]


def share_samples(dataset: object) -> None:
    """Let the workers of a process share the samples of one of MMEngine's datasets.

    Datasets that are no ``BaseDataset``, or do not keep their samples as bytes, stay.
    """
    if not isinstance(dataset, BaseDataset) or not dataset.serialize_data:
        return
    if isinstance(getattr(dataset, "data_bytes", None), np.ndarray):
        dataset.data_bytes = _SharedArray(dataset.data_bytes)
        dataset.data_address = _SharedArray(dataset.data_address)


def shared(array: np.ndarray) -> Tensor:
    """Return a copy of an array in memory that processes share when they are started."""
    return torch.from_numpy(np.array(array)).share_memory_()
