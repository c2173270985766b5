"""Boxes of persons, with torchvision's model without its weights."""

import numpy as np
import pytest
import torch
from torchvision.models import detection

from mmvidformer.apis.detector import Person, PersonDetector
from mmvidformer.apis.persons import choose_rate, find_persons
from mmvidformer.video.video import Video

VIDEO = dict(avg_fps=12.0, start_index=0)
BUILD = detection.fasterrcnn_resnet50_fpn_v2


@pytest.fixture
def detector(monkeypatch) -> PersonDetector:
    """A detector with random weights."""

    def build(weights: detection.FasterRCNN_ResNet50_FPN_V2_Weights) -> torch.nn.Module:
        assert "person" == weights.meta["categories"][1]
        torch.manual_seed(0)
        return BUILD(weights=None, weights_backbone=None, min_size=32, max_size=64)

    monkeypatch.setattr(detection, "fasterrcnn_resnet50_fpn_v2", build)
    return PersonDetector("cpu")


def test_torchvisions_model_takes_a_frame(detector) -> None:
    frame = np.random.default_rng(0).integers(0, 256, (32, 48, 3), dtype=np.uint8)
    read = []
    detector.model.register_forward_pre_hook(lambda _, args: read.append(args[0][0]))
    boxes = detector(frame, min_score=0.0)
    assert all(len(box) == 4 and 0 <= min(box) <= max(box) <= 1 for box in boxes)
    torch.testing.assert_close(read[0], torch.from_numpy(frame).permute(2, 0, 1) / 255)


def test_persons_of_each_second(detector, tiny_videos, monkeypatch) -> None:
    """Boxes are in pixels; other classes and low scores are left out."""
    calls = []

    def found(pixels: list[torch.Tensor]) -> list[dict]:
        calls.append(pixels)
        boxes = torch.tensor(
            [[16.0, 8, 32, 24], [0.0, 0, 64, 32], [0.0, 0, 9, 9], [-1.0, 0, 70, 33]]
        )
        scores, labels = torch.tensor([0.9, 0.95, 0.5, 0.8]), torch.tensor([1, 2, 1, 1])
        return [dict(boxes=boxes, scores=scores, labels=labels)]

    monkeypatch.setattr(detector, "model", found)
    path = str(tiny_videos.root / "val_0.mp4")  # 2 s of 64 x 32 pixels
    opened = VIDEO | dict(video_reader=Video.open(path), total_frames=24, filename=path)
    moments = list(find_persons(opened, detector))
    assert len(calls) == 2 and calls[0][0].shape == (3, 32, 64)
    boxes = [(0.25, 0.25, 0.5, 0.75), (0, 0, 1, 1)]
    assert [moment.seconds for moment in moments] == [0, 1]
    for moment in moments:
        assert [person.box for person in moment.persons] == boxes
        assert [person.score for person in moment.persons] == pytest.approx([0.9, 0.8])
    monkeypatch.setattr(detector, "model", lambda _: [{k: v[:0] for k, v in found(_)[0].items()}])
    assert not list(find_persons(opened, detector))
    with pytest.raises(ValueError, match=r"val_0\.mp4: its frame rate is unknown, set fps"):
        list(find_persons({**opened, "avg_fps": 0.0}, detector))


@pytest.mark.parametrize(
    ("rate", "seconds"),
    [(0.5, [0]), (2, [0, 0.5, 1, 1.5]), (100, [number / 12 for number in range(24)])],
)
def test_persons_at_any_rate(rate: float, seconds: list[float], tiny_videos) -> None:
    """No frame is looked at twice; the times are those of the frames or up to one frame later."""
    path, seen = str(tiny_videos.root / "val_0.mp4"), []

    def detector(frame: np.ndarray, min_score: float) -> list[Person]:
        seen.append(frame)
        return [Person((0, 0, 1, 1))]

    opened = VIDEO | dict(video_reader=Video.open(path), total_frames=24, filename=path)
    moments = list(find_persons(opened, detector, rate))
    found = [moment.seconds for moment in moments]
    assert len(seen) == len(found) == len(seconds)
    assert all(0 <= one - frame < 1 / 12 for one, frame in zip(found, seconds, strict=True))
    assert len({frame.tobytes() for frame in seen}) == len(seen)


@pytest.mark.parametrize("rate", [0, -1, float("inf"), float("nan")])
def test_a_wrong_rate(rate: float) -> None:
    with pytest.raises(ValueError, match="rate must be positive, got"):
        choose_rate(rate, track=False)
