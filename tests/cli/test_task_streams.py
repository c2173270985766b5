"""Long videos and streams have the answers of the whole video, for each task in time."""

from collections.abc import Iterable, Iterator

import numpy as np
import pytest
import torch
from mmengine.config import Config

from benchmarks.live_server import LiveServer
from mmvidformer.apis import Capture, Prediction, Recognizer
from mmvidformer.layers.samples import Instances


@pytest.fixture(scope="module")
def frames_model(annotate, main_of, make_config, tmp_path_factory) -> Recognizer:
    """A model of frames with random weights."""
    root, run = annotate("frames"), tmp_path_factory.mktemp("frames_model")
    main_of("data.list")([str(root / "all.csv"), "--task", "frames"])
    options = ["--config", str(make_config("frames_model")), "--data", str(root), "--prepare"]
    main_of("finetune")([*options, "--task", "frames", "--work-dir", str(run)])
    return Recognizer(Config.fromfile(run / "finetune" / "config.py"), None)


def noise(frames: int) -> np.ndarray:
    """Random frames."""
    return np.random.default_rng(0).integers(0, 256, (frames, 36, 36, 3), dtype=np.uint8)


def test_parts_of_a_long_video_give_the_steps_of_the_whole(frames_model) -> None:
    """A clip spans 8 frames and a part 64; 150 frames are one part after another."""
    video = noise(150)
    found = list(frames_model.timeline(video, fps=10))
    opened = frames_model.pipeline.open(video, 10)
    (whole,) = frames_model.run_samples([frames_model.pipeline.read(opened)])
    assert len(found) == len(whole.pred_score) == 38  # of 4 frames
    ends = [one.seconds for one in found]
    assert [start for start, _ in ends] == pytest.approx([0.4 * i for i in range(38)])
    assert ends[-1][1] == 15
    scores = np.stack([one.probabilities["class"] for one in found])
    inner = np.abs(scores - whole.pred_score.numpy()).max(axis=1)
    assert inner.max() < 1e-5


@pytest.mark.parametrize("delay", [0.0, 0.3, 0.4])
def test_a_stream_gives_each_step_once_after_the_delay(frames_model, delay) -> None:
    seen: list[int] = []

    def frames():
        for number, frame in enumerate(noise(40)):
            seen.append(number)
            yield frame

    found = []
    for one in frames_model.stream(frames(), fps=10, delay=delay):
        now = len(seen) / 10
        assert now >= one.seconds[1] + delay - 1e-6 or now == 4.0  # the end
        found.append((one.seconds, now - one.seconds[1]))
    starts = [seconds[0] for seconds, _ in found]
    assert starts == pytest.approx([0.4 * i for i in range(10)])
    whole = 0.4 * (delay > 0)  # as many steps as it takes
    assert max(late for _, late in found[2:]) == pytest.approx(whole, abs=1e-6)


def test_what_a_model_of_frames_has_no_use_for(frames_model) -> None:
    with pytest.raises(ValueError, match="models of steps take no window, got 2"):
        next(frames_model.timeline(noise(9), window=2.0, fps=10))
    with pytest.raises(ValueError, match=r"delay must be at most 0.4 s \(.*\), got 0.5 s"):
        next(frames_model.stream(iter(noise(9)), fps=10, delay=0.5))
    with pytest.raises(ValueError, match="models of steps take no stride, got 1"):
        next(frames_model.stream(iter(noise(9)), fps=10, stride=1.0))


@pytest.fixture
def segments_config(annotate, main_of, make_config, tmp_path) -> Config:
    """The config of a model of segments; a clip spans 8 frames."""
    root = annotate("segments")
    main_of("data.list")([str(root / "all.csv"), "--task", "segments"])
    options = ["--config", str(make_config("segments_model")), "--data", str(root), "--prepare"]
    main_of("finetune")([*options, "--task", "segments", "--work-dir", str(tmp_path)])
    cfg = Config.fromfile(tmp_path / "finetune" / "config.py")
    cfg.model.cls_head.update(score_thr=0.0, levels=2, max_segments=10_000, sigma=1e-9)
    return cfg


@pytest.fixture
def segments_model(segments_config) -> Recognizer:
    """Its model with random weights."""
    return Recognizer(segments_config, None)


def test_parts_of_a_long_video_give_its_segments(segments_model, monkeypatch) -> None:
    """With parts of 12 clips, 4 of them context at each end, they are those of the whole."""
    # Soft-NMS with a narrow Gaussian removes what overlaps, which differs at the borders.
    monkeypatch.setattr("mmvidformer.models.segments_head.soft_nms", lambda *args: args[:3])
    options = dict(fps=10, min_score=0)
    video = noise(200)  # 25 clips
    whole = [(one.seconds, one.top(1)[0]) for one in segments_model.timeline(video, **options)]
    monkeypatch.setattr("mmvidformer.apis.windows.SEGMENTS_PART", 12)
    monkeypatch.setattr("mmvidformer.apis.windows.SEGMENTS_CONTEXT", 4)
    parts = [(one.seconds, one.top(1)[0]) for one in segments_model.timeline(video, **options)]
    assert len(parts) == len(whole) > 100
    for one, two in zip(sorted(parts), sorted(whole), strict=True):
        assert one[0] == pytest.approx(two[0], abs=1e-4)
        assert one[1][:2] == two[1][:2] and one[1][2] == pytest.approx(two[1][2], abs=1e-5)


