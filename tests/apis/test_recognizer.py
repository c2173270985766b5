"""Recognizer: files, lists, arrays, windows and streams."""

import io
import pickle
from collections.abc import Iterator
from pathlib import Path
from weakref import WeakSet

import decord
import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope

from mmvidformer import get_config
from mmvidformer.apis import Prediction, Recognizer
from mmvidformer.apis.windows import check_step, in_frames, list_windows
from mmvidformer.registry import MODELS


@pytest.fixture(scope="module")
def cfg(tiny_videos) -> Config:
    """A tiny ViViT with 2 x 3 test views."""
    cfg = Config.fromfile(Path(__file__).parents[1] / "cli" / "tiny_vivit.py")
    cfg.class_names = ["red", "green", "blue"]
    dataset = cfg.test_dataloader.dataset
    dataset.ann_file, dataset.data_prefix.video = str(tiny_videos.val), str(tiny_videos.root)
    dataset.pipeline[1].num_clips = 2
    dataset.pipeline[3].scale = (-1, 32)
    dataset.pipeline[4] = dict(type="ThreeCrop", crop_size=32)
    return cfg


@pytest.fixture(scope="module")
def checkpoint(cfg, tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("weights") / "tiny.pth"
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope("mmaction"):
        torch.save({"state_dict": MODELS.build(cfg.model).state_dict()}, path)
    return str(path)


@pytest.fixture(scope="module")
def recognizer(cfg, checkpoint) -> Recognizer:
    return Recognizer(cfg, checkpoint)


def test_scores_are_those_of_testing(recognizer, cfg, checkpoint, tiny_videos, tmp_path) -> None:
    from mmengine.runner import Runner

    cfg = Config(cfg.to_dict())
    dump = tmp_path / "scores.pkl"
    cfg.test_evaluator = [cfg.test_evaluator, dict(type="DumpResults", out_file_path=str(dump))]
    cfg.work_dir, cfg.load_from = str(tmp_path), checkpoint
    before = dict(DefaultScope._instance_dict)
    Runner.from_cfg(cfg).test()
    DefaultScope._instance_dict.clear()
    DefaultScope._instance_dict.update(before)
    tested = [sample["pred_score"].numpy() for sample in pickle.loads(dump.read_bytes())]
    files = [tiny_videos.root / f"val_{i}.mp4" for i in range(7)]
    found = recognizer(files)
    assert [p.source for p in found] == list(map(str, files))
    for prediction, scores in zip(found, tested, strict=True):
        np.testing.assert_allclose(prediction.scores["class"], scores, atol=1e-5)
    # The probabilities are the softmax of the mean logits.
    number, name, share = found[0].top(2)[0]
    exponents = np.exp(tested[0])
    assert (number, name) == (exponents.argmax(), cfg.class_names[exponents.argmax()])
    assert share == pytest.approx(exponents.max() / exponents.sum(), abs=1e-6)
    assert len(found[0].top()) == 3
    row = found[0].row()
    assert row["video"] == str(files[0]) and row["start"] is None and row["end"] is None
    assert row["label"] == name


def test_arrays_and_generators_are_read_as_files(recognizer, tiny_videos) -> None:
    files = [str(tiny_videos.root / f"val_{i}.mp4") for i in range(2)]
    arrays = [decord.VideoReader(f).get_batch(range(24)).asnumpy() for f in files]
    expected = recognizer(files)
    assert isinstance(recognizer(files[0]), Prediction)
    for found in (recognizer(arrays), recognizer(a for a in arrays)):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one.scores["class"], other.scores["class"], atol=1e-5)
    assert recognizer(arrays[0]).source is None
    for wrong, message in (
        (arrays[0].astype(float), r"\(24, 32, 64, 3\) of float64"),
        (arrays[0][0], r"\(32, 64, 3\) of uint8"),
        (arrays[0][:0], "there is no frame in it"),
    ):
        with pytest.raises(ValueError, match=message):
            recognizer(wrong)


@pytest.mark.parametrize(
    "video", [torch.zeros(4, 8, 8, 3), torch.zeros(4, 3, 8, 8), b"mp4", io.BytesIO(b"mp4")]
)
def test_videos_of_other_types_are_named(recognizer, video) -> None:
    message = rf"a video is a path, or an array \(T, H, W, 3\).*; got {type(video).__name__}"
    for call in (recognizer, lambda x: next(recognizer.timeline(x)), lambda x: recognizer([x])):
        with pytest.raises(TypeError, match=message):
            call(video)


