"""Long videos of one class: ``data list`` says how long they are, and an epoch covers them."""

from collections import Counter
from pathlib import Path

import av
import numpy as np
import pytest
import torch

from lab.synthetic.render import write_video
from mmvidformer import get_config
from mmvidformer.__main__ import main
from mmvidformer.config import type_name
from mmvidformer.data.list_folders import VideoLists
from mmvidformer.errors import UserError
from mmvidformer.finetune.coverage import CoverSampler, clip_seconds, samples_of
from mmvidformer.finetune.recipe import apply_recipe
from mmvidformer.finetune.settings import Recipe
from mmvidformer.registry import DATA_SAMPLERS, DATASETS
from mmvidformer.tasks.lists import read_task_lists

SHORT, LONG, VARIABLE = 5.0, 64.0, 39.0  # seconds
CLIP = 1.28  # of vivit_fe_motion: 16 frames, every second of 25 in a second
# A frame a second, and many in the first one.
TIMES = [*(number / 25 for number in range(25)), *range(1, 40)]


def write_at(file: Path, times: list[float]) -> None:
    """Write gray frames that are shown at some seconds."""
    with av.open(str(file), "w") as video:
        stream = video.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.pix_fmt = 32, 32, "yuv420p"
        for time in times:
            frame = av.VideoFrame.from_ndarray(np.full((32, 32, 3), 100, np.uint8), "rgb24")
            frame.pts = round(25 * time)
            video.mux(stream.encode(frame))
        video.mux(stream.encode())


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two short videos, two long ones, and annotations of the tasks."""
    folder = tmp_path_factory.mktemp("videos")
    for name, seconds in {"a": SHORT, "b": SHORT, "c": LONG}.items():
        frames = np.full((int(2 * seconds), 32, 32, 3), 100, np.uint8)
        write_video(folder / f"{name}.mp4", frames, 2)
    write_at(folder / "d.mp4", TIMES)
    files = [f"{name}.mp4" for name in "abcd"]
    tables = {
        "classes": ["video,label", *(f"{file},{file in files[2:]}" for file in files)],
        "labels": ["video,label", *(f"{file},{file in files[2:]}" for file in files)],
        "number": ["video,speed", *(f"{file},{number}.5" for number, file in enumerate(files))],
        "segments": ["video,start,end,label", *(f"{file},0,2,x" for file in files)],
        "short": ["video,label", "a.mp4,x", "b.mp4,y"],
    }
    for task, (header, *rows) in tables.items():
        lines = [f"{header},split", *(f"{row},train" for row in rows)]
        (folder / f"{task}.csv").write_text("\n".join(lines) + "\n")
    return folder


def list_videos(videos: Path, out: Path, task: str, name: str = "", *options: str) -> VideoLists:
    """Run ``mmvidformer data list``, and read the lists."""
    file = videos / f"{name or task}.csv"
    arguments = ["data", "list", str(file), "--task", task, "--out", str(out), *options]
    assert main(arguments) == 0
    return read_task_lists(out, task)


def sampler_of(cfg, **options: object) -> CoverSampler:
    """The sampler of training of a config."""
    dataset = DATASETS.build({**cfg.train_dataloader.dataset, "pipeline": []})
    return DATA_SAMPLERS.build(dict(cfg.train_dataloader.sampler, dataset=dataset, **options))


def count_of(seconds: float) -> int:
    return -int(-seconds // CLIP)


@pytest.mark.parametrize("task", ["classes", "labels", "number"])
def test_an_epoch_covers_long_videos_of_one_answer(videos, tmp_path, task) -> None:
    lists = list_videos(videos, tmp_path, task)
    assert lists.facts["train"].durations == pytest.approx([SHORT, SHORT, LONG, VARIABLE], abs=0.5)
    cfg, notes = apply_recipe(get_config("vivit_fe_motion"), lists, Recipe(task=task, epochs=2))
    sampler = sampler_of(cfg, seed=0)
    counts = Counter(map(int, sampler))
    variable = count_of(lists.facts["train"].durations[3])
    assert counts == {0: 1, 1: 1, 2: count_of(LONG), 3: variable}
    said = f"2 videos over 30 s: an epoch has a sample for every {CLIP} s, at most 99 of each"
    assert said in notes
    assert f"2 epochs of {-(-len(sampler) // cfg.train_dataloader.batch_size)} steps" in notes


def test_without_epochs_the_samples_are_drawn_often_enough(videos, tmp_path) -> None:
    lists = list_videos(videos, tmp_path, "classes")
    cfg, notes = apply_recipe(get_config("vivit_fe_motion"), lists, Recipe())
    (once,) = {sampler_of(cfg, seed=0).samples.tolist().count(0)}
    assert once == 1 and "draws" not in cfg.train_dataloader.sampler  # 30 epochs of 11 steps
    cfg, notes = apply_recipe(get_config("vivit_fe_motion"), lists, Recipe(batch=32))
    assert sampler_of(cfg, seed=0).samples.tolist().count(0) == cfg.train_dataloader.sampler.draws
    assert any(note.startswith("each sample is drawn") for note in notes)


def test_ranks_share_the_samples(videos, tmp_path, monkeypatch) -> None:
    lists = list_videos(videos, tmp_path, "classes")
    cfg, _ = apply_recipe(get_config("vivit_fe_motion"), lists, Recipe(epochs=2, procs=2))
    drawn: Counter = Counter()
    for rank in range(2):
        monkeypatch.setattr("mmengine.dataset.sampler.get_dist_info", lambda rank=rank: (rank, 2))
        drawn.update(map(int, sampler_of(cfg, seed=0)))
    assert drawn[2] in (count_of(LONG), count_of(LONG) + 1) and {*drawn} == {0, 1, 2, 3}


@pytest.mark.parametrize("balance", ["sampling", "weights"])
def test_classes_are_balanced_by_their_samples(videos, tmp_path, balance) -> None:
    """Class ``True`` has two long videos, of which an epoch has many samples."""
    lists = list_videos(videos, tmp_path, "classes")
    recipe = Recipe(epochs=2, balance=balance)
    cfg, notes = apply_recipe(get_config("vivit_fe_motion"), lists, recipe)
    long = sum(map(count_of, lists.facts["train"].durations[2:]))
    assert f"balanced by {balance}: classes have 2 to {long} samples" in notes
    if balance == "weights":
        few, many = cfg.model.cls_head.loss_cls.class_weight
        assert few / many == pytest.approx(long / 2, rel=1e-4)
        return
    cfg.train_dataloader.sampler.draws = 50
    counts = Counter(map(int, sampler_of(cfg, seed=0)))
    assert counts.total() == 50 * (long + 2)
    assert (counts[0] + counts[1]) / counts.total() == pytest.approx(0.5, abs=0.05)
    assert counts[2] / counts[3] == pytest.approx(LONG / VARIABLE, rel=0.2)


@pytest.mark.parametrize(
    ("task", "name", "options"),
    [("classes", "short", ()), ("segments", "", ()), ("classes", "", ("--no-check",))],
    ids=["short", "seconds are annotated", "not opened"],
)
def test_lists_state_no_durations(videos, tmp_path, task, name, options) -> None:
    lists = list_videos(videos, tmp_path, task, name, *options)
    assert not (tmp_path / "durations.csv").exists()
    cfg, _ = apply_recipe(get_config("vivit_fe_motion"), lists, Recipe(task=task, epochs=1))
    sampler = cfg.train_dataloader.sampler
    assert "durations" not in sampler
    assert type_name(sampler) == ("CoverSampler" if task == "segments" else "ResumableSampler")


def test_a_clip_that_spans_its_video_is_one_sample(videos, tmp_path) -> None:
    lists = list_videos(videos, tmp_path, "classes")
    cfg, _ = apply_recipe(get_config("timesformer_b_sthv2"), lists, Recipe(epochs=1))
    assert type_name(cfg.train_dataloader.sampler) == "ResumableSampler"


@pytest.mark.parametrize(("task", "key"), [("segments", "clips"), ("classes", "frame_interval")])
def test_the_length_of_an_epoch_depends_on_overrides(videos, tmp_path, task, key) -> None:
    lists, base = list_videos(videos, tmp_path, task), get_config("vivit_fe_motion")
    plain, _ = apply_recipe(base, lists, Recipe(task=task, epochs=1))
    options = {f"train_dataloader.dataset.pipeline.1.{key}": 8}
    cfg, notes = apply_recipe(base, lists, Recipe(task=task, epochs=1), options)
    before, after = plain.train_dataloader, cfg.train_dataloader
    ratio = 8 / before.dataset.pipeline[1][key]
    assert after.sampler.seconds == pytest.approx(ratio * before.sampler.seconds) and ratio > 1
    assert f"1 epochs of {-(-len(sampler_of(cfg)) // after.batch_size)} steps" in notes


def test_shards_and_a_day() -> None:
    """Shards name videos as lists do; a day has 99 samples."""
    assert samples_of([86400.0, 30.0, 0.0], 1.0, long_only=True).tolist() == [99, 1, 1]
    assert samples_of([86400.0, 30.0, 0.0], 1.0, long_only=False).tolist() == [86400, 30, 1]


@pytest.mark.parametrize("root", ["", "folder"])
def test_videos_are_found_by_their_names(tmp_path, root) -> None:
    class Videos:
        def __len__(self) -> int:
            return 2

        def get_data_info(self, number: int) -> dict:
            return {"filename": str(tmp_path / "ab"[number] if root else "ab"[number])}

    file = tmp_path / "durations.csv"
    file.write_text("video,seconds\nb,31\nother,90\n")
    sampler = CoverSampler(Videos(), seconds=10.0, durations=str(file), seed=0)
    assert torch.equal(sampler.samples, torch.tensor([0, 1, 1, 1, 1]))


def test_a_wrong_duration_is_named(videos, tmp_path) -> None:
    list_videos(videos, tmp_path, "classes")
    (tmp_path / "durations.csv").write_text("video,seconds\na.mp4,long\n")
    with pytest.raises(
        UserError, match="durations.csv, line 2: seconds must be a number, got .long."
    ):
        read_task_lists(tmp_path, "classes")


def test_segments_of_a_video_cover_it() -> None:
    """TSM's frames are spread over a video of any length: it is one sample."""
    assert clip_seconds(get_config("tsm_r50_ek100")) == 0
    assert clip_seconds(get_config("vivit_fe_motion")) == CLIP
