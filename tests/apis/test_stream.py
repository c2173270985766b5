"""What is predicted for a stream is what is predicted for the clip of the same frames."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.dataset import pseudo_collate
from mmengine.registry import DefaultScope

from mmvidformer import get_config
from mmvidformer.apis import Capture, FramePipeline, Recognizer, StreamFrame
from mmvidformer.registry import DATASETS
from mmvidformer.video.capture import Frame, FrameSource

UNROLL = {"model.cls_head.classifier": "unrolling"}


@pytest.fixture
def load(build: Callable, tmp_path: Path) -> Callable:
    """A recognizer with random weights."""

    def make(cfg: Config) -> Recognizer:
        torch.save({"state_dict": build(cfg).state_dict()}, tmp_path / "random.pth")
        return Recognizer(cfg, str(tmp_path / "random.pth"))

    return make


def dataset(cfg, **changes: object):
    settings = {**cfg.test_dataloader.dataset, **changes}
    with DefaultScope.overwrite_default_scope("mmaction"):
        return DATASETS.build(settings)


class PassedOn(FrameSource):
    """Frames of a file that somebody else looks at first."""

    def __init__(self, capture: Capture) -> None:
        self.capture, self.name, self.fps = capture, capture.name, capture.fps
        self.is_live, self.cuts = capture.is_live, capture.cuts

    def frames(self, interval: int = 1, time_step: float | None = None) -> Iterator[Frame]:
        yield from self.capture.frames(interval, time_step)


def test_frames_that_are_passed_on(small: Callable, load: Callable) -> None:
    """They are read as those of a file, with its name, its rate and the steps of the model."""
    cfg = small("horst_early_motion")
    recognizer, video = load(cfg), dataset(cfg).get_data_info(1)["filename"]
    expected = list(recognizer.stream(Capture(video)))
    passed_on = list(recognizer.stream(PassedOn(Capture(video))))
    assert len(expected) > 2 and {prediction.source for prediction in passed_on} == {video}
    for prediction, other in zip(passed_on, expected, strict=True):
        assert prediction.seconds == other.seconds
        np.testing.assert_array_equal(prediction.scores["class"], other.scores["class"])


@pytest.mark.parametrize("crop", [False, True])
def test_early_recognition_of_a_file(small: Callable, load: Callable, crop: bool) -> None:
    """From the file on: frames, transforms, normalization, model, head."""
    cfg = small("horst_early_motion")
    steps = cfg.test_dataloader.dataset.pipeline
    if crop:
        steps[3:3] = [dict(type="Resize", scale=(-1, 48)), dict(type="CenterCrop", crop_size=40)]
    recognizer = load(cfg)
    videos = dataset(cfg, pipeline=steps)
    with torch.no_grad():
        sample = recognizer.model.test_step(pseudo_collate([videos[1]]))[0]
    expected = sample.pred_score.softmax(0)
    with Capture(videos.get_data_info(1)["filename"]) as video:
        found = list(recognizer.frame_by_frame(video))
        interval = recognizer.frame_runner.pipeline.frame_interval
        assert [step.number for step in found] == [*range(0, video.total, interval)]
    probabilities = [
        torch.from_numpy(p.probabilities["class"]) for s in found for p in s.predictions
    ]
    assert len(probabilities) == len(found)
    torch.testing.assert_close(probabilities[-1], expected, atol=1e-5, rtol=0)
    assert (probabilities[0] - expected).abs().max() > 1e-4  # it changes on the way
    last = found[-1]
    assert last.picture.shape == (32, 32, 3)
    (prediction,) = last.predictions
    best, _, share = prediction.top(1)[0]
    assert (best, share) == (expected.argmax(), pytest.approx(expected.max().item(), abs=1e-5))
    assert prediction.seconds == (0, last.seconds) and prediction.ahead is None
    row = prediction.row()
    assert (row["start"], row["end"]) == (0, round(last.seconds, 3)) and "ahead" not in row
    assert row["label"] == prediction.names["class"][best]


@pytest.mark.parametrize("options", [{}, UNROLL], ids=["linear", "unrolling"])
def test_anticipation(small: Callable, load: Callable, options: dict) -> None:
    cfg = small("horst_anticipation_motion", **options)
    recognizer = load(cfg)
    item = dataset(cfg)[1]
    clip = item["inputs"]
    with torch.no_grad():
        logits = recognizer.model.test_step(pseudo_collate([item]))[0].pred_score
    frames = (StreamFrame(i, i / 4, clip[:, :, i : i + 1]) for i in range(14))
    found = list(recognizer.frame_by_frame(frames))
    times = [2, 1.75, 1.5, 1.25, 1, 0.75, 0.5, 0.25]
    assert [p.ahead for p in found[0].predictions] == (times if options else [None])
    for t, step in enumerate(found[6:]):  # 2, 1.75, ..., 0.25 s before the action
        prediction = step.predictions[t if options else 0]
        assert prediction.scores.keys() == {"action", "verb", "noun"}
        for task, scores in prediction.scores.items():
            torch.testing.assert_close(torch.from_numpy(scores), logits[task][t], atol=1e-5, rtol=0)
    records = [prediction.row() for prediction in found[0].predictions]
    assert [record.get("ahead") for record in records] == (times if options else [None])


@pytest.mark.parametrize("classifier", [None, "linear", "unrolling"])
def test_causal_transformer(
    load: Callable, prediction_data: Path, monkeypatch: pytest.MonkeyPatch, classifier: str | None
) -> None:
    """The shipped configs; the clips of early recognition are longer than the past of 8 frames."""
    monkeypatch.chdir(prediction_data)
    kind = "anticipation" if classifier else "early"
    cfg = get_config(f"causal_transformer_{kind}_motion")
    if classifier:
        cfg.model.cls_head.classifier = classifier
    else:
        cfg.test_dataloader.dataset.pipeline[1].frame_interval = 1
    recognizer = load(cfg)
    item = dataset(cfg)[1]
    clip = item["inputs"]
    with torch.no_grad():
        expected = recognizer.model.test_step(pseudo_collate([item]))[0].pred_score
    frames = (StreamFrame(i, i / 4, clip[:, :, i : i + 1]) for i in range(clip.shape[2]))
    found = list(recognizer.frame_by_frame(frames))
    assert len(found) == clip.shape[2] >= 12
    if classifier is None:
        (last,) = found[-1].predictions
        shares = torch.from_numpy(last.probabilities["class"])
        torch.testing.assert_close(shares, expected.softmax(0), atol=1e-5, rtol=0)
        return
    for t, step in enumerate(found[6:]):
        prediction = step.predictions[t if classifier == "unrolling" else 0]
        for task, scores in prediction.scores.items():
            wanted = expected[task][t]
            torch.testing.assert_close(torch.from_numpy(scores), wanted, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("rate", "step"), [(None, None), (8, 0.25)])
def test_frames_are_taken_at_the_rate_of_the_clips(small: Callable, rate, step) -> None:
    cfg = small("horst_early_motion")
    cfg.test_dataloader.dataset.pipeline[1].update(frame_interval=2, target_fps=rate)
    pipeline = FramePipeline(cfg)
    assert (pipeline.frame_interval, pipeline.time_step) == (2, step)
    assert pipeline.rate(30) == (15 if rate is None else 4)


def test_restart_forgets(small: Callable, load: Callable) -> None:
    recognizer = load(small("horst_early_motion"))
    torch.manual_seed(0)
    frames = [StreamFrame(i, i / 2, torch.randint(256, (1, 3, 1, 32, 32)).byte()) for i in range(5)]

    def scores(frames: list, **options: object) -> torch.Tensor:
        steps = recognizer.frame_by_frame(frames, **options)
        return torch.tensor([step.predictions[0].scores["class"].tolist() for step in steps])

    again = scores(frames, restart=1.5)
    torch.testing.assert_close(again[3:], scores(frames[3:]))
    torch.testing.assert_close(again[:3], scores(frames)[:3])
    with pytest.raises(ValueError, match="restart must be positive, got 0 s"):
        next(recognizer.frame_by_frame(frames, restart=0))


def test_frames_of_another_size_need_a_new_state(small: Callable, load: Callable) -> None:
    recognizer = load(small("horst_early_motion"))
    sizes = [(32, 32), (32, 32), (32, 48)]
    frames = [StreamFrame(i, i / 2, torch.zeros(1, 3, 1, *s).byte()) for i, s in enumerate(sizes)]
    error = r"frame 2 has height and width \(32, 48\), those before it \(32, 32\); a stream has one"
    with pytest.raises(ValueError, match=error):
        list(recognizer.frame_by_frame(frames))
    assert len(list(recognizer.frame_by_frame(frames, restart=1))) == 3


def test_state_and_frames_held_do_not_grow(small: Callable, load: Callable) -> None:
    """Frames are taken when their prediction is asked for, and the model keeps nothing."""
    recognizer = load(small("horst_early_motion"))
    sizes, taken = [], []
    stream = recognizer.model.stream

    def watched(*args):
        output, states = stream(*args)
        sizes.append(
            [sum(x.numel() for e in layer for x in e if x is not None) for layer in states]
        )
        return output, states

    recognizer.model.stream = watched

    def frames():
        for i in range(12):
            taken.append(i)
            yield StreamFrame(i, i, torch.zeros(1, 3, 1, 32, 32, dtype=torch.uint8))

    for i, _ in enumerate(recognizer.frame_by_frame(frames())):
        assert taken == [*range(i + 1)]
    assert all(size == sizes[0] for size in sizes)


def test_pipelines_that_do_not_fit_are_reported(small: Callable, gray_video: Callable) -> None:
    cfg = small("horst_anticipation_motion")
    pipeline = FramePipeline(cfg)
    assert (pipeline.time_step, pipeline.rate(30)) == (0.25, 4)
    slow = gray_video(6, 3)
    with (
        Capture(slow) as video,
        pytest.raises(ValueError, match="has 3 frames per second, but .* 4"),
    ):
        next(pipeline.read(video))
    steps = cfg.test_dataloader.dataset.pipeline
    steps.insert(3, dict(type="ThreeCrop", crop_size=48))
    with Capture(gray_video(6, 4)) as video, pytest.raises(ValueError, match="one view of each"):
        next(FramePipeline(cfg).read(video))
    steps[1] = dict(type="UniformSample", clip_len=4)
    with pytest.raises(ValueError, match="must have ObserveFirst, .* got VideoInit, UniformSample"):
        FramePipeline(cfg)
    del steps[2]
    with pytest.raises(ValueError, match="and decode images, got"):
        FramePipeline(cfg)


def test_models_that_do_not_fit_are_reported(small: Callable, load: Callable, cfg: Config) -> None:
    with pytest.raises(ValueError, match="MultiView.* of windows does not answer frame by frame"):
        next(load(cfg).frame_by_frame([]))
    cfg = small("horst_anticipation_motion", **UNROLL)
    cfg.test_dataloader = small("horst_early_motion").test_dataloader
    with pytest.raises(ValueError, match="unrolling needs a test pipeline with ObserveBefore"):
        load(cfg)
