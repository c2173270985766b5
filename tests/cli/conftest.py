"""Fixtures of the tests of the command-line tools."""

import copy
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope

from mmvidformer.registry import MODELS


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


@pytest.fixture(scope="module")
def own(tiny_videos):
    """The tiny videos as lists of one's own."""
    (tiny_videos.root / "classes.txt").write_text("red\ngreen\nblue\n")
    return str(tiny_videos.root)


@pytest.fixture(scope="module")
def pretrained(make_config, tmp_path_factory):
    """A config of 5 classes whose validation takes few views at a time, and its weights."""
    few = dict(max_testing_views=1)
    config = make_config("five", model=dict(cls_head=dict(num_classes=5), test_cfg=few))
    cfg = Config.fromfile(config)
    cfg.val_dataloader.batch_size = 4
    cfg.dump(config)
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope("mmaction"):
        state = MODELS.build(Config.fromfile(config).model).state_dict()
    path = tmp_path_factory.mktemp("weights") / "five.pth"
    torch.save({"state_dict": state}, path)
    return str(config), str(path), state


@pytest.fixture(scope="module")
def model(make_config, tmp_path_factory) -> tuple[str, str]:
    """A tiny config with class names, and its weights."""
    config = make_config("tiny", class_names=["red", "green", "blue"])
    path = tmp_path_factory.mktemp("weights") / "tiny.pth"
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope("mmaction"):
        torch.save({"state_dict": MODELS.build(Config.fromfile(config).model).state_dict()}, path)
    return str(config), str(path)


@pytest.fixture
def folder(tiny_videos, tmp_path):
    """Two videos and a broken one, in folders."""
    root = tmp_path / "videos"
    for number in range(2):
        (root / str(number)).mkdir(parents=True)
        shutil.copy(tiny_videos.root / f"val_{number}.mp4", root / str(number) / "clip.mp4")
    (root / "bad.mp4").write_bytes(b"no video")
    return root


@pytest.fixture(scope="module")
def annotate(tiny_videos, tmp_path_factory):
    """A folder of lists for a task, of the tiny videos."""

    def annotate(task: str):
        root = tmp_path_factory.mktemp(task)
        names = ["red", "green", "blue"]
        rows = {"labels": ["video,label,split"], "number": ["video,level,size,split"],
                "frames": ["video,start,end,label,split"]}  # fmt: skip
        rows = {**rows, "segments": rows["frames"], "moments": ["video,time,label,split"]}
        rows = rows[task].copy()
        for split, count in {"train": 8, "val": 7}.items():
            for i in range(count):
                path = tiny_videos.root / f"{split}_{i}.mp4"
                rows += {
                    "labels": [f"{path},{names[i % 3]};{names[(i + 1) % 3]},{split}"],
                    "number": [f"{path},{i % 3 + 5},{i},{split}"],
                    "moments": [f"{path},0.3,{names[i % 3]},{split}"],
                }.get(task, [f"{path},0.1,0.5,{names[i % 3]},{split}"])
        (root / "all.csv").write_text("\n".join(rows))
        return root

    return annotate
