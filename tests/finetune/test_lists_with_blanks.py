"""Preflight accepts lists of paths with blanks, and of absolute paths."""

import shutil

import pytest

from mmvidformer import get_config
from mmvidformer.datasets.own_videos import LabeledVideo, write_lists
from mmvidformer.engine.preflight import check
from mmvidformer.finetune import Recipe, apply_recipe


@pytest.mark.parametrize("place", [".", "elsewhere"])
def test_preflight(tiny_videos, tmp_path, place) -> None:
    videos = []
    for number in range(6):
        path = tmp_path / "my class" / f"{number}.mp4"
        path.parent.mkdir(exist_ok=True)
        shutil.copy(tiny_videos.root / f"val_{number}.mp4", path)
        split = ("train", "val", "test")[number // 2]
        videos.append(LabeledVideo(path, "ab"[number % 2], split))
    lists = write_lists(videos, tmp_path / place)
    assert lists.delimiter == "\t"
    cfg = get_config("timesformer_motion")
    apply_recipe(cfg, lists, Recipe())
    assert check(cfg) == ([], [])
    (tmp_path / "my class" / "0.mp4").unlink()
    assert any("0.mp4" in problem for problem in check(cfg)[0])
