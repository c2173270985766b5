"""Shards of the lists of configs, whatever datasets read them."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope

from lab.synthetic.render import write_video
from mmvidformer.engine.pipelines import use_shards
from mmvidformer.registry import DATASETS
from mmvidformer.tasks.shards import shard_config

OPEN = dict(type="mmvidformer.VideoInit")
PACK = [
    dict(type="mmvidformer.VideoDecode"),
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs", meta_keys=("narration_id",)),
]
SEGMENTS = (
    "narration_id,participant_id,video_id,start_timestamp,stop_timestamp,start_frame,stop_frame,"
    "verb_class,noun_class\n"
    "7,P01,P01_01,00:00:01.20,00:00:01.60,36,48,1,0\n"
    "8,P01,P01_01,00:00:00.20,00:00:00.30,6,9,0,1\n"
    "9,P01,P01_01,00:00:00.10,00:00:00.30,3,9,0,1\n"
)
ACTIONS = "id,verb,noun,action\n0,0,1,take cup\n1,1,1,wash cup\n2,1,0,wash pan\n"


@pytest.fixture(autouse=True)
def scope() -> Iterator[None]:
    """As in a config of MMAction2."""
    with DefaultScope.overwrite_default_scope("mmaction"):
        yield


@pytest.fixture
def kitchen(tmp_path: Path) -> Path:
    """Two seconds of video whose brightness tells the frame, and csv files."""
    levels = np.arange(60, dtype=np.uint8)[:, None, None, None] * 4
    write_video(tmp_path / "P01_01.mp4", np.tile(levels, (1, 32, 32, 3)), fps=30)
    (tmp_path / "EPIC_100_train.csv").write_text(SEGMENTS)
    (tmp_path / "actions.csv").write_text(ACTIONS)
    return tmp_path


def config_of(root: Path, **options) -> Config:
    dataset = dict(
        ann_file=str(root / "EPIC_100_train.csv"),
        data_prefix=dict(video=str(root)),
        name="{video_id}.mp4",
        **options,
    )
    model = dict(type="MultiViewRecognizer", cls_head=dict(type="TimeSformerHead"))
    loader = dict(dataset=dataset)
    return Config(
        dict(
            model=model,
            train_dataloader=loader,
            val_dataloader=loader,
            default_scope="mmaction",
        )
    )


def segments(root: Path) -> Config:
    sample = dict(type="SampleFrames", clip_len=4, frame_interval=1)
    limit = dict(type="mmvidformer.LimitToSegment")
    pipeline = [OPEN, limit, sample, *PACK]
    return config_of(root, type="mmvidformer.EpicKitchensDataset", pipeline=pipeline)


def anticipation(root: Path) -> Config:
    observe = dict(type="mmvidformer.ObserveBefore", num_steps=4)
    return config_of(
        root,
        type="mmvidformer.AnticipationDataset",
        action_file=str(root / "actions.csv"),
        pipeline=[OPEN, observe, *PACK],
    )


@pytest.mark.parametrize("make", [segments, anticipation])
def test_samples_and_facts_are_those_of_the_files(kitchen, tmp_path, make) -> None:
    cfg, out = make(kitchen), tmp_path / "out"
    files = DATASETS.build(cfg.train_dataloader.dataset)
    assert shard_config(cfg, out) == {cfg.train_dataloader.dataset.ann_file: {}}
    use_shards(cfg, str(out))
    assert cfg.train_dataloader.dataset.type == "mmvidformer.ShardedVideoDataset"
    stored = DATASETS.build(cfg.train_dataloader.dataset)
    assert len(stored) == len(files) > 0
    for number in range(len(files)):
        samples = []
        for dataset in (files, stored):
            np.random.seed(0)
            samples.append(dataset[number])
        wanted, sample = samples
        assert torch.equal(sample["inputs"], wanted["inputs"])
        assert torch.equal(sample["data_samples"].gt_label, wanted["data_samples"].gt_label)
        assert sample["data_samples"].narration_id == wanted["data_samples"].narration_id
    if make is anticipation:
        assert [tuple(pair) for pair in stored.metainfo["actions"]] == files.metainfo["actions"]
        skipped, wanted = stored.metainfo["discarded"], files.metainfo["discarded"]
        assert [segment["narration_id"] for segment in skipped] == ["8", "9"]
        for segment, other in zip(skipped, wanted, strict=True):
            assert segment["narration_id"] == other["narration_id"]
            assert segment["gt_label"].tolist() == other["gt_label"].tolist()


def test_folders_of_frames_are_refused(kitchen) -> None:
    cfg = segments(kitchen)
    cfg.train_dataloader.dataset.data_prefix = dict(img=str(kitchen))
    with pytest.raises(ValueError, match="EpicKitchensDataset reads no videos"):
        shard_config(cfg, kitchen / "out")


def test_lists_of_one_name_are_refused(kitchen) -> None:
    cfg = segments(kitchen)
    cfg.val_dataloader = dict(dataset=dict(ann_file="other/EPIC_100_train.csv"))
    with pytest.raises(ValueError, match="must have different names"):
        shard_config(cfg, kitchen / "out")
    with pytest.raises(ValueError, match=r"got \[\]"):
        shard_config(Config(dict(model=dict())), kitchen / "out")
