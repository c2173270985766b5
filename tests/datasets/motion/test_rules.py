import csv
import json
from dataclasses import replace
from pathlib import Path

import decord
import numpy as np
import pytest
from mmaction.registry import TRANSFORMS
from mmengine.config import Config
from mmengine.dataset import Compose
from mmengine.registry import DefaultScope

from mmvidformer.datasets.motion.files import EPIC_COLUMNS
from mmvidformer.datasets.motion.render import DIRECTIONS, SHAPES, Look, camera, trajectory
from mmvidformer.datasets.motion.rules import (
    PRESETS,
    MotionSpec,
    clip_frames,
    list_clips,
    make_class_folders,
    make_dataset,
)
from mmvidformer.datasets.motion.video import write_independent_frames

SMALL = MotionSpec(train=8, val=4, test=4, look=Look(frames=10))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("motion")
    assert make_dataset(SMALL, root)
    return root


def test_files_decode_to_what_was_drawn(made: Path) -> None:
    for clip in list_clips(SMALL, "train"):
        reader = decord.VideoReader(str(made / clip.path))
        assert len(reader) == 10
        decoded = reader.get_batch(range(10)).asnumpy().astype(int)
        drawn, _ = clip_frames(SMALL, clip)
        assert np.abs(decoded - drawn).mean() < 8
        # The right frame is the nearest one: no frame is missing, doubled or moved.
        distance = [np.abs(decoded[5] - frame).mean() for frame in drawn.astype(int)]
        assert int(np.argmin(distance)) == 5


def test_a_decoded_frame_knows_nothing_of_its_neighbours(tmp_path: Path) -> None:
    """In another order and other company it decodes to the same pixels."""
    frames, _ = clip_frames(SMALL, list_clips(SMALL, "train")[0])

    def decoded(order: np.ndarray) -> np.ndarray:
        write_independent_frames(tmp_path / "clip.mp4", order, fps=25)
        reader = decord.VideoReader(str(tmp_path / "clip.mp4"))
        return reader.get_batch(range(len(reader))).asnumpy()

    forward = decoded(frames)
    np.testing.assert_array_equal(decoded(frames[::-1])[::-1], forward)
    np.testing.assert_array_equal(
        decoded(np.stack([frames[9], frames[0] * 0])), [forward[9], np.zeros_like(frames[0])]
    )


@pytest.mark.parametrize("classes", [4, 8])
def test_the_label_is_the_motion_that_is_seen(classes: int) -> None:
    """Measured on the pixels: the shift between frames that fits best points along the label."""
    spec = MotionSpec(classes=classes, train=16, look=Look(frames=2, speed=5.0, texture=0.0))
    for clip in list_clips(spec, "train"):
        first, second = clip_frames(spec, clip)[0].astype(float)
        shifts = [(dx, dy) for dx in range(-7, 8) for dy in range(-7, 8)]
        errors = [np.abs(np.roll(first, (dy, dx), (0, 1)) - second).sum() for dx, dy in shifts]
        best = np.array(shifts[int(np.argmin(errors))], dtype=float)
        wanted = np.array(DIRECTIONS[spec.verbs[clip.verb]], dtype=float)
        cosine = best @ wanted / np.linalg.norm(best) / np.linalg.norm(wanted)
        assert cosine > 0.97, (clip, best)


def test_single_frames_do_not_tell_the_class() -> None:
    """At any time the object is anywhere with equal chance, whatever its direction."""
    look = Look(frames=30)
    rng = np.random.default_rng(0)
    for direction in DIRECTIONS:
        places = np.stack([trajectory(look, direction, rng)[-1] for _ in range(2000)]) / look.size
        counts, *_ = np.histogram2d(*places.T, bins=4, range=[[0, 1], [0, 1]])
        expected = 2000 / 16
        chi_square = ((counts - expected) ** 2 / expected).sum()
        assert chi_square < 44.3, direction  # 15 degrees of freedom, p = 1e-4


