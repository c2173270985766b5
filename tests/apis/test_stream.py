"""What is said of a stream is what is said of the clip of the same frames."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from mmengine.dataset import pseudo_collate
from mmengine.registry import DefaultScope

from mmvidformer.apis import (
    Capture,
    StreamFrame,
    StreamPrediction,
    build_frame_pipeline,
    load_stream_model,
    stream_predictions,
    stream_tasks,
    to_bars,
    to_record,
)
from mmvidformer.registry import DATASETS

UNROLL = {"model.cls_head.classifier": "unrolling"}


def dataset(cfg, **changes: object):
    settings = {**cfg.test_dataloader.dataset, **changes}
    with DefaultScope.overwrite_default_scope("mmaction"):
        return DATASETS.build(settings)


def by_opencv(pipeline: list[dict]) -> list[dict]:
    """The pipeline, whose frames are decoded by the same library as a stream's."""
    return [
        {"type": t["type"].replace("Decord", "OpenCV")} if "Decord" in t["type"] else dict(t)
        for t in pipeline
    ]


@pytest.mark.parametrize("crop", [False, True])
def test_early_recognition_of_a_file(small: Callable, build: Callable, crop: bool) -> None:
    """From the file on: frames, transforms, normalisation, model, head."""
    cfg = small("horst_early_motion")
    steps = cfg.test_dataloader.dataset.pipeline
    if crop:
        steps[3:3] = [dict(type="Resize", scale=(-1, 48)), dict(type="CenterCrop", crop_size=40)]
    model = build(cfg)
    videos = dataset(cfg, pipeline=by_opencv(steps))
    with torch.no_grad():
        sample = model.test_step(pseudo_collate([videos[1]]))[0]
    expected = sample.pred_score.softmax(0)
    pipeline = build_frame_pipeline(cfg)
    with Capture(videos.get_data_info(1)["filename"]) as video:
        said = list(stream_predictions(model, pipeline.read(video)))
    assert [p.frame.number for p in said] == [*range(0, video.total, pipeline.frame_interval)]
    torch.testing.assert_close(said[-1].scores["class"][0], expected, atol=1e-5, rtol=0)
    assert (said[0].scores["class"] - expected).abs().max() > 1e-4  # it changes on the way
    assert said[-1].frame.picture.shape == (32, 32, 3)
    best, share = said[-1].top("class", 1)[0]
    assert (best, share) == (expected.argmax(), pytest.approx(expected.max().item(), abs=1e-5))


@pytest.mark.parametrize("options", [{}, UNROLL], ids=["linear", "unrolling"])
def test_anticipation(small: Callable, build: Callable, options: dict) -> None:
    cfg = small("horst_anticipation_motion", **options)
    model = build(cfg)
    item = dataset(cfg)[1]
    clip = item["inputs"]
    with torch.no_grad():
        logits = model.test_step(pseudo_collate([item]))[0].pred_score
    frames = (StreamFrame(i, i / 4, clip[:, :, i : i + 1]) for i in range(14))
    said = list(stream_predictions(model, frames))
    assert said[0].scores.keys() == {"action", "verb", "noun"}
    assert said[0].ahead == ((8, 7, 6, 5, 4, 3, 2, 1) if options else ())
    for t, prediction in enumerate(said[6:]):  # 2, 1.75, ..., 0.25 s before the action
        for task, scores in prediction.scores.items():
            row = scores[t] if options else scores[0]
            torch.testing.assert_close(row, logits[task][t].softmax(0), atol=1e-5, rtol=0)


def test_restart_forgets(small: Callable, build: Callable) -> None:
    model = build(small("horst_early_motion"))
    frames = [StreamFrame(i, i, torch.randint(256, (1, 3, 1, 32, 32)).byte()) for i in range(5)]
    whole = [p.scores["class"] for p in stream_predictions(model, frames[3:])]
    again = [p.scores["class"] for p in stream_predictions(model, frames, restart=3)]
    torch.testing.assert_close(torch.stack(again[3:]), torch.stack(whole))
    with pytest.raises(ValueError, match="restart must be at least 1 frame, got 0"):
        next(stream_predictions(model, frames, restart=0))


