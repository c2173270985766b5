"""Predictions run an optimized copy of the model until the model may have been changed."""

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from torch import nn

from mmvidformer.apis import Recognizer, VideoPipeline

ARCH = dict(embed_dims=16, depth=2, num_heads=2)
SHARED = "encoders.0.blocks.0.mlp.fc1"
LAST = "encoders.0.blocks.1.mlp.fc2"
FOLDED = "encoders.0.blocks.0.sublayers.time.attn.proj"


@pytest.fixture
def divided(cfg: Config, build: Callable, tmp_path: Path) -> tuple[Config, str]:
    """A tiny TimeSformer, whose layers are folded, with random weights."""
    stem = dict(tubelet=(1, 16, 16))
    cfg.model.backbone = dict(
        type="mmvidformer.TimeSformer", arch=ARCH, img_size=32, clip_len=4, stem=stem
    )
    model = build(cfg)
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.2)
    path = tmp_path / "divided.pth"
    torch.save({"state_dict": model.state_dict()}, path)
    return cfg, str(path)


@pytest.fixture
def video() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (24, 32, 64, 3), dtype=np.uint8)


def close(found: object, expected: object) -> None:
    np.testing.assert_allclose(found.scores["class"], expected.scores["class"], atol=1e-5)


def test_predictions_are_those_of_the_model(divided: tuple, video: np.ndarray) -> None:
    recognizer, plain = Recognizer(*divided, "cpu"), Recognizer(*divided, "cpu")
    assert repr(recognizer) == "tiny_vivit (TimeSformer) on cpu, optimized for inference"
    assert not plain.model.training
    assert repr(plain) == "tiny_vivit (TimeSformer) on cpu"
    assert np.ptp(plain(video).scores["class"]) > 0.1
    close(recognizer(video), plain(video))
    close(copy.deepcopy(recognizer)(video), plain(video))


def test_only_folded_weights_take_memory(divided: tuple) -> None:
    recognizer = Recognizer(*divided, "cpu")
    for name, shared in ((SHARED, True), (FOLDED, False)):
        layers = (m.backbone.get_submodule(name) for m in (recognizer._model, recognizer._fast))
        one, other = (layer.weight for layer in layers)
        assert (one is other) == shared


def test_changes_of_the_model_take_effect(divided: tuple, video: np.ndarray) -> None:
    """Weights that are loaded or trained, hooks, and LoRA or another wrapper."""
    recognizer = Recognizer(*divided, "cpu")
    recognizer(video)
    model, seen = recognizer.model, []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    clips = VideoPipeline(divided[0]).read(recognizer.pipeline.open(video))["inputs"]
    before = recognizer(video)
    model.train()(clips[None].float(), None, mode="tensor", stage="head")[0].sum().backward()
    optimizer.step()
    model.eval()
    after = recognizer(video)
    assert abs(after.scores["class"] - before.scores["class"]).max() > 1e-3

    layer = model.backbone.get_submodule(FOLDED)
    layer.register_forward_hook(lambda module, *_: seen.append(module))
    recognizer(video)
    assert seen == [layer]
    wrapped = nn.Sequential(model.backbone.get_submodule(LAST), nn.Tanh())
    model.backbone.set_submodule(LAST, wrapped)
    assert abs(recognizer(video).scores["class"] - after.scores["class"]).max() > 1e-3
    assert repr(recognizer) == "tiny_vivit (TimeSformer) on cpu"


def test_a_stream_of_a_model_that_cannot_be_optimized(small: Callable) -> None:
    recognizer = Recognizer(small("horst_early_motion"), None, "cpu")
    assert recognizer._fast is None and recognizer._stages  # windows share maps of frames
    assert repr(recognizer.model) and repr(recognizer).endswith(" on cpu")
