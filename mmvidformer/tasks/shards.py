"""Shards of a list of any task."""

from collections.abc import Iterator
from os.path import relpath
from pathlib import Path
from typing import Any

from mmaction.datasets import VideoDataset
from mmengine.dataset import BaseDataset
from mmengine.registry import DefaultScope

from mmvidformer.datasets.csv_rows import read_text
from mmvidformer.datasets.lists import read_list
from mmvidformer.datasets.own_videos import CLASSES, VideoLists
from mmvidformer.datasets.shards.write import write_shards
from mmvidformer.registry import DATASETS
from mmvidformer.tasks.base import Task
from mmvidformer.tasks.table import find_task, spell_task


def shard_list(
    file: str | Path,
    out: str | Path,
    task: str = "classes",
    root: str | Path | None = None,
    **options: Any,
) -> dict[str, str]:
    """Write the videos of a list of a task to shards, with their rows.

    Args:
        file: List of a split: what ``Task.write_lists`` writes, or MMAction2's.
        out: Folder or address of the shards.
        task: Name of the task, as in ``find_task``.
        root: Folder of the videos; default: that of the list.
        **options: Options of ``write_shards``.

    Returns:
        The bad videos by path, with the reason.

    Raises:
        FileNotFoundError: If the list, or a video that its format looks for, does not exist.
        ValueError: If a line is wrong; names file and line.
    """
    file, found_task = Path(file), find_task(task)
    folder = Path(root) if root else file.parent
    dataset = _open_list(file, found_task, folder)
    facts = dict(task=spell_task(found_task), classes=[*dataset.metainfo.get("classes", ())])
    return write_shards(_samples(dataset, folder), out, facts, **options)


def _open_list(file: Path, task: Task, root: Path) -> VideoDataset:
    """Return the dataset that reads a list, without a pipeline."""
    names = file.parent / CLASSES
    classes = tuple(read_text(names).splitlines()) if names.is_file() else ()
    options: dict[str, Any] = {}
    delimiter = ","
    if task.suffix == "txt":
        lines = read_list(file)  # says what is wrong
        delimiter = "\t" if any("\t" in text for text, _ in lines) else " "
        if max(len(text.strip().split(delimiter)) for text, _ in lines) > 2:
            options = dict(multi_class=True)
    else:
        annotations = task.read(file, classes).check()
        classes = classes if task.has_classes else annotations.names
    config = task.dataset_config(VideoLists(root, classes, {}, delimiter))
    options = {**options, "num_classes": len(classes), "metainfo": dict(classes=classes), **config}
    prefix = dict(video=str(root))
    with DefaultScope.overwrite_default_scope("mmaction"):
        return DATASETS.build(
            {
                "type": "VideoDataset",
                "ann_file": str(file),
                "pipeline": [],
                "data_prefix": prefix,
                "delimiter": delimiter,
                **options,
            }
        )


def _samples(dataset: BaseDataset, root: Path) -> Iterator[dict[str, Any]]:
    """Yield the samples of a dataset; the names of videos are relative to their folder."""
    for number in range(len(dataset)):
        # Not by the dataset's own method, which may turn labels into vectors.
        sample = BaseDataset.get_data_info(dataset, number)
        del sample["sample_idx"]
        path = sample["filename"]
        is_below = Path(path).is_relative_to(root)
        yield {**sample, "filename": relpath(path, root) if is_below else path, "path": path}
