"""One recognizer that several threads share answers as in one thread."""

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from mmengine.config import Config

from mmvidformer.apis import Recognizer, VideoPipeline

THREADS = 4


@pytest.fixture(autouse=True)
def frequent_switches() -> Iterator[None]:
    """Let threads take turns as often as on a busy server."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def run_together(function: Callable, inputs: Sequence[Any]) -> list[Any]:
    """Call a function for each input in a thread of its own, all at once."""
    start = threading.Barrier(len(inputs))

    def run(one: Any) -> Any:
        start.wait()
        return function(one)

    with ThreadPoolExecutor(len(inputs)) as pool:
        return list(pool.map(run, inputs))


def frames(seed: int, height: int = 36, width: int = 36, count: int = 64) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, height, width, 3), dtype=np.uint8)


@pytest.mark.parametrize("same", [True, False], ids=["same videos", "different videos"])
def test_a_model_that_computes_equal_frames_once(cfg: Config, same: bool) -> None:
    cfg.model.backbone.update(clip_len=64, stem=dict(tubelet=(1, 16, 16)))
    cfg.test_dataloader.dataset.pipeline[1].update(clip_len=64, frame_interval=1)
    recognizer = Recognizer(cfg, None, "cpu")
    rounds = [[THREADS * turn + (0 if same else i) for i in range(THREADS)] for turn in range(15)]
    for seeds in rounds:
        videos = [frames(seed) for seed in seeds]
        together = run_together(recognizer, videos)
        for found, video in zip(together, videos, strict=True):
            expected = recognizer(video).scores["class"]
            np.testing.assert_allclose(found.scores["class"], expected, rtol=0, atol=1e-6)


def test_boxes_are_resized_with_their_video(cfg: Config) -> None:
    """MMAction2's ``Resize`` keeps the factors of the video that it resizes."""
    packed = dict(type="PackActionInputs", meta_keys=("img_shape",))
    cfg.test_dataloader.dataset.pipeline[3:] = [
        dict(type="Resize", scale=(32, 32), keep_ratio=False),
        dict(type="FormatShape", input_format="NCTHW"),
        packed,
    ]
    cfg.test_dataloader.dataset.pipeline[1].clip_len = 32
    pipeline = VideoPipeline(cfg)
    sizes = [(64, 128), (128, 256), (256, 64), (32, 32)]
    videos = [pipeline.open(frames(i, *size)) for i, size in enumerate(sizes)]
    box = np.array([[0.25, 0.5, 0.75, 1]], np.float32)
    labels = np.zeros((1, 2), np.float32)

    def boxes(video: dict) -> np.ndarray:
        height, width = video["array"].shape[1:3]
        given = box * np.array([width, height] * 2, np.float32)
        sample = pipeline.read({**video, "gt_bboxes": given, "gt_labels": labels})
        return sample["data_samples"].gt_instances.bboxes.numpy()

    for _ in range(10):
        for found in run_together(boxes, videos):
            np.testing.assert_allclose(found, 32 * box)