def test_a_stream_has_the_tokens_of_the_video(segments_model, monkeypatch) -> None:
    read = []

    def segments(head, *args):
        read.append(args)
        return Instances(segments=torch.zeros(0, 2), scores=torch.zeros(0), labels=torch.zeros(0))

    monkeypatch.setattr("mmvidformer.models.segments_head.SegmentsHead.segments", segments)
    assert not list(segments_model.timeline(noise(44), fps=10))
    assert not list(segments_model.stream(iter(noise(44)), fps=10))
    whole, *parts = read
    assert [len(tokens) for tokens, *_ in parts] == [1, 2, 3, 4, 5, 6]
    torch.testing.assert_close(parts[-1][0], whole[0])
    assert parts[-1][1:3] == whole[1:3] == (4, 44)  # frames of a step, of all
    assert parts[-1][3].rate == whole[3].rate == 10
    monkeypatch.setattr("mmvidformer.apis.segments.SEGMENTS_PART", 3)
    assert not list(segments_model.stream(iter(noise(44)), fps=10))
    torch.testing.assert_close(read[-1][0], whole[0][3:])
    assert read[-1][2] == 44 - 3 * 8
    assert not list(segments_model.stream(iter(()), fps=10))


@pytest.mark.parametrize("delay", [0.0, 1.0])
def test_a_stream_gives_each_segment_once_after_the_delay(
    segments_model, monkeypatch, delay
) -> None:
    """A clip takes 0.8 s; ends are seen a little later in each clip."""
    truth = torch.tensor([[0.3, 1.5], [0.5, 1.5], [2.0, 2.4], [4.0, 5.1]])

    def segments(head, tokens, step, total, times):
        seen = truth + torch.tensor([0.0, 0.01 * times.seconds(total)])
        scores = torch.tensor([0.9, 0.8, 0.7, 0.6])
        return Instances(segments=seen, scores=scores, labels=torch.tensor([0, 1, 0, 2]))

    monkeypatch.setattr("mmvidformer.models.segments_head.SegmentsHead.segments", segments)
    seen: list[int] = []

    def frames():
        for number, frame in enumerate(noise(52)):
            seen.append(number)
            yield frame

    found = []
    for one in segments_model.stream(frames(), fps=10, delay=delay, min_score=0.65):
        found.append((one.seconds[0], one.top(1)[0][0], len(seen) / 10))
    clips = [1.6, 1.6, 3.2] if not delay else [3.2, 3.2, 4.0]
    starts = [0.3, 0.5, 2.0]
    assert found == [
        (pytest.approx(start), label, now)
        for start, label, now in zip(starts, (0, 1, 0), clips, strict=True)
    ]


@pytest.fixture(scope="module")
def moments_model(annotate, main_of, make_config, tmp_path_factory) -> Recognizer:
    """A model of moments with random weights, whose moments lie before their steps."""
    root, run = annotate("moments"), tmp_path_factory.mktemp("moments_model")
    main_of("data.list")([str(root / "all.csv"), "--task", "moments"])
    options = ["--config", str(make_config("moments_model")), "--data", str(root), "--prepare"]
    main_of("finetune")([*options, "--task", "moments", "--work-dir", str(run)])
    recognizer = Recognizer(Config.fromfile(run / "finetune" / "config.py"), None)
    torch.nn.init.constant_(recognizer.model.cls_head.fc_distance.bias, -1.4)
    return recognizer


def rows_of(moments: Iterable[Prediction]) -> list[tuple[float, str]]:
    """Seconds and classes in order; seconds of clips that run alone differ by 1e-7."""
    return sorted((round(moment.start, 4), moment.label) for moment in moments)


@pytest.mark.parametrize("delay", [0.0, 2.5])
@pytest.mark.parametrize("frames", [45, 80, 143])
def test_a_stream_gives_the_moments_of_the_file(moments_model, frames, delay) -> None:
    """Also without a delay: a moment beside the end of what was seen would move later."""
    video, options = noise(frames), dict(fps=10, min_score=0.2)
    expected = rows_of(moments_model.timeline(video, **options))
    found = list(moments_model.stream(iter(video), **options, delay=delay))
    assert len(expected) > 2 and rows_of(found) == expected
    assert [one.start for one in found] == sorted(one.start for one in found)
    assert all(one.start == one.end for one in found)


def test_frames_that_break_off_have_the_moments_of_the_file(moments_model) -> None:
    """What waits for later frames is told before the error."""
    video, options = noise(80), dict(fps=10, min_score=0.2)

    def break_off() -> Iterator[np.ndarray]:
        yield from video
        raise OSError("the cable is out")

    found: list[Prediction] = []
    with pytest.raises(OSError, match="the cable is out"):
        found.extend(moments_model.stream(break_off(), **options))
    assert rows_of(found) == rows_of(moments_model.timeline(video, **options))


def test_an_address_that_goes_away_has_the_moments_of_the_file(moments_model, monkeypatch) -> None:
    """Their seconds are those of the clock; the server ends after 80 frames."""
    monkeypatch.setattr("mmvidformer.video.capture.WAIT", 0.02)
    pictures: list[np.ndarray] = []

    class Seen(Capture):
        def frames(self, *steps: object) -> Iterator[tuple[int, float, np.ndarray]]:
            for frame in super().frames(*steps):
                pictures.append(frame[2])
                yield frame

    found: list[Prediction] = []
    with (
        LiveServer(80, fps=10, pace=200, size=(64, 64), connections=1) as server,
        Seen(server.address, queue=100, patience=0) as capture,
        pytest.raises(ConnectionError, match="went away after 80 frames"),
    ):
        found.extend(moments_model.stream(capture, min_score=0.2))
    expected = [*moments_model.timeline(np.stack(pictures), fps=10, min_score=0.2)]
    assert len(pictures) == 80 and len(expected) > 2
    assert sorted(one.label for one in found) == sorted(one.label for one in expected)
