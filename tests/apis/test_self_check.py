"""Faster models whose answers differ a little: the first ones are compared with exact ones."""

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from mmaction.structures import ActionDataSample
from mmengine.config import Config
from torch import nn

from mmvidformer import get_config
from mmvidformer.apis import Recognizer, StreamFrame
from mmvidformer.apis.self_check import (
    FIRST,
    SelfCheck,
    add_change,
    answer_of,
    is_due,
    make_fast,
)
from mmvidformer.layers.samples import Instances
from mmvidformer.models.fast.int8 import Int8Linear, bytes_of_weights
from mmvidformer.tasks.changes import Change, TooInexact

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


def test_predictions_in_8_bits_are_near_and_compared(divided: tuple, video: np.ndarray) -> None:
    exact, rounded = Recognizer(*divided, "cpu"), Recognizer(*divided, "cpu", int8=True)
    assert repr(rounded).endswith("on cpu, optimized for inference, int8")
    found, expected = rounded(video).scores["class"], exact(video).scores["class"]
    difference = np.abs(found - expected).max()
    assert 0 < difference < 0.2
    assert rounded.check.report().startswith("int8: ") and rounded.check.seen == 1
    assert rounded.check.change.difference == pytest.approx(difference, rel=1e-4)
    assert exact.check is None


def test_weights_in_float32_are_freed(divided: tuple, video: np.ndarray) -> None:
    recognizer = Recognizer(*divided, "cpu", int8=True)
    float_layer = recognizer.check.exact.backbone.encoders[0].blocks[0].mlp.fc1
    gone, layer = weakref.ref(float_layer), recognizer.model.backbone.encoders[0].blocks[0].mlp.fc1
    assert isinstance(layer, Int8Linear)  # the model itself has 8 bits
    del float_layer
    gc.collect()
    assert gone() is None
    plain = Recognizer(*divided, "cpu").model
    assert bytes_of_weights(recognizer.model) < 0.5 * bytes_of_weights(plain)


def test_the_exact_model_is_forgotten_after_the_first_samples(divided: tuple) -> None:
    recognizer = Recognizer(*divided, "cpu", int8=True)
    check = recognizer.check
    check.seen = FIRST - 1
    check.compare([{"": torch.zeros(3)}], lambda exact: [{"": torch.zeros(3)}])
    assert check.exact is None
    check.compare([{"": torch.zeros(3)}], lambda exact: pytest.fail("it is gone"))


def test_too_many_changes_end_it() -> None:
    check = SelfCheck(nn.Identity(), "int8")
    right, wrong = {"": torch.tensor([0.9, 0.1])}, {"": torch.tensor([0.4, 0.6])}
    check.compare([right] * (FIRST - 2), lambda exact: [right] * (FIRST - 2))
    with pytest.raises(TooInexact, match=r"int8: 2 of 16 answers changed, .* score 0.5, more than"):
        check.compare([wrong] * 2, lambda exact: [right] * 2)
    with pytest.raises(TooInexact, match="2 of 16 answers"):  # also if somebody goes on
        check.compare([right], lambda exact: pytest.fail("no more are computed"))
    with pytest.raises(TooInexact, match="2 of 16 answers"):
        check.beside_stream()


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


def test_threads_count_all_answers() -> None:
    check = SelfCheck(nn.Identity(), "int8")
    right = {"": torch.tensor([0.9, 0.1])}
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(check.compare, [right], lambda exact: [right]) for _ in range(500)]
    assert [call.result() for call in calls] == [None] * 500
    assert check.seen == 500 and check.change.answers == FIRST + 4  # the 32nd, ..., 256th


def test_recognizers_are_copied(divided: tuple, video: np.ndarray) -> None:
    """Also from one process to another; each copy counts its own answers."""
    rounded = Recognizer(*divided, "cpu", int8=True)
    expected = rounded(video).scores["class"]
    for other in (copy.deepcopy(rounded), pickle.loads(pickle.dumps(rounded))):
        np.testing.assert_array_equal(other(video).scores["class"], expected)
        assert (other.check.seen, rounded.check.seen) == (2, 1)