def test_motion_and_shape_are_balanced() -> None:
    pairs = {(clip.verb, clip.noun) for clip in list_clips(PRESETS["easy"], "train")[:16]}
    assert len(pairs) == 4 * len(SHAPES)


def test_camera_moves_the_whole_frame() -> None:
    spec = MotionSpec(look=Look(frames=3, speed=0.0, shake=4.0))
    clip = list_clips(spec, "train")[0]
    frames, _ = clip_frames(spec, clip)
    rng = np.random.default_rng([0, 0, 0])
    trajectory(spec.look, "right", rng)
    offsets = camera(spec.look, rng)
    still = np.roll(frames[0], tuple(-offsets[0][::-1]), (0, 1))
    np.testing.assert_array_equal(frames[1], np.roll(still, tuple(offsets[1][::-1]), (0, 1)))


def test_clutter_noise_and_texture_do_what_they_say() -> None:
    clip = list_clips(SMALL, "train")[0]
    plain = replace(SMALL.look, texture=0.0, speed=0.0)

    def frames(**kwargs) -> np.ndarray:
        return clip_frames(replace(SMALL, look=replace(plain, **kwargs)), clip)[0].astype(int)

    def plain_share(frame: np.ndarray) -> float:
        _, counts = np.unique(frame.reshape(-1, 3), axis=0, return_counts=True)
        return counts.max() / counts.sum()

    assert (frames()[0] == frames()[9]).all()
    assert plain_share(frames()[0]) > 0.7  # all but the object and its edge
    assert plain_share(frames(clutter=8)[0]) < plain_share(frames()[0]) - 0.1
    assert plain_share(frames(texture=20.0)[0]) < 0.4
    assert (frames(noise=5.0)[0] != frames(noise=5.0)[9]).mean() > 0.5


def test_plain_clips_are_white_on_black() -> None:
    spec = replace(SMALL, look=replace(PRESETS["plain"].look, frames=2))
    frames, _ = clip_frames(spec, list_clips(spec, "train")[0])
    inside = frames[..., 0] > 0
    np.testing.assert_array_equal(frames[..., :1], frames[..., 1:2])
    assert 0.02 < inside.mean() < 0.2
    assert (frames[inside] == 255).mean() > 0.7  # the rest is the smoothed edge
    with pytest.raises(ValueError, match="'random' or 'plain', got 'pink'"):
        Look(colours="pink")


def test_annotations_and_csv_say_the_same(made: Path) -> None:
    lines = [line.split() for line in (made / "train.txt").read_text().splitlines()]
    with open(made / "train.csv", newline="") as file:
        reader = csv.DictReader(file)
        rows = list(reader)
    assert tuple(reader.fieldnames) == EPIC_COLUMNS
    assert [int(label) for _, label in lines] == [int(row["verb_class"]) for row in rows]
    assert [Path(path).stem for path, _ in lines] == [row["video_id"] for row in rows]
    assert {row["stop_frame"] for row in rows} == {"10"}
    for row in rows:
        assert SMALL.verbs[int(row["verb_class"])] == row["verb"]
        assert SHAPES[int(row["noun_class"])] == row["noun"]
    assert (made / "classes.txt").read_text().split("\n")[:4] == SMALL.verbs


def test_same_arguments_same_clips_and_nothing_done_twice(made: Path, tmp_path: Path) -> None:
    before = (made / "train" / "train_00003.mp4").stat().st_mtime_ns
    assert not make_dataset(SMALL, made)
    assert (made / "train" / "train_00003.mp4").stat().st_mtime_ns == before
    assert make_dataset(SMALL, tmp_path, workers=2)
    for clip in list_clips(SMALL, "val"):
        assert (made / clip.path).read_bytes() == (tmp_path / clip.path).read_bytes()


