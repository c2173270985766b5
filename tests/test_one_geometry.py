"""Validation, and testing with one view, prepare videos alike, in every shipped config."""

from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.dataset import Compose

from mmvidformer.config import pipelines
from mmvidformer.config.building import building
from mmvidformer.config.shipped import config_folder
from mmvidformer.engine.pipelines import check_views, set_views

# What differs, and why.
REASONS = {
    "timesformer_b_howto100m": "validation covers the whole video, as the official code does",
}
CONFIGS = {
    path.stem: path
    for path in sorted(config_folder().rglob("*.py"))
    if "_base_" not in path.parts and path.stem != "camera_motion"  # which has no validation
}
SIZES = {"portrait": (40, 72), "landscape": (84, 36), "square": (48, 48)}


@pytest.fixture(scope="module")
def videos(tmp_path_factory) -> dict[str, Path]:
    """Videos of noise, width x height, whose frames differ."""
    folder, rng = tmp_path_factory.mktemp("videos"), np.random.default_rng(0)
    paths = {}
    for name, size in SIZES.items():
        paths[name] = folder / f"{name}.mp4"
        writer = cv2.VideoWriter(str(paths[name]), cv2.VideoWriter_fourcc(*"mp4v"), 25, size)
        for _ in range(30):
            writer.write(rng.integers(0, 256, (*size[::-1], 3), dtype=np.uint8))
        writer.release()
    return paths


def one_view(name: str) -> tuple[Config, list[dict], list[dict]]:
    """The config, its validation pipeline, and that of testing with ``--views 1x1``."""
    cfg = Config.fromfile(CONFIGS[name])
    val_steps = next(pipelines(cfg.val_dataloader.dataset))
    set_views(cfg, 1, 1)
    return cfg, val_steps, next(pipelines(cfg.test_dataloader.dataset))


def by_pipelines() -> dict[str, str]:
    """One config of each pair of pipelines that read videos, by a text of the pair."""
    names = {}
    for name in CONFIGS:
        if name not in REASONS:
            _, val_steps, test_steps = one_view(name)
            if val_steps[0]["type"] == "mmvidformer.VideoInit":
                names[repr((val_steps, test_steps))] = name
    return names


@pytest.mark.parametrize("name", CONFIGS)
def test_validation_and_test_differ_in_views_only(name: str) -> None:
    check_views(Config.fromfile(CONFIGS[name]))


@pytest.mark.parametrize("name", by_pipelines().values())
def test_one_test_view_is_that_of_validation(name: str, videos: dict[str, Path]) -> None:
    cfg, val_steps, test_steps = one_view(name)
    with building(cfg):
        val, test = Compose(val_steps), Compose(test_steps)
    for video in videos.values():
        sample = dict(filename=str(video), label=0, start_index=0, modality="RGB")
        sample |= dict(segment=(0, 29), spans=np.zeros((0, 3)), background=-1)
        sample |= dict(action_start=1.1, timestamp=0, timestamp_start=0, shot_info=(0, 30), fps=25)
        expected, got = (pipeline(dict(sample))["inputs"] for pipeline in (val, test))
        assert torch.equal(expected, got)
        assert expected.float().std() > 10  # of pixels
