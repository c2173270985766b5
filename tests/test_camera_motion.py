"""The shipped model of camera motion: its training in small, its weights, its answers."""

import csv
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.dataset import Compose
from mmengine.registry import DefaultScope

from mmvidformer import get_config
from mmvidformer.apis import Recognizer, create_model
from mmvidformer.checkpoints.download import fetch
from mmvidformer.checkpoints.labels import read_labels
from mmvidformer.engine.loading import load_recognizer
from mmvidformer.synthetic.camera.clips import film
from mmvidformer.synthetic.camera.dataset import CameraMotionDataset
from mmvidformer.synthetic.camera.paths import CLASSES, FPS, class_of
from mmvidformer.synthetic.camera.textures import texture
from mmvidformer.video.writer import VideoOutput

NAME, WEIGHTS = "camera_motion", "published://camera_motion"
SPEED = 0.25  # of the motions of test videos, in widths per second


@pytest.fixture(scope="module")
def recognizer() -> Recognizer:
    return Recognizer(NAME, device="cpu")


def scene(velocity: tuple[float, ...], seconds: float = 2, fps: int = 24) -> np.ndarray:
    """RGB frames (T, 96, 96, 3) of a camera with a velocity that looks at noise."""
    steps = np.tile(np.array(velocity) / fps, (round(seconds * fps) - 1, 1))
    return film(texture(12_345, plain=True), steps, 128 + 128j, 120 + 0j, 96)


def velocity_of(label: int) -> tuple[float, ...]:
    part, positive = divmod(label - 1, 2)
    speeds = [0.0] * 4
    if label:
        speeds[part] = (1 if positive else -1) * SPEED * (1 if part < 2 else 2)
    return tuple(speeds)


def test_the_model_is_small_and_needs_no_network() -> None:
    path = fetch(WEIGHTS)
    assert path.suffix == ".safetensors" and path.stat().st_size <= 3e6
    assert path.with_suffix(".md").is_file()
    model = create_model(NAME, pretrained=True)
    assert sum(weight.numel() for weight in model.parameters()) <= 1e6
    assert model.pretrained_cfg["license"] == "Apache-2.0"
    assert model.pretrained_cfg["label_names"] == CLASSES == tuple(read_labels(NAME))
    model.reset_classifier(0)
    assert model(torch.zeros(2, 3, 8, 64, 64)).shape == (2, 128)


@pytest.mark.parametrize("label", range(len(CLASSES)), ids=CLASSES)
@pytest.mark.parametrize("fps", [8, 24, 30])
def test_each_motion_is_named_at_any_frame_rate(recognizer, label: int, fps: int) -> None:
    frames = scene(velocity_of(label), 1.5, fps)
    (found,) = recognizer.timeline(frames, window=1.5, stride=10, fps=fps)
    assert found.top(1)[0][1] == CLASSES[label]


def accuracy(recognizer: Recognizer, count: int) -> float:
    """Top-1 of hard generated clips that are not those of training."""
    clips = CameraMotionDataset([], count, seed=1, textures=50)
    drawn = (clips.draw(number) for number in range(count))
    right = [recognizer(frames).top(1)[0][0] == class_of(velocity) for frames, velocity in drawn]
    return float(np.mean(right))


def test_hard_clips_of_other_scenes() -> None:
    assert accuracy(Recognizer(NAME, device="cpu", clips=1), 180) > 0.85


@pytest.mark.slow
def test_training_again_gives_the_shipped_accuracy(run: Callable, tmp_path: Path) -> None:
    """About 40 minutes on two cores: the weights come from this command."""
    command = [sys.executable, "-m", "mmvidformer", "train", NAME, "--procs", 2]
    process = run(*command, "--work-dir", tmp_path)
    printed, _ = process.communicate(timeout=4 * 3600)
    assert process.returncode == 0, printed
    trained = (tmp_path / "last_checkpoint").read_text()
    again, shipped = (
        accuracy(Recognizer(NAME, weights, "cpu", clips=1), 1800) for weights in (trained, WEIGHTS)
    )
    assert again == pytest.approx(shipped, abs=0.02)


def test_a_film_is_cut_into_its_motions(main_of, tmp_path: Path, capsys) -> None:
    film_of = [scene(velocity_of(CLASSES.index(name)), 4) for name in ("pan left", "zoom in")]
    video = tmp_path / "film.mp4"
    with VideoOutput(video, fps=24) as output:
        for frame in np.concatenate(film_of):
            output.add(frame)
    table, picture = tmp_path / "film.csv", tmp_path / "film.png"
    options = ["--csv", str(table), "--timeline", str(picture)]
    assert main_of("demo")([NAME, *options, str(video), "--device", "cpu"]) == 0
    assert "film.mp4: 7 windows" in capsys.readouterr().out and picture.stat().st_size > 10_000
    with open(table, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] for row in rows] == ["pan left", "zoom in"]
    assert float(rows[0]["end"]) == float(rows[1]["start"]) == pytest.approx(4, abs=0.6)


def test_clips_are_eight_frames_per_second() -> None:
    """The fifth of a second that the model was trained on, whatever the rate of the video."""
    with DefaultScope.overwrite_default_scope("mmaction"):
        sampler = Compose(get_config(NAME).test_pipeline[1:2])
    for rate in (8.0, 12.5, 24.0, 29.97, 60.0):
        video = dict(total_frames=round(3 * rate), start_index=0, avg_fps=rate)
        clips = sampler(video)["frame_inds"].reshape(4, 8)
        steps = (clips[:, -1] - clips[:, 0]) / 7
        np.testing.assert_allclose(steps, rate / FPS, atol=1 / 7)


def test_training_draws_clips_and_reaches_every_weight(main_of, tmp_path: Path) -> None:
    small = ["clips=256", "textures=2", "curriculum=(128,256)"]
    options = [f"train_dataloader.dataset.{one}" for one in small]
    options += ["model.backbone.arch.depth=1", "train_dataloader.num_workers=0"]
    options += ["default_hooks.checkpoint.interval=2"]
    main_of("train")([NAME, "--work-dir", str(tmp_path), "--cfg-options", *options])
    assert (tmp_path / "last_checkpoint").read_text().endswith("iter_4.pth")
    cfg = get_config(NAME)
    cfg.model.backbone.arch.depth = 1
    cfg.randomness = {}
    torch.manual_seed(0)
    before = load_recognizer(cfg, None)
    after = load_recognizer(cfg, str(tmp_path / "iter_4.pth"))
    for (name, one), other in zip(before.named_parameters(), after.parameters(), strict=True):
        assert not torch.equal(one, other), name
