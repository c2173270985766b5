"""A tiny training run for the stress tools: videos, config, and forks that start quickly."""

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import torch
from mmengine.config import Config

from mmvidformer.registry import HOOKS, LOOPS, METRICS, MODELS, TRANSFORMS

BATCHES, BATCH = 8, 2
CONFIG = """
_base_ = {base!r}
model = dict(
    type="Recognizer3D",
    backbone=dict(
        type="mmvidformer.ViViT",
        arch=dict(embed_dims=16, depth=2, num_heads=2),
        img_size=32,
        clip_len=4,
        stem=dict(tubelet=(2, 16, 16)),
        temporal_depth=1,
    ),
    cls_head=dict(type="TimeSformerHead", num_classes=2, in_channels=16, average_clips="prob"),
    data_preprocessor=dict(
        type="ActionDataPreprocessor", mean=[127.5] * 3, std=[127.5] * 3, format_shape="NCTHW"
    ),
)
train_dataloader = dict(
    batch_size={batch},
    num_workers=0,
    sampler=dict(type="mmvidformer.ResumableSampler", shuffle=True),
    dataset=dict(
        type="VideoDataset",
        ann_file={videos!r} + "/list.txt",
        data_prefix=dict(video={videos!r}),
        pipeline=[
            dict(type="DecordInit", num_threads=1),
            dict(type="SampleFrames", clip_len=4, frame_interval=2, num_clips=1, test_mode=True),
            dict(type="DecordDecode"),
            dict(type="FormatShape", input_format="NCTHW"),
            dict(type="PackActionInputs"),
        ],
    ),
)
train_cfg = dict(type="mmvidformer.ResumableTrainLoop", max_epochs={epochs})
test_dataloader = dict(
    train_dataloader,
    batch_size=1,
    sampler=dict(type="DefaultSampler", shuffle=False),
)
test_cfg = dict(type="TestLoop")
test_evaluator = dict(type="AccMetric")
optim_wrapper = dict(optimizer=dict(type="AdamW", lr=1e-3))
param_scheduler = dict(type="CosineAnnealingLR", T_max={epochs} * {batches}, by_epoch=False)
default_hooks = dict(
    checkpoint=dict(by_epoch=False, interval={interval}, save_best=None),
    logger=dict(interval=10_000),
)
log_level = "WARNING"
"""


def prepare() -> None:
    """Import what a run uses, and use one thread, so that forked runs start quickly and safely."""
    import decord  # noqa: F401
    import matplotlib.backends.backend_agg  # noqa: F401

    Config(dict(a=1)).dump()  # loads the grammar of the formatter
    torch.set_num_threads(1)
    cv2.setNumThreads(0)
    for registry in (MODELS, TRANSFORMS, METRICS, HOOKS, LOOPS):
        registry.import_from_location()


def write_config(folder: Path, epochs: int, interval: int) -> Path:
    """Write videos and the config of a run that saves every ``interval`` steps; return its path."""
    videos, config = folder / "videos", folder / "config.py"
    videos.mkdir()
    make_videos(videos)
    base = Path(__file__).parents[1] / "configs" / "_base_" / "default_runtime.py"
    names = dict(base=str(base), videos=str(videos), batch=BATCH, batches=BATCHES)
    config.write_text(CONFIG.format(**names, epochs=epochs, interval=interval))
    return config


def make_videos(folder: Path) -> None:
    """Write videos of noise and their annotation file."""
    rng = np.random.default_rng(0)
    lines = []
    for number in range(BATCHES * BATCH):
        writer = cv2.VideoWriter(
            str(folder / f"{number}.mp4"), cv2.VideoWriter_fourcc(*"mp4v"), 12, (32, 32)
        )
        for frame in rng.integers(0, 255, (8, 32, 32, 3), dtype=np.uint8):
            writer.write(frame)
        writer.release()
        lines.append(f"{number}.mp4 {number % 2}\n")
    (folder / "list.txt").write_text("".join(lines))


def fork(action: Callable[[], None], log: Path) -> int:
    """Run ``action`` in a child process with its output in a log file; return the process ID."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        handle = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        action()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
