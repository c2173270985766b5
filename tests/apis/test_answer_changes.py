"""Faster models whose answers differ a little, and how much."""

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mmaction.structures import ActionDataSample
from mmengine.config import Config
from torch import nn

from mmvidformer.apis import Recognizer
from mmvidformer.apis.answer_changes import add_change, answer_of
from mmvidformer.apis.fast import in_words, make_fast
from mmvidformer.engine import loading
from mmvidformer.layers.samples import Instances
from mmvidformer.models.fast.int8 import Int8Linear, bytes_of_weights
from mmvidformer.tasks.changes import Change

ARCH = dict(embed_dims=64, depth=2, num_heads=2)


@pytest.fixture
def divided(cfg: Config, build: Callable, tmp_path: Path) -> tuple[Config, str]:
    """A tiny TimeSformer with random weights."""
    stem = dict(tubelet=(1, 16, 16))
    cfg.model.backbone = dict(
        type="mmvidformer.TimeSformer", arch=ARCH, img_size=32, clip_len=4, stem=stem
    )
    cfg.model.cls_head.in_channels = 64
    model = build(cfg)
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.2)
    path = tmp_path / "divided.pth"
    torch.save({"state_dict": model.state_dict()}, path)
    return cfg, str(path)


@pytest.fixture
def video() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (24, 32, 64, 3), dtype=np.uint8)


def test_predictions_in_8_bits_are_near(divided: tuple, video: np.ndarray) -> None:
    exact, rounded = Recognizer(*divided, "cpu"), Recognizer(*divided, "cpu", int8=True)
    assert repr(rounded).endswith("on cpu, optimized for inference, int8")
    found, expected = rounded(video).scores["class"], exact(video).scores["class"]
    difference = np.abs(found - expected).max()
    assert 0 < difference < 0.2


def test_weights_in_float32_are_freed(divided: tuple, monkeypatch) -> None:
    layers: list[weakref.ref] = []
    load = loading.load_recognizer

    def spy(*arguments: Any, **options: Any) -> nn.Module:
        model = load(*arguments, **options)
        layers.append(weakref.ref(model.backbone.encoders[0].blocks[0].mlp.fc1))
        return model

    monkeypatch.setattr(loading, "load_recognizer", spy)
    recognizer = Recognizer(*divided, "cpu", int8=True)
    layer = recognizer.model.backbone.encoders[0].blocks[0].mlp.fc1
    assert isinstance(layer, Int8Linear)  # the model itself has 8 bits
    gc.collect()
    assert [gone() for gone in layers] == [None]
    plain = Recognizer(*divided, "cpu").model
    assert bytes_of_weights(recognizer.model) < 0.5 * bytes_of_weights(plain)


def test_what_is_no_number_changed() -> None:
    change, broken = Change(), torch.full((3,), float("nan"))
    scores = torch.tensor([3.0, 1.0, 0.0])
    change.add({"": scores}, {"": broken})
    assert (change.answers, change.changed, change.difference) == (1, 1, float("inf"))
    change = Change()
    change.add({"": broken}, {"": broken})
    change.add({"": torch.tensor([1.0, -torch.inf])}, {"": torch.tensor([1.0, -torch.inf])})
    assert (change.answers, change.changed, change.difference) == (2, 0, 0)
    change = Change()
    expected = segments((0, 2, 0, 0.9))
    add_change(change, expected, segments((0, 2, 0, float("nan"))), True)
    assert (change.answers, change.changed, change.difference) == (1, 1, float("inf"))


def test_recognizers_are_copied(divided: tuple, video: np.ndarray) -> None:
    """Also from one process to another."""
    rounded = Recognizer(*divided, "cpu", int8=True)
    expected = rounded(video).scores["class"]
    for other in (copy.deepcopy(rounded), pickle.loads(pickle.dumps(rounded))):
        np.testing.assert_array_equal(other(video).scores["class"], expected)


def test_run_lengths_are_those_of_the_config_or_of_the_option(cfg: Config, build: Callable) -> None:
    backbone = dict(scheme="spacetime", clip_len=4, img_size=32, static=0.25)
    cfg.model.backbone = dict(type="mmvidformer.ViViT", arch=ARCH, **backbone)
    cfg.model.cls_head.in_channels = 64
    model = build(cfg)
    assert (model.backbone.static, make_fast(model).backbone.static) == (0.25, 0.25)
    words = "still parts computed once (static=0.25 of the model)"
    assert in_words(model, int8=False, static=None) == words
    fast = make_fast(model, int8=True, static=12.75)
    assert fast.backbone.static == pytest.approx(12.75 / model.data_preprocessor.std.mean().item())
    words = "int8 and still parts (up to 12.75 of 255) computed once"
    assert in_words(model, int8=True, static=12.75) == words


def test_changes_of_steps_outputs_and_numbers_of_segments() -> None:
    change = Change()
    steps = torch.tensor([[1.0, 0], [1, 0], [0, 1]])
    change.add({"verb": steps, "noun": steps[0]}, {"verb": 1 - steps, "noun": steps[0]})
    assert (change.answers, change.changed, change.difference) == (4, 3, 1.0)
    change.add({"": steps}, {"": steps[:2]})
    assert (change.answers, change.changed) == (5, 4)


def test_scores_are_copies() -> None:
    sample = ActionDataSample().set_pred_score(torch.ones(2))
    scores = answer_of(sample)
    sample.pred_score[0] = 5
    assert scores[""].tolist() == [1, 1]
    boxes = ActionDataSample()
    boxes.pred_instances = Instances(scores=torch.ones(3, 2))
    assert answer_of(boxes)[""].shape == (3, 2)


def test_models_of_other_kinds_say_so(small: Callable) -> None:
    with pytest.raises(ValueError, match="int8: for a VideoTransformer, got ConvStem"):
        Recognizer(small("horst_early_motion"), None, "cpu", int8=True)


def segments(*rows: tuple[float, float, int, float]) -> Instances:
    """Segments of rows of start, end, class and score."""
    table = torch.tensor(rows).reshape(-1, 4)
    return Instances(segments=table[:, :2], labels=table[:, 2].long(), scores=table[:, 3])


def test_segments_are_the_same_if_they_overlap() -> None:
    expected = segments((0, 2, 0, 0.9), (3, 4, 1, 0.8), (5, 6, 1, 0.1))
    change = Change()
    add_change(change, expected, segments((0.5, 2, 0, 0.7), (3, 4, 1, 0.85)), True)
    assert (change.answers, change.changed) == (2, 0)  # what was lost was not sure
    assert change.difference == pytest.approx(0.2)
    add_change(change, expected, segments((0, 2, 1, 0.9), (3.6, 4, 1, 0.8)), True)
    assert (change.answers, change.changed) == (6, 4)  # another class, and too short: two of each
    assert change.difference == pytest.approx(0.9)
    add_change(change, segments(), segments(), True)
    assert (change.answers, change.changed) == (6, 4)
    add_change(change, segments(), segments((0, 1, 0, 0.5)), True)
    assert (change.answers, change.changed) == (7, 5)


def test_segments_are_copied() -> None:
    sample = ActionDataSample()
    sample.pred_instances = segments((0, 1, 0, 0.5))
    answer = answer_of(sample)
    sample.pred_instances.segments += 1
    assert answer.segments.tolist() == [[0, 1]]
