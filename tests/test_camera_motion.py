"""The shipped model of camera motion: its training in small, its weights, its answers."""

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.dataset import Compose
from mmengine.registry import DefaultScope

import mmvidformer
from lab.synthetic.camera.clips import film
from lab.synthetic.camera.dataset import CameraMotionDataset
from lab.synthetic.camera.paths import CLASSES, FPS, class_of
from lab.synthetic.camera.sample import SHOTS
from lab.synthetic.camera.textures import texture
from mmvidformer import get_config
from mmvidformer.apis import Recognizer, create_model
from mmvidformer.checkpoints.download import fetch
from mmvidformer.checkpoints.labels import read_labels
from mmvidformer.engine.loading import load_recognizer
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
    right = [recognizer(frames).top(1)[0][0] == class_of(velocity) for frames, velocity, _ in drawn]
    return float(np.mean(right))


def test_hard_clips_of_other_scenes() -> None:
    assert accuracy(Recognizer(NAME, device="cpu", clips=1), 180) > 0.85


@pytest.mark.slow
def test_training_again_gives_the_shipped_accuracy(run: Callable, tmp_path: Path) -> None:
    """Up to 90 minutes on two cores."""
    command = [sys.executable, "-m", "mmvidformer", "train", NAME, "--procs", 2]
    process = run(*command, "--work-dir", tmp_path)
    printed, _ = process.communicate(timeout=4 * 3600)
    assert process.returncode == 0, printed
    trained = (tmp_path / "last_checkpoint").read_text()
    again, shipped = (
        accuracy(Recognizer(NAME, weights, "cpu", clips=1), 1800) for weights in (trained, WEIGHTS)
    )
    assert again == pytest.approx(shipped, abs=0.01)


def test_a_film_is_cut_into_its_motions(main_of, tmp_path: Path, capsys) -> None:
    film_of = [scene(velocity_of(CLASSES.index(name)), 4) for name in ("pan left", "zoom in")]
    video = tmp_path / "film.mp4"
    with VideoOutput(video, fps=24) as output:
        for frame in np.concatenate(film_of):
            output.add(frame)
    table, picture = tmp_path / "film.csv", tmp_path / "film.png"
    options = ["--csv", str(table), "--timeline", str(picture)]
    assert main_of("demo")([NAME, *options, str(video), "--device", "cpu"]) == 0
    assert "film.mp4: 6 windows" in capsys.readouterr().out and picture.stat().st_size > 10_000
    with open(table, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] for row in rows] == ["pan left", "zoom in"]
    assert float(rows[0]["end"]) == float(rows[1]["start"]) == pytest.approx(4, abs=0.01)


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
    small = ["clips=256", "textures=2", "size=64", "curriculum=(128,256)"]
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


def test_rates_of_a_scene(recognizer) -> None:
    """In short sides, the logarithm of zoom, and degrees a second; and two motions at once."""
    for velocity in ((0.25, 0, 0, 0), (0, -0.3, 0, 0), (0, 0, 0.5, 0), (0, 0, 0, -0.5)):
        (found,) = recognizer.timeline(scene(velocity, 1.0), window=1.0, fps=24)
        rates = np.array(list(found.values.values())[:4]) / [1, 1, 1, np.degrees(1)]
        np.testing.assert_allclose(rates, velocity, atol=0.08)
    (found,) = recognizer.timeline(scene((0, 0.2, 0, -0.4), 1.0), window=1.0, fps=24)
    assert set(found.labels) == {"tilt down", "roll counter-clockwise"}


@pytest.mark.parametrize("frames", [1, 9])
def test_too_short_videos_are_uncertain(recognizer, frames: int) -> None:
    """One frame, and 0.3 s."""
    clip = scene((0.25, 0, 0, 0), 2, 30)[:frames]
    assert recognizer(clip, fps=30).text() == "uncertain (too short)"
    (found,) = recognizer.timeline(clip, window=1, fps=30)
    assert found.top(1)[0][1] == "uncertain"


def test_nothing_to_see_is_uncertain(recognizer) -> None:
    noise = np.random.default_rng(0).normal(120, 4, (30, 96, 96, 3))
    assert recognizer(noise.astype(np.uint8), fps=24).doubt == "nothing to see"


