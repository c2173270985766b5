"""Shards of a list of any task, and of the lists of a config."""

import mmvidformer.repairs  # noqa: F401  isort: skip  (repairs MMAction2 first)

from collections.abc import Iterator
from os.path import relpath
from pathlib import Path
from typing import Any

from mmaction.datasets import VideoDataset
from mmengine.config import Config
from mmengine.dataset import BaseDataset
from mmengine.registry import DefaultScope

from mmvidformer.catalog import DATASETS
from mmvidformer.config import leaf_datasets
from mmvidformer.config.building import building
from mmvidformer.data.list_folders import CLASSES, VideoLists
from mmvidformer.data.lists import DEFAULT_DELIMITER, read_list
from mmvidformer.data.shards.rows import write_row
from mmvidformer.data.shards.write import write_shards
from mmvidformer.data.splits import SPLITS
from mmvidformer.data.tables import read_table
from mmvidformer.data.text import read_text
from mmvidformer.errors import UserError
from mmvidformer.storage.cache import local_copy
from mmvidformer.storage.files import exists, is_remote, join, split_path
from mmvidformer.tasks.base import Task
from mmvidformer.tasks.table import find_task, spell_task, task_of


def shard_list(
    file: str | Path,
    out: str | Path,
    task: str = "classes",
    root: str | Path | None = None,
    **options: Any,
) -> dict[str, str]:
    """Write the videos of a list of a task to shards, with their rows.

    Args:
        file: List of a split: what ``Task.write_lists`` writes, or MMAction2's. It may be an
            address, beside which ``classes.txt`` is looked for, as beside files.
        out: Folder or address of the shards.
        task: Name of the task, as in ``find_task``.
        root: Folder or address of the videos; default: that of the list.
        **options: Options of ``write_shards``.

    Returns:
        The bad videos by path, with the reason.

    Raises:
        FileNotFoundError: If the list, or a video that its format looks for, does not exist.
        UserError: If a line is wrong; names file and line. Or if the task looks for videos by
            name, and their folder is an address.
    """
    found_task, (folder, _) = find_task(task), split_path(str(file))
    root = str(root or folder)
    if is_remote(root) and found_task.needs_boxes:
        raise UserError(f"{task} are of videos that are found by name in a folder, not in {root}")
    names = join(folder, CLASSES)
    classes = tuple(read_text(local_copy(names)).splitlines()) if exists(names) else ()
    dataset = _open_list(local_copy(str(file)), found_task, root, classes)
    facts = dict(task=spell_task(found_task), classes=[*dataset.metainfo.get("classes", ())])
    return write_shards(_samples(dataset, root), out, facts, **options)


def shard_config(cfg: Config, out: str | Path, **options: Any) -> dict[str, dict[str, str]]:
    """Write the lists of a config to shards, whatever datasets read them.

    Those of ``train.csv`` are in ``out/train``. A list of several splits is written once.

    Args:
        cfg: A config whose datasets read videos.
        out: Folder or address.
        **options: Options of ``write_shards``.

    Returns:
        For each list the bad videos by path, with the reason.

    Raises:
        FileNotFoundError: If a list does not exist.
        UserError: If a dataset reads no videos, or two lists have one name.
    """
    by_list: dict[str, dict[str, Any]] = {}
    for split in SPLITS:
        for leaf in leaf_datasets((cfg.get(f"{split}_dataloader") or {}).get("dataset") or {}):
            if leaf.get("ann_file"):
                by_list.setdefault(leaf["ann_file"], leaf)
    names = [Path(file).stem for file in by_list]
    if not names or len({*names}) < len(names):
        raise UserError(f"the lists of a config must have different names, got {[*by_list]}")
    faults = {}
    for (file, leaf), name in zip(by_list.items(), names, strict=True):
        root = (leaf.get("data_prefix") or {}).get("video")
        if root is None:
            raise UserError(f"{leaf['type']} reads no videos: data_prefix has no 'video'")
        with building(cfg):
            dataset = DATASETS.build(leaf)
        metainfo = {key: value for key, value in dataset.metainfo.items() if key != "classes"}
        facts = dict(
            task=spell_task(task_of(cfg)),
            classes=[*dataset.metainfo.get("classes", ())],
            metainfo=write_row(metainfo),
        )
        faults[file] = write_shards(_samples(dataset, root), join(out, name), facts, **options)
    return faults


def _open_list(file: Path, task: Task, root: str, classes: tuple[str, ...]) -> VideoDataset:
    """Return the dataset that reads a list, without a pipeline."""
    options: dict[str, Any] = {}
    if task.suffix == "txt":
        lines = read_list(file)  # says what is wrong
        if max(len(line.labels) for line in lines) > 1:
            options = dict(multi_class=True)
    else:
        annotations = task.read(read_table(file), classes).check()
        classes = classes if task.has_classes else annotations.names
    config = task.dataset_config(VideoLists(Path(root), classes, {}, DEFAULT_DELIMITER))
    options = {**options, "num_classes": len(classes), "metainfo": dict(classes=classes), **config}
    with DefaultScope.overwrite_default_scope("mmaction"):
        return DATASETS.build(
            {
                "type": "mmvidformer.ListedVideoDataset",
                "ann_file": str(file),
                "pipeline": [],
                "data_prefix": dict(video=root),
                **options,
            }
        )


def _samples(dataset: BaseDataset, root: str) -> Iterator[dict[str, Any]]:
    """Yield the samples of a dataset; the names of videos are relative to their folder."""
    for number in range(len(dataset)):
        # Not by the dataset's own method, which may turn labels into vectors.
        sample = BaseDataset.get_data_info(dataset, number)
        del sample["sample_idx"]
        path = sample["filename"]
        yield {**sample, "filename": _relative(path, root), "path": path}


def _relative(path: str, root: str) -> str:
    """Return a path relative to a folder or an address, if it is below."""
    if is_remote(root):
        return path.removeprefix(join(root, ""))
    return relpath(path, root) if Path(path).is_relative_to(root) else path
