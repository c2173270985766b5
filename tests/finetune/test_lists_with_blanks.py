"""Paths with blanks, and absolute paths, are read by the datasets of a fitted config."""

import shutil
from pathlib import Path

import pytest

from mmvidformer import get_config
from mmvidformer.config.building import building
from mmvidformer.data.importers import open_annotations
from mmvidformer.finetune.recipe import apply_recipe
from mmvidformer.finetune.settings import Recipe
from mmvidformer.registry import DATASETS
from mmvidformer.tasks.lists import split_annotations


@pytest.mark.parametrize("place", [".", "elsewhere"])
def test_paths_exist(tiny_videos, tmp_path, place) -> None:
    for number in range(6):
        split, label = ("train", "val", "test")[number // 2], "ab"[number % 2]
        path = tmp_path / split / label / f"my {number}.mp4"
        path.parent.mkdir(exist_ok=True, parents=True)
        shutil.copy(tiny_videos.root / f"val_{number}.mp4", path)
    lists = split_annotations(open_annotations(tmp_path), "classes", tmp_path / place)
    assert lists.delimiter == "\t"
    cfg, _ = apply_recipe(get_config("timesformer_motion"), lists, Recipe())
    for split in ("train", "val", "test"):
        with building(cfg):
            dataset = DATASETS.build(cfg[f"{split}_dataloader"].dataset)
        infos = [dataset.get_data_info(item) for item in range(2)]
        assert all(Path(info["filename"]).is_file() for info in infos)
        assert [info["label"] for info in infos] == [0, 1]
