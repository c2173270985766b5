"""A dataset whose videos are in shards."""

import mmvidformer.repairs  # noqa: F401  isort: skip  (repairs MMAction2 first)

from typing import Any

import numpy as np
from mmaction.datasets import VideoDataset

from mmvidformer.catalog import DATASETS
from mmvidformer.data.shards.index import ShardIndex, WrongShards
from mmvidformer.data.transforms.decoders import DECODERS, VideoInit


@DATASETS.add
class ShardedVideoDataset(VideoDataset):
    """Samples of any task whose videos are in shards (``mmvidformer data shard``).

    They are the samples of the list, in its order, so seeds, resuming and the policy for bad videos
    are the same as with files. A sample's row and bytes are read by its number: a process holds
    the pages of the index that it has read, which all processes share. The pipeline opens videos
    with ``VideoInit``.

    Args:
        ann_file: Folder or address of the shards.
        *args: Further arguments of MMAction2's ``VideoDataset``.
        task: Name of the task that the rows must be of; None: any.
        **kwargs: Further arguments of MMAction2's ``VideoDataset``. ``data_prefix`` and
            ``delimiter`` have no meaning here, and classes of ``metainfo`` are those of the shards
            by default.

    Raises:
        FileNotFoundError: If there are no shards.
        WrongShards: If they are damaged, or have other classes or another task; or the pipeline
            opens videos with something else than ``VideoInit``, or by decord.
    """

    def __init__(self, ann_file: str, *args: Any, task: str | None = None, **kwargs: Any) -> None:
        self.task = task
        super().__init__(ann_file, *args, **{**kwargs, "serialize_data": False})
        for step in self.pipeline.transforms:
            is_ours = isinstance(step, VideoInit) and step.backend != "decord"
            if isinstance(step, tuple(DECODERS)) and not is_ours:
                wanted = "mmvidformer.VideoInit with 'pyav' or 'torchcodec'"
                raise WrongShards(f"shards are opened by {wanted}, not by {type(step).__name__}")

    def load_data_list(self) -> ShardIndex:
        """Map the index, which is a list of samples."""
        index = ShardIndex(self.ann_file)
        if self.task not in (None, index.task):
            raise WrongShards(f"{self.ann_file} has rows of {index.task!r}, not of {self.task!r}")
        classes = tuple(self._metainfo.get("classes") or ())
        if classes and index.classes and classes != index.classes:
            many = f"{len(index.classes)} classes, such as {', '.join(index.classes[:3])}"
            raise WrongShards(f"{self.ann_file} has {many}, not the {len(classes)} of the config")
        if index.classes:
            self._metainfo["classes"] = index.classes
        self._metainfo.update(index.metainfo)
        return index

    @property
    def labels(self) -> np.ndarray | None:
        """The label of each sample (n,); None if they are not known at once."""
        return getattr(self.data_list, "labels", None)

    @property
    def index(self) -> ShardIndex:
        """The index of the shards."""
        return self.data_list