def test_state_and_frames_held_do_not_grow(small: Callable, build: Callable) -> None:
    """Frames are taken when their prediction is asked for, and the model keeps nothing."""
    model = build(small("horst_early_motion"))
    sizes, taken = [], []
    stream = model.stream

    def watched(*args):
        output, states = stream(*args)
        sizes.append(
            [sum(x.numel() for e in layer for x in e if x is not None) for layer in states]
        )
        return output, states

    model.stream = watched

    def frames():
        for i in range(12):
            taken.append(i)
            yield StreamFrame(i, i, torch.zeros(1, 3, 1, 32, 32, dtype=torch.uint8))

    for i, _ in enumerate(stream_predictions(model, frames())):
        assert taken == [*range(i + 1)]
    assert sizes[7] == sizes[11] and sizes[3] == [size // 2 for size in sizes[7]]


def test_pipelines_that_do_not_fit_are_told(small: Callable, film: Callable) -> None:
    cfg = small("horst_anticipation_motion")
    pipeline = build_frame_pipeline(cfg)
    assert (pipeline.time_step, pipeline.pace().rate(30)) == (0.25, 4)
    slow = film(6, 3)
    with Capture(slow) as video, pytest.raises(ValueError, match="has 3 frames a second, and .* 4"):
        next(pipeline.read(video))
    steps = cfg.test_dataloader.dataset.pipeline
    steps.insert(3, dict(type="ThreeCrop", crop_size=48))
    with Capture(film(6, 4)) as video, pytest.raises(ValueError, match="one view of a frame"):
        next(build_frame_pipeline(cfg).read(video))
    steps[1] = dict(type="UniformSample", clip_len=4)
    with pytest.raises(ValueError, match="how often a frame is taken: VideoInit, UniformSample"):
        build_frame_pipeline(cfg)
    steps[2] = dict(type="mmvidformer.LmdbDecode", feature_shape=(4,))
    with pytest.raises(ValueError, match="decodes no images"):
        build_frame_pipeline(cfg)


def test_models_that_do_not_fit_are_told(small: Callable, build: Callable, tmp_path: Path) -> None:
    cfg = small("horst_early_motion")
    weights = tmp_path / "weights.pth"
    torch.save({"state_dict": build(cfg).state_dict()}, weights)
    assert stream_tasks(load_stream_model(cfg, str(weights))) == {"class": 8}
    other = small("horst_anticipation_motion")
    with pytest.raises(ValueError, match="weights.pth is of another model than the config"):
        load_stream_model(other, str(weights))
    other.model.type = "Recognizer3D"
    with pytest.raises(ValueError, match="needs a recurrent model.* the config has Recognizer3D"):
        load_stream_model(other, str(weights))
    cfg.model.backbone = dict(type="mmvidformer.StoredMaps", out_channels=8)
    with pytest.raises(ValueError, match="reads stored maps"):
        load_stream_model(cfg, str(weights))


def test_steps_ahead_need_their_seconds() -> None:
    frame = StreamFrame(0, 0.0, torch.zeros(1, 3, 1, 2, 2))
    scores = {task: torch.eye(3)[[2, 1]] for task in ("action", "verb", "noun")}
    said = StreamPrediction(frame, (2, 1), scores)
    names = dict.fromkeys(scores, ["a", "b", "c"])
    rows = to_record(said, names, 1, 0.5)["predictions"]
    assert rows[0] == {
        "task": "action",
        "ahead": 1.0,
        "top": [{"class": 2, "name": "c", "score": 1.0}],
    }
    by_time, action, *_ = to_bars(said, names, 1, 0.5, ahead=0.6)
    assert by_time.classes == [("1.00 s c", 1.0), ("0.50 s b", 1.0)]
    assert (action.heading, action.classes) == ("next action in 0.50 s", [("b", 1.0)])
    for tell in (to_record, to_bars):
        with pytest.raises(ValueError, match="how many seconds a step has"):
            tell(said, names)