def test_the_clip_of_the_package(main_of, tmp_path: Path, capsys) -> None:
    """Its motions and its cut, as ``demo`` finds them without a source."""
    video = Path(mmvidformer.__file__).parent / "weights" / "camera_motion.mp4"
    assert video.stat().st_size <= 200_000
    lines = tmp_path / "windows.jsonl"
    assert main_of("demo")([NAME, "--json", str(lines), "--device", "cpu"]) == 0
    windows = [json.loads(line) for line in lines.read_text().splitlines()]
    start, right = 0.0, []
    for _, _, _, _, parts in SHOTS:
        cut = start
        for seconds, velocity in parts:
            end = start + seconds
            label = CLASSES[class_of(np.array(velocity))]
            for window in windows:
                if start - 0.01 <= window["start"] and window["end"] <= end + 0.1:
                    right.append(window["label"] == label)
            start = end
        # No window crosses a cut.
        assert not any(
            a < cut - 0.05 and cut + 0.05 < b for a, b in ((w["start"], w["end"]) for w in windows)
        )
    assert len(right) >= 8 and all(right)
    with pytest.raises(SystemExit):
        main_of("demo")(["vivit_fe_k400"])
    assert "no SOURCE" in capsys.readouterr().err


def test_whole_frames_train_and_answer(main_of, tmp_path: Path) -> None:
    """Four steps on squares and wide frames; then frames of any aspect ratio."""
    small = ["clips=256", "textures=2", "same_size=64", "curriculum=(128,256)"]
    options = [f"train_dataloader.dataset.{option}" for option in small]
    options += ["model.backbone.arch.depth=1", "train_dataloader.num_workers=0"]
    options += ["default_hooks.checkpoint.interval=4"]
    main_of("train")([NAME, "--work-dir", str(tmp_path), "--cfg-options", *options])
    cfg = get_config(NAME)
    cfg.model.backbone.arch.depth = 1
    recognizer = Recognizer(cfg, str(tmp_path / "iter_4.pth"), "cpu")
    for shape in ((72, 128), (128, 72), (90, 90), (60, 300)):
        frames = np.random.default_rng(0).integers(0, 255, (24, *shape, 3), dtype=np.uint8)
        assert len(recognizer(frames, fps=24).values) == 5


@pytest.mark.parametrize("task", ["classes", "labels", "number", "frames"])
def test_its_weights_are_a_start(main_of, tiny_videos, tmp_path: Path, capsys, task: str) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for video in tiny_videos.root.glob("*.mp4"):
        (data / video.name).symlink_to(video)
    rows = {
        "labels": ["video,label,split", *(f"train_{i}.mp4,{'ab'[i % 2]},train" for i in range(8))],
        "number": ["video,speed,split", *(f"train_{i}.mp4,{i},train" for i in range(8))],
        "frames": [
            "video,start,end,label,split",
            *(f"train_{i}.mp4,0,1,{'ab'[i % 2]},train" for i in range(8)),
        ],
    }
    if task == "classes":
        lines = [f"train_{i}.mp4 {i % 2}\n" for i in range(8)]
        (data / "train.txt").write_text("".join(lines))
        (data / "val.txt").write_text("".join(f"val_{i}.mp4 {i % 2}\n" for i in range(4)))
        (data / "classes.txt").write_text("a\nb\n")
    else:
        held_out = [row.replace("train", "val") for row in rows[task][1:4]]
        (tmp_path / "all.csv").write_text("\n".join([*rows[task], *held_out]) + "\n")
        (data / "all.csv").write_text((tmp_path / "all.csv").read_text())
        main_of("data.list")([str(data / "all.csv"), "--task", task])
    options = ["--config", NAME, "--data", str(data), "--task", task, "--epochs", "1"]
    options += ["--work-dir", str(tmp_path / "run"), "--workers", "0"]
    assert main_of("finetune")(options) == 0
    printed = capsys.readouterr().out
    assert (
        f"starts from published://{NAME}; initial weights" in printed and "done; test:" in printed
    )
