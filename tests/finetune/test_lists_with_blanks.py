"""Paths with blanks, and absolute paths, are read by the datasets of a fitted config."""

import shutil
from pathlib import Path

import pytest

from mmvidformer import get_config
from mmvidformer.config.building import building
from mmvidformer.data.class_folders import LabeledVideo
from mmvidformer.data.own_videos import write_lists
from mmvidformer.finetune import Recipe, apply_recipe
from mmvidformer.registry import DATASETS


@pytest.mark.parametrize("place", [".", "elsewhere"])
def test_paths_exist(tiny_videos, tmp_path, place) -> None:
    videos = []
    for number in range(6):
        path = tmp_path / "my class" / f"{number}.mp4"
        path.parent.mkdir(exist_ok=True)
        shutil.copy(tiny_videos.root / f"val_{number}.mp4", path)
        split = ("train", "val", "test")[number // 2]
        videos.append(LabeledVideo(path, "ab"[number % 2], split))
    lists = write_lists(videos, tmp_path / place)
    assert lists.delimiter == "\t"
    cfg, _ = apply_recipe(get_config("timesformer_motion"), lists, Recipe())
    for split in ("train", "val", "test"):
        with building(cfg):
            dataset = DATASETS.build(cfg[f"{split}_dataloader"].dataset)
        infos = [dataset.get_data_info(item) for item in range(2)]
        assert all(Path(info["filename"]).is_file() for info in infos)
        assert [info["label"] for info in infos] == [0, 1]