def test_other_arguments_are_refused_unless_forced(tmp_path: Path) -> None:
    make_dataset(SMALL, tmp_path)
    other = replace(SMALL, seed=1, train=2)
    with pytest.raises(FileExistsError, match="other arguments"):
        make_dataset(other, tmp_path)
    assert make_dataset(other, tmp_path, force=True)
    assert json.loads((tmp_path / "motion.json").read_text())["spec"]["seed"] == 1
    assert len(list((tmp_path / "train").iterdir())) == 2


def test_class_folders_hold_the_same_clips(made: Path, tmp_path: Path) -> None:
    assert make_class_folders(SMALL, tmp_path)
    clips = [clip for split in ("train", "val", "test") for clip in list_clips(SMALL, split)]
    expected = {f"{SMALL.verbs[c.verb]}/{c.stem}.mp4": made / c.path for c in clips}
    found = {path.relative_to(tmp_path).as_posix(): path for path in tmp_path.rglob("*.mp4")}
    assert found.keys() == expected.keys()
    assert all(found[name].read_bytes() == path.read_bytes() for name, path in expected.items())
    assert not make_class_folders(SMALL, tmp_path)
    with pytest.raises(FileExistsError):
        make_dataset(SMALL, tmp_path)
    make_dataset(SMALL, tmp_path, force=True)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == [
        *("test", "train", "val")
    ]


def test_an_interrupted_run_is_done_again(tmp_path: Path) -> None:
    make_dataset(SMALL, tmp_path)
    record = tmp_path / "motion.json"
    record.write_text(record.read_text().replace('"complete": true', '"complete": false'))
    assert make_dataset(SMALL, tmp_path)


def test_long_clips_have_valid_time_stamps(tmp_path: Path) -> None:
    make_dataset(MotionSpec(train=1, val=1, test=1, fps=1, look=Look(frames=75)), tmp_path)
    with open(tmp_path / "train.csv", newline="") as file:
        assert next(csv.DictReader(file))["stop_timestamp"] == "00:01:15.00"


@pytest.fixture(scope="module")
def base() -> Config:
    root = Path(__file__).parents[3]
    return Config.fromfile(root / "configs" / "_base_" / "datasets" / "motion.py")


def run(pipeline: list[dict], path: Path) -> np.ndarray:
    with DefaultScope.overwrite_default_scope("mmaction"):
        steps = Compose([TRANSFORMS.build(dict(step)) for step in pipeline])
        packed = steps(dict(filename=str(path), start_index=0, modality="RGB", label=0))
    return packed["inputs"].numpy().astype(int)


def test_the_test_views_differ(base: Config, tmp_path: Path) -> None:
    """12 views, three crops of each of four clips; crops of square files would be the same."""
    spec = MotionSpec(train=1, val=1, test=1)
    make_dataset(spec, tmp_path)
    views = run(base.test_pipeline, tmp_path / "test" / "test_00000.mp4")
    assert views.shape == (12, 3, 16, 64, 64)
    for i in range(12):
        for j in range(i):
            assert np.abs(views[i] - views[j]).mean() > 1, (i, j)


def test_training_never_flips(base: Config, tmp_path: Path) -> None:
    """Crops of training stay nearer to the clip than to its mirror image."""
    spec = MotionSpec(train=1, val=1, test=1, look=Look(frames=31))
    make_dataset(spec, tmp_path)
    path = tmp_path / "train" / "train_00000.mp4"
    plain = run(base.val_pipeline, path)  # 31 frames hold one clip of 16 only, at any sampling
    for _ in range(8):
        seen = run(base.train_pipeline, path)
        same, mirrored = (np.abs(seen - x).mean() for x in (plain, plain[..., ::-1]))
        assert same < mirrored


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [({"classes": 9}, "2 to 8, got 9"), ({"look": Look(size=80)}, "multiple of 64.*80")],
)
def test_wrong_arguments_are_named(kwargs: dict, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        MotionSpec(**kwargs)
