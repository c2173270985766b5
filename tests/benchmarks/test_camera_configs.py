"""Configs for cameras without a GPU: they answer a stream, and have the size that the page says."""

from pathlib import Path

import numpy as np
import pytest
import torch

from mmvidformer.apis import Recognizer

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize(
    ("name", "window", "ends", "millions"),
    [("camera_config", 2.0, [2.0, 3.0], 1.5), ("causal_camera_config", None, None, 5.7)],
)
def test_answers_of_a_stream(name, window, ends, millions) -> None:
    """Each second of windows of 2 s, or after every fourth frame, of 3 s of 8 frames each."""
    torch.manual_seed(0)
    recognizer = Recognizer(str(FOLDER / f"{name}.py"), None, device="cpu")
    backbone = recognizer.model.backbone
    count = sum(parameter.numel() for parameter in backbone.parameters())
    assert round(count / 1e6, 1) == millions
    frames = np.random.default_rng(0).integers(0, 256, (24, 32, 48, 3), dtype=np.uint8)
    settings = dict(window=window, stride=1.0) if window else {}
    found = list(recognizer.stream(iter(frames), fps=8, **settings))
    assert [prediction.end for prediction in found] == pytest.approx(
        ends or [number / 8 for number in range(0, 24, 4)]
    )
    assert all(0 < prediction.score < 1 for prediction in found)