def test_run_lengths_of_a_config_are_compared_with_all_tubelets(
    cfg: Config, build: Callable
) -> None:
    backbone = dict(scheme="spacetime", clip_len=4, img_size=32, static=0.25)
    cfg.model.backbone = dict(type="mmvidformer.ViViT", arch=ARCH, **backbone)
    cfg.model.cls_head.in_channels = 64
    model = build(cfg)
    fast, check = make_fast(model)
    assert (model.backbone.static, fast.backbone.static, check.exact.backbone.static) == (
        *(0.25, 0.25),
        None,
    )
    assert check.what == "still parts computed once (static=0.25 of the model)"
    fast, check = make_fast(model, int8=True, static=12.75)
    assert fast.backbone.static == pytest.approx(12.75 / model.data_preprocessor.std.mean().item())
    assert check.exact.backbone.static is None
    assert check.what == "int8 and still parts (up to 12.75 of 255) computed once"


def test_values_have_no_answers() -> None:
    check = SelfCheck(nn.Identity(), "int8", has_classes=False)
    for _ in range(FIRST):
        check.compare([{"": torch.tensor([1.0, 2.0])}], lambda exact: [{"": torch.zeros(2)}])
    assert check.report() == "int8: largest difference of a number 2"


def test_changes_of_steps_outputs_and_numbers_of_segments() -> None:
    change = Change()
    steps = torch.tensor([[1.0, 0], [1, 0], [0, 1]])
    change.add({"verb": steps, "noun": steps[0]}, {"verb": 1 - steps, "noun": steps[0]})
    assert (change.answers, change.changed, change.difference) == (4, 3, 1.0)
    change.add({"": steps}, {"": steps[:2]})
    assert (change.answers, change.changed) == (5, 4)


def test_fewer_and_fewer_samples_are_compared() -> None:
    due = [number for number in range(200) if is_due(number, number + 1)]
    assert due == [*range(FIRST), 31, 63, 127]
    assert is_due(100, 130)  # a batch with one of them


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


@pytest.mark.parametrize(("name", "answers"), [("early", 1), ("anticipation", 3 * 8)])
def test_streams_of_recurrent_models_are_compared(
    prediction_data: Path, monkeypatch, build: Callable, tmp_path: Path, name: str, answers: int
) -> None:
    """Answers of a frame: of each task and time ahead.

    The exact model has a state of its own, which is forgotten when the other one is.
    """
    monkeypatch.chdir(prediction_data)
    monkeypatch.setattr("mmvidformer.tasks.changes.MOST_CHANGED", 1.0)  # weights are random
    cfg = get_config(f"causal_transformer_{name}_motion")
    if name == "anticipation":
        cfg.model.cls_head.classifier = "unrolling"
    model = build(cfg)
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.2)
    torch.save({"state_dict": model.state_dict()}, tmp_path / "causal.pth")
    exact, rounded = (
        Recognizer(cfg, str(tmp_path / "causal.pth"), "cpu", int8=int8) for int8 in (False, True)
    )
    pixels = torch.randint(256, (FIRST + 3, 1, 3, 1, 32, 32)).byte()
    frames = [StreamFrame(number, number / 4, frame) for number, frame in enumerate(pixels)]
    differences = []
    steps = (recognizer.frame_by_frame(frames, restart=1.5) for recognizer in (exact, rounded))
    for one, other in zip(*steps, strict=True):
        for prediction, inexact in zip(one.predictions, other.predictions, strict=True):
            for task, scores in prediction.scores.items():
                differences.append(np.abs(inexact.scores[task] - scores).max())
    assert (rounded.check.seen, rounded.check.exact) == (FIRST, None)
    assert rounded.check.change.answers == FIRST * answers
    found, first = rounded.check.change.difference, differences[: FIRST * answers]
    assert found > 0 and found == pytest.approx(max(first), rel=1e-4)
