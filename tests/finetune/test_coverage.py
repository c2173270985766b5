"""Epochs that cover videos, and runs that are too short."""

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from mmvidformer import get_config
from mmvidformer.data.list_folders import VideoLists
from mmvidformer.engine.checkpointing.loop import ResumableSampler
from mmvidformer.finetune.coverage import CoverSampler
from mmvidformer.finetune.recipe import apply_recipe
from mmvidformer.finetune.schedule import note_few_steps
from mmvidformer.finetune.settings import Recipe
from mmvidformer.registry import DATA_SAMPLERS, DATASETS
from mmvidformer.tasks.lists import read_task_lists

SECONDS = {"long.mp4": 60, "short.mp4": 2.5, "none.mp4": None}


class Videos:
    """Videos of 60 s and 2.5 s, and one without spans."""

    def __len__(self) -> int:
        return len(SECONDS)

    def get_data_info(self, number: int) -> dict:
        end = [*SECONDS.values()][number]
        return {"spans": np.zeros((0, 3)) if end is None else np.array([[0, end, 1], [0, 1, 0]])}


def test_an_epoch_covers_the_videos() -> None:
    sampler = CoverSampler(Videos(), seconds=1.0, seed=0)
    first, second = list(sampler), sampler.set_epoch(1) or list(sampler)
    assert len(sampler) == 64
    assert Counter(first) == Counter(second) == {0: 60, 1: 3, 2: 1}
    assert first != second
    assert {index.seed for index in first}.isdisjoint(index.seed for index in second)


def test_ranks_share_the_samples_of_an_epoch(monkeypatch) -> None:
    whole = list(CoverSampler(Videos(), seconds=1.0, seed=0))
    drawn = []
    for rank in range(3):
        monkeypatch.setattr("mmengine.dataset.sampler.get_dist_info", lambda rank=rank: (rank, 3))
        sampler = CoverSampler(Videos(), seconds=1.0, seed=0)
        assert len(sampler) == 22
        drawn.append(list(sampler))
    in_order = [index for turn in zip(*drawn, strict=True) for index in turn]
    assert in_order == [*whole, *whole[:2]]


def test_a_resumed_epoch_goes_on() -> None:
    sampler = CoverSampler(Videos(), seconds=1.0, seed=0)
    whole = list(sampler)
    sampler.skip = 50
    assert list(sampler) == whole[50:] and issubclass(CoverSampler, ResumableSampler)


@pytest.fixture
def lists(tmp_path):
    """lists of two videos, of 60 s and 20 s, and one for validation; the videos do not exist."""
    for split, videos in {"train": {"a": 60, "b": 20}, "val": {"c": 20}}.items():
        with (tmp_path / f"{split}.csv").open("w", newline="") as out:
            rows = csv.writer(out)
            rows.writerow(("video", "start", "end", "label"))
            for video, seconds in videos.items():
                for start in range(0, seconds, 2):
                    label = ("rest", "feed")[start % 4 // 2]
                    rows.writerow((f"{video}.mp4", start, start + 2, label))
    (tmp_path / "classes.txt").write_text("feed\nrest\n")
    return lambda task: read_task_lists(tmp_path, task)


@pytest.mark.parametrize(("task", "clips"), [("frames", 1), ("segments", 4)])
def test_a_video_gives_as_many_samples_as_cover_it(lists, task, clips) -> None:
    """Clips of 16 frames, every second of them, which are 1.28 s at 25 frames per second."""
    cfg, notes = apply_recipe(get_config("vivit_fe_motion"), lists(task), Recipe(task=task))
    seconds, samples = 1.28 * clips, sum(-(-end // (1.28 * clips)) for end in (60, 20))
    assert f"an epoch has a sample for every {seconds:g} s of a video" in notes
    dataset = DATASETS.build({**cfg.train_dataloader.dataset, "pipeline": []})
    sampler = DATA_SAMPLERS.build(dict(cfg.train_dataloader.sampler, dataset=dataset))
    assert len(sampler) == samples
    batch = cfg.train_dataloader.batch_size
    assert f"30 epochs of {-(-samples // batch):g} steps" in notes
    assert cfg.val_dataloader.sampler.type == "DefaultSampler"  # each video once


@pytest.fixture
def class_lists(tmp_path: Path):
    """Make lists of two classes, with some videos for training and two for validation."""

    def make(count: int = 2) -> VideoLists:
        rows = [f"{number}.mp4 {number % 2}\n" for number in range(count)]
        (tmp_path / "train.txt").write_text("".join(rows))
        (tmp_path / "val.txt").write_text("c.mp4 0\nd.mp4 1\n")
        (tmp_path / "classes.txt").write_text("x\ny\n")
        return read_task_lists(tmp_path, "classes")

    return make


@pytest.mark.parametrize("balance", [None, "sampling"])
@pytest.mark.parametrize(
    ("count", "weights", "draws"),
    [
        (2, None, 40),  # 30 epochs of 10 steps of 8 clips
        (2, "start.pth", 8),  # 30 of 2 steps, as 50 are enough
        (79, None, 2),
        (80, None, 1),
    ],
)
def test_few_videos_of_a_class_are_drawn_more_often(
    class_lists, count, weights, draws, balance
) -> None:
    """The 30 epochs of the config are 300 steps, or 50 from weights, however few the videos."""
    base = get_config("vivit_fe_motion")
    base.load_from = weights
    lists, recipe = class_lists(count), Recipe(balance=balance)
    cfg, notes = apply_recipe(base, lists, recipe)
    loader = cfg.train_dataloader
    assert loader.batch_size == 8 and cfg.train_cfg.max_epochs == 30
    dataset = DATASETS.build({**loader.dataset, "pipeline": []})
    sampler = DATA_SAMPLERS.build(dict(loader.sampler, dataset=dataset, seed=0))
    assert len(sampler) == count * draws
    assert {*sampler} == {*range(count)} if balance is None else {*sampler} <= {*range(count)}
    assert f"30 epochs of {-(-count * draws // 8)} steps" in notes
    said = f"each video is drawn {draws} times an epoch, as there are few"
    assert (said in notes) == (draws > 1)
    assert note_few_steps(cfg, lists, recipe) == []


def test_ranks_share_videos_that_are_drawn_often(class_lists) -> None:
    cfg, notes = apply_recipe(get_config("vivit_fe_motion"), class_lists(4), Recipe(procs=2))
    assert "30 epochs of 10 steps" in notes and cfg.train_dataloader.sampler.draws == 40


@pytest.mark.parametrize(
    ("epochs", "weights", "said"),
    [
        (30, None, "30 steps in all: too few to learn from random weights; --epochs 300"),
        (300, None, None),
        (30, "start.pth", "30 steps in all: too few to learn from these weights; --epochs 50"),
        (50, "start.pth", None),
    ],
)
def test_too_few_steps_are_told(class_lists, epochs, weights, said) -> None:
    """Epochs that are asked for are as long as the list."""
    base = get_config("vivit_fe_motion")
    base.load_from = weights
    lists, recipe = class_lists(), Recipe(epochs=epochs)
    cfg, _ = apply_recipe(base, lists, recipe)
    assert note_few_steps(cfg, lists, recipe) == ([said] if said else [])
