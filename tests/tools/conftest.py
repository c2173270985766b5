"""Fixtures of the tests of the command-line tools."""

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
from mmengine.config import Config


@pytest.fixture(scope="session")
def make_config(tiny_videos, tmp_path_factory) -> Callable:
    """Write a variant of the tiny config to a file; gives its path."""

    def make(name: str, **changes: object) -> Path:
        cfg = Config.fromfile(Path(__file__).parent / "tiny_vivit.py")
        for split, videos in (
            ("train", tiny_videos.train),
            ("val", tiny_videos.val),
            ("test", tiny_videos.val),
        ):
            dataset = cfg[f"{split}_dataloader"].dataset
            dataset.ann_file = str(videos)
            dataset.data_prefix.video = str(tiny_videos.root)
        cfg.merge_from_dict(copy.deepcopy(changes))  # it consumes _delete_
        path = tmp_path_factory.mktemp("config") / f"{name}.py"
        cfg.dump(path)
        return path

    return make