def test_bad_files_are_named(recognizer, tmp_path) -> None:
    (tmp_path / "bad.mp4").write_bytes(b"no video")
    with pytest.raises(ValueError, match="bad.mp4: "):
        recognizer(tmp_path / "bad.mp4")
    with pytest.raises(FileNotFoundError, match="video .*gone.mp4 does not exist"):
        recognizer(tmp_path / "gone.mp4")


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        (5, [(0, 4)]),
        (10, [(0, 9)]),
        (15, [(0, 9), (5, 14)]),
        (17, [(0, 9), (5, 14), (7, 16)]),
    ],
)
def test_windows_cover_the_video(frames: int, expected: list) -> None:
    assert list_windows(frames, *in_frames(10, 1, None, lambda size: 1)) == expected


def test_windows_of_files_arrays_and_streams_agree(recognizer, tiny_videos) -> None:
    """The file has 24 frames at 12 per second; windows of 1 s, every 0.5 s."""
    file = str(tiny_videos.root / "val_0.mp4")
    frames = decord.VideoReader(file).get_batch(range(24)).asnumpy()
    found = list(recognizer.timeline(file, 1, 0.5))
    assert [p.seconds for p in found] == [(0, 1), (0.5, 1.5), (1, 2)]
    alone = [recognizer(frames[first : first + 12]) for first in (0, 6, 12)]
    for others in (
        recognizer.timeline(frames, 1, 0.5, fps=12),
        recognizer.stream(iter(frames), 12, 1, 0.5),
        alone,
    ):
        for one, other in zip(found, others, strict=True):
            assert other.seconds in (None, one.seconds)
            np.testing.assert_allclose(one.scores["class"], other.scores["class"], atol=1e-5)
    with pytest.raises(ValueError, match="the array: its frame rate is unknown"):
        next(recognizer.timeline(frames))
    with pytest.raises(ValueError, match="got 0 s"):
        next(recognizer.timeline(file, 0))


def test_a_stream_keeps_sampled_frames_only(recognizer) -> None:
    """Windows of 48 frames, every 24, of which clips of 4 frames at interval 2 see at most 8."""
    kept, most = WeakSet(), 0

    def frames() -> Iterator[np.ndarray]:
        nonlocal most
        for number in range(144):
            frame = Frame((32, 64, 3), np.uint8)
            frame[:] = number
            kept.add(frame)
            most = max(most, len(kept))
            yield frame

    found = list(recognizer.stream(frames(), 24, 2, 1, cuts="none"))
    assert len(found) == 5
    sampled = recognizer.pipeline.sample(48, 24)["frame_inds"]
    needed = len({number % 24 for number in sampled.flat})
    assert needed <= most <= 2 * needed + 2  # of two windows, the newest, and the one before it
    values = [np.full((48, 32, 64, 3), np.arange(i, i + 48)[:, None, None, None], np.uint8)
              for i in range(0, 97, 24)]  # fmt: skip
    for one, window in zip(found, values, strict=True):
        expected = recognizer(window).scores["class"]
        np.testing.assert_allclose(one.scores["class"], expected, atol=1e-5)


class Frame(np.ndarray):
    """An array that a weak set can hold, which views of it do not share."""

    def __hash__(self) -> int:
        return id(self)


def test_frames_of_a_stream_are_checked(recognizer) -> None:
    for wrong in (np.zeros((32, 64), np.uint8), np.zeros((32, 64, 3))):
        with pytest.raises(ValueError, match="one size and type uint8, got .*32, 64"):
            next(recognizer.stream([wrong] * 12, 12, 1))
    sizes = [np.zeros((32, 64 + number, 3), np.uint8) for number in range(12)]
    with pytest.raises(ValueError, match=r"one size and type uint8, got \(32, 6"):
        next(recognizer.stream(sizes, 12, 1))


def count_encoded(recognizer: Recognizer) -> list[int]:
    """Return a list to which the number of frames, or tubelets, that it encodes is appended."""
    rows, stages = list[int](), recognizer._stages

    def encode(blocks: torch.Tensor) -> torch.Tensor:
        rows.append(len(blocks))
        return stages.encode(blocks)

    recognizer._stages = stages._replace(encode=encode)
    return rows


