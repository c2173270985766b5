"""Annotations that name files outside the data's folder."""

import os

from mmengine.dataset import BaseDataset
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch.utils.data import Dataset

from mmvidformer.datasets.decoding.errors import PATH_KEYS
from mmvidformer.datasets.wrapped import with_inner
from mmvidformer.registry import HOOKS


def is_below(path: str, folder: str) -> bool:
    """Whether a path lies below a folder, as written: links are not followed."""
    root = os.path.abspath(folder)
    return os.path.commonpath([root, os.path.abspath(path)]) == root


def check_inside(dataset: Dataset) -> None:
    """Check that all files of a dataset, and of those that it wraps, lie below its prefix.

    ``data_prefix`` is joined with what the annotation says, and an absolute path or ``..`` there
    leads out of it. Without a prefix an annotation may name any file, as MMAction2's users do
    with absolute paths. Paths are compared as written: links in the data's folder may lead
    elsewhere.

    Args:
        dataset: A dataset of MMEngine's kind; others pass.

    Raises:
        ValueError: At the first path outside; names the annotation file, the line or entry, and
            the folder.
    """
    for one in with_inner(dataset):
        if not isinstance(one, BaseDataset):
            continue
        prefixes = [prefix for prefix in (one.data_prefix or {}).values() if prefix]
        roots = [os.path.abspath(prefix) for prefix in prefixes]
        if not roots:
            continue
        for number in range(len(one)):
            entry = one.get_data_info(number)
            for path in filter(None, map(entry.get, PATH_KEYS)):
                if not any(is_below(path, root) for root in roots):
                    where = entry.get("where", f"{one.ann_file}, entry {number + 1}")
                    raise ValueError(
                        f"{where}: {path} is outside {' and '.join(roots)}, "
                        "the data_prefix. Annotations must not lead out of it by '..' or absolute "
                        "paths; with an empty data_prefix absolute paths are taken as they are"
                    )


@HOOKS.register_module()
class DataRootHook(Hook):
    """Run ``check_inside`` on the data of training, validation and test before the first step."""

    priority = "VERY_HIGH"

    def before_train(self, runner: Runner) -> None:
        """Check the data of training and validation."""
        check_inside(runner.train_dataloader.dataset)
        if runner.val_loop is not None:
            check_inside(runner.val_dataloader.dataset)

    def before_test(self, runner: Runner) -> None:
        """Check the data of the test."""
        check_inside(runner.test_dataloader.dataset)
