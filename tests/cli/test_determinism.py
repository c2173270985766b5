"""The same seed gives the same losses, also in a run that was stopped in the middle of an epoch."""

import json
import os
import signal
from pathlib import Path

import pytest

RANDOM = [
    dict(type="DecordInit", num_threads=1),
    dict(type="SampleFrames", clip_len=4, frame_interval=2, num_clips=1),
    dict(type="DecordDecode"),
    dict(type="Resize", scale=(-1, 40)),
    dict(type="RandomCrop", size=32),
    dict(type="FormatShape", input_format="NCTHW"),
    dict(type="PackActionInputs"),
]

AUGMENT = [
    dict(type="mmvidformer.ClipFlip", p=0.5),
    dict(type="mmvidformer.ClipColorJitter", p=0.8, brightness=0.5, hue=0.2),
    dict(type="mmvidformer.ClipRandAugment"),
    dict(type="mmvidformer.ClipAutoAugment"),
]


def losses(work_dir: Path) -> list[float]:
    """Of each step, from the runs' logs in the order of time."""
    return [
        line["loss"]
        for path in sorted(work_dir.glob("*/vis_data/scalars.json"))
        for line in map(json.loads, path.read_text().splitlines())
        if "loss" in line
    ]


@pytest.mark.parametrize("steps", [4, pytest.param(50, marks=pytest.mark.slow)])
def test_a_seed_gives_the_same_losses_twice(steps, train, make_config, tmp_path) -> None:
    """With random frames, augmentation and stochastic depth, in worker processes."""
    preprocessor = dict(type="mmvidformer.VideoDataPreprocessor", augment=AUGMENT)
    config = make_config(
        "seeded",
        train_cfg=dict(max_epochs=steps // 2),
        train_dataloader=dict(num_workers=2, dataset=dict(pipeline=RANDOM)),
        default_hooks=dict(logger=dict(interval=1)),
        model=dict(backbone=dict(drop_path_rate=0.2), data_preprocessor=preprocessor),
        log_processor=dict(window_size=1),
    )
    options = ["--no-validate", "--cfg-options", "default_hooks.checkpoint.interval=100"]
    for name in "ab":
        train([str(config), "--work-dir", str(tmp_path / name), "--seed", "0", *options])
    first = losses(tmp_path / "a")
    assert len(set(first)) == steps
    assert first == losses(tmp_path / "b")


def test_a_run_stopped_in_mid_epoch_gives_the_same_losses(
    train, make_config, tmp_path, monkeypatch
) -> None:
    """With random frames, augmentation and stochastic depth, and other numbers of workers."""
    preprocessor = dict(type="mmvidformer.VideoDataPreprocessor", augment=AUGMENT)
    changes = dict(
        train_cfg=dict(type="mmvidformer.ResumableTrainLoop"),
        train_dataloader=dict(
            batch_size=2,
            sampler=dict(type="mmvidformer.ResumableSampler"),
            num_workers=2,
            persistent_workers=True,
            dataset=dict(pipeline=RANDOM),
        ),
        default_hooks=dict(
            logger=dict(interval=1),
            checkpoint=dict(type="mmvidformer.AtomicCheckpointHook"),
            training_guard=dict(type="mmvidformer.TrainingGuardHook"),
        ),
        model=dict(backbone=dict(drop_path_rate=0.2), data_preprocessor=preprocessor),
        log_processor=dict(window_size=1),
    )
    config = make_config("stopped", **changes)
    options = ["--no-validate", "--seed", "0"]
    train([str(config), "--work-dir", str(tmp_path / "whole"), *options])
    from mmvidformer.engine.training_guard import TrainingGuardHook

    check = TrainingGuardHook.after_train_iter

    def with_signal(self, runner, *args, **kwargs) -> None:
        if runner.iter + 1 == 6:  # the second of four steps of the second epoch
            os.kill(os.getpid(), signal.SIGTERM)
        check(self, runner, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingGuardHook, "after_train_iter", with_signal)
        with pytest.raises(SystemExit, match="143"):
            train([str(config), "--work-dir", str(tmp_path / "cut"), *options])
    options += ["--resume", "--cfg-options", "train_dataloader.num_workers=1"]
    train([str(config), "--work-dir", str(tmp_path / "cut"), *options])
    whole = losses(tmp_path / "whole")
    assert len({*whole}) == 12
    assert losses(tmp_path / "cut") == whole