@pytest.mark.parametrize("stride", [None, 4 / 12, 2 / 12])
def test_windows_compute_shared_frames_once(
    cfg, checkpoint, tiny_videos, monkeypatch, stride
) -> None:
    """A clip of 4 frames at interval 2; frames coincide if windows are multiples of 4 apart."""
    cfg = Config(cfg.to_dict())
    cfg.test_dataloader.dataset.pipeline[1].num_clips = 1
    fast, plain = (Recognizer(cfg, checkpoint, clips=1) for _ in range(2))
    assert plain.model is not fast._fast  # used as it is from now on
    rows = count_encoded(fast)
    file = str(tiny_videos.root / "val_0.mp4")
    frames = decord.VideoReader(file).get_batch(range(24)).asnumpy()
    found = list(fast.timeline(file, 8 / 12, stride))
    streamed = list(fast.stream(iter(frames), 12, 8 / 12, stride))
    step = 2 if stride == 2 / 12 else 4
    assert [one.seconds[0] for one in found] == pytest.approx(np.arange(0, 17, step) / 12)
    # Windows 2 frames apart share those of the last but one. A stream knows nothing of the file.
    first = [2, 2] if step == 2 else [2]
    assert rows == 2 * (first + [1] * (len(found) - len(first)))
    for number, (one, other) in enumerate(zip(found, streamed, strict=True)):
        alone = plain(frames[number * step : number * step + 8]).scores["class"]
        np.testing.assert_allclose(one.scores["class"], alone, atol=1e-5)
        np.testing.assert_allclose(other.scores["class"], alone, atol=1e-5)


def test_steps_that_share_no_frames_are_named(recognizer, tiny_videos, caplog) -> None:
    file = str(tiny_videos.root / "val_1.mp4")
    fps = recognizer.pipeline.open(file)["avg_fps"]
    check_step.cache_clear()
    assert in_frames(12, 1, None, lambda size: 4) == (12, 8)
    assert in_frames(12, 1, 8 / 12, lambda size: 4) == (12, 8) and not caplog.records
    assert in_frames(12, 1, 0.5, lambda size: 4) == (12, 6)
    assert "windows 6 frames apart share no frames" in caplog.text
    assert "every 4 (0.333 s)" in caplog.text
    assert recognizer.pipeline.period(8, fps, 2) == 4
    assert recognizer.pipeline.period(5, fps, 2) == 4  # frames 0, 2, 4 and again from 1
    assert len(recognizer.windows(recognizer.pipeline.open(file), 1)) == 3


def test_windows_of_a_recurrent_model_share_the_maps_of_frames(
    small, build, tmp_path, prediction_data
) -> None:
    cfg, path = small("horst_early_motion"), tmp_path / "early.pth"
    torch.save({"state_dict": build(cfg).state_dict()}, path)
    video = next((prediction_data / "data" / "motion_phases" / "test").glob("*.mp4"))
    fast, plain = Recognizer(cfg, str(path)), Recognizer(cfg, str(path))
    assert plain.model is not fast._fast
    rows = count_encoded(fast)
    found = list(fast.timeline(video, 0.5))
    for one, other in zip(found, plain.timeline(video, 0.5, found[1].seconds[0]), strict=True):
        assert one.seconds == other.seconds
        np.testing.assert_allclose(one.scores["class"], other.scores["class"], atol=1e-5)
    assert len(found) > 2 and 2 * sum(rows[1:-1]) <= rows[0] * (len(found) - 2)


def test_tasks_and_names(tiny_videos, tmp_path) -> None:
    cfg = get_config("vivit_fe_verb_noun_motion")
    cfg.model.backbone.arch = dict(embed_dims=16, depth=1, num_heads=2)
    cfg.model.cls_head.update(in_channels=16, tasks=dict(noun=3, verb=2))
    with DefaultScope.overwrite_default_scope("mmaction"):
        torch.save({"state_dict": MODELS.build(cfg.model).state_dict()}, tmp_path / "two.pth")
    two = Recognizer(cfg, str(tmp_path / "two.pth"), names={"verb": ["push", "pull"]})
    found = two(tiny_videos.root / "val_0.mp4")
    assert [len(found.top(task=task)) for task in ("noun", "verb")] == [3, 2]
    assert {name for _, name, _ in found.top(task="verb")} == {"push", "pull"}
    with pytest.raises(ValueError, match="'verb' has 2 classes, but 1 names"):
        Recognizer(cfg, str(tmp_path / "two.pth"), names={"verb": ["push"]})
