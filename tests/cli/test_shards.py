"""Shards from the command line, and training from them."""

import json
from pathlib import Path

import pytest
import torch
from mmengine.config import Config

from mmvidformer.data.splits import SPLITS

CROPS = [
    dict(type="mmvidformer.VideoInit"),
    dict(type="SampleFrames", clip_len=4, frame_interval=2, num_clips=1),
    dict(type="mmvidformer.VideoDecode"),
    dict(type="Resize", scale=(-1, 40)),
    dict(type="RandomCrop", size=32),
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs"),
]


def scalars(work_dir: Path, key: str) -> list[float]:
    """Of each step, from the runs' logs in the order of time."""
    lines = [
        json.loads(line)
        for path in sorted(work_dir.glob("*/vis_data/scalars.json"))
        for line in path.read_text().splitlines()
    ]
    return [line[key] for line in lines if key in line]


@pytest.fixture(scope="module")
def shards(tiny_videos, main_of, tmp_path_factory) -> Path:
    """The lists of the tiny videos as shards, with a video that is missing."""
    out = tmp_path_factory.mktemp("shards")
    lists = [str(tiny_videos.train), str(tiny_videos.val)]
    assert main_of("data.shard")([*lists, "--out", str(out), "--videos-per-shard", "3"]) == 0
    return out


def test_training_from_shards_is_bit_for_bit_training_from_files(
    shards, train, make_config, tmp_path
) -> None:
    """Also where it is stopped in the middle of an epoch, with other numbers of workers."""
    config = make_config(
        "shards",
        train_cfg=dict(type="mmvidformer.ResumableTrainLoop", max_epochs=2),
        train_dataloader=dict(
            batch_size=2,
            sampler=dict(type="mmvidformer.ResumableSampler"),
            dataset=dict(pipeline=CROPS),
        ),
        default_hooks=dict(
            logger=dict(interval=1),
            checkpoint=dict(type="mmvidformer.AtomicCheckpointHook", by_epoch=False, interval=6),
        ),
        model=dict(backbone=dict(drop_path_rate=0.2)),
        log_processor=dict(window_size=1),
    )
    files, stored = tmp_path / "files", tmp_path / "stored"
    options = ["--seed", "3", "--video-backend", "pyav"]
    train([str(config), "--work-dir", str(files), *options])
    from_shards = [str(config), "--work-dir", str(stored), "--shards", str(shards), *options]
    train(from_shards)
    cfg = Config.fromfile(stored / "shards.py")
    for split in ("train", "val"):
        dataset = cfg[f"{split}_dataloader"].dataset
        assert dataset.type == "mmvidformer.ShardedVideoDataset"
        assert dataset.ann_file == str(shards / split)
    losses = scalars(files, "loss")
    assert len(losses) == 8 and losses == scalars(stored, "loss")
    assert scalars(files, "acc/top1") == scalars(stored, "acc/top1") != []
    (stored / "iter_8.pth").unlink()
    workers = ["train_dataloader.num_workers=1", "train_dataloader.persistent_workers=True"]
    train([*from_shards, "--resume", "--cfg-options", *workers])
    assert scalars(stored, "loss")[8:] == losses[6:]
    wanted, got = (
        torch.load(folder / "iter_8.pth", weights_only=True)["state_dict"]
        for folder in (files, stored)
    )
    assert all(torch.equal(got[name], values) for name, values in wanted.items())


def test_other_lists_than_those_of_the_shards_are_named(shards, train, make_config) -> None:
    config = make_config("other", train_dataloader=dict(dataset=dict(ann_file="other.txt")))
    with pytest.raises(ValueError, match="has no shards of the lists other, val"):
        train([str(config), "--shards", str(shards / "train")])


def test_lists_of_shards_need_not_be_there(shards, train, test, make_config, tmp_path) -> None:
    gone = {
        f"{split}_dataloader": dict(dataset=dict(ann_file=f"elsewhere/{name}.txt"))
        for split, name in (("train", "train"), ("val", "val"), ("test", "val"))
    }
    config = make_config("gone", train_cfg=dict(max_epochs=1), **gone)
    options = ["--shards", str(shards), "--work-dir", str(tmp_path), "--video-backend", "pyav"]
    train([str(config), *options])
    test([str(config), str(tmp_path / "epoch_1.pth"), *options])
    with pytest.raises(FileNotFoundError, match=r"no file elsewhere/train.txt"):
        train([str(config), "--work-dir", str(tmp_path)])


def test_bad_videos_are_printed(main_of, tiny_videos, tmp_path, capsys) -> None:
    file = tmp_path / "few.txt"
    file.write_text(f"{tiny_videos.root}/val_0.mp4 1\ngone.mp4 0\n")
    assert main_of("data.shard")([str(file), "--out", str(tmp_path / "out")]) == 1
    assert "gone.mp4: does not exist" in capsys.readouterr().err
    assert json.loads((tmp_path / "out" / "few" / "index.json").read_text())["samples"] == 2


def test_the_shards_of_a_config_are_those_of_its_lists(
    shards, main_of, make_config, tiny_videos, tmp_path
) -> None:
    config = make_config("all")
    assert main_of("data.shard")(["--config", str(config), "--out", str(tmp_path)]) == 0
    for name in ("train", "val"):
        facts = json.loads((tmp_path / name / "index.json").read_text())
        wanted = json.loads((shards / name / "index.json").read_text())
        assert facts["samples"] == wanted["samples"] and facts["task"] == wanted["task"]
    for words in ([], [str(tiny_videos.train), "--config", str(config)]):
        with pytest.raises(SystemExit):
            main_of("data.shard")([*words, "--out", str(tmp_path)])


def test_fine_tuning_reads_shards(shards, main_of, own, make_config, tmp_path, capsys) -> None:
    dataset = dict(dataset=dict(pipeline=CROPS))
    config = make_config("base", **{f"{split}_dataloader": dataset for split in SPLITS})
    options = ["--config", str(config), "--data", own, "--work-dir", str(tmp_path)]
    options += ["--epochs", "1", "--batch", "4", "--workers", "0", "--shards", str(shards)]
    assert main_of("finetune")(options) == 0
    cfg = Config.fromfile(tmp_path / "finetune" / "config.py")
    for split, name in (("train", "train"), ("val", "val"), ("test", "val")):
        assert cfg[f"{split}_dataloader"].dataset.ann_file == str(shards / name)
    assert (tmp_path / "epoch_1.pth").is_file()
    with pytest.raises(SystemExit):
        main_of("finetune")([*options, "--method", "linear"])
    assert "read the files of the lists, not --shards" in capsys.readouterr().err
