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

from lab.synthetic import PRESETS
from lab.synthetic.directions import ClassFoldersSpec, DirectionsSpec
from lab.synthetic.render import DIRECTIONS, SHAPES, Look, trajectory, write_video
from mmvidformer.video.video import Video

SMALL = DirectionsSpec(train=8, val=4, test=4, look=Look(frames=10))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("motion")
    assert SMALL.write(root)
    return root


def test_files_decode_to_what_was_drawn(made: Path) -> None:
    for clip in SMALL.clips("train"):
        reader = decord.VideoReader(str(made / SMALL.path(clip)))
        assert len(reader) == 10
        decoded = reader.get_batch(range(10)).asnumpy().astype(int)
        drawn = SMALL.draw(clip)
        assert np.abs(decoded - drawn).mean() < 8
        # The right frame is the nearest one: no frame is missing, doubled or moved.
        distance = [np.abs(decoded[5] - frame).mean() for frame in drawn.astype(int)]
        assert int(np.argmin(distance)) == 5


@pytest.mark.parametrize("size", [31, 48, 80])
def test_frames_of_any_size_are_read(tmp_path: Path, size: int) -> None:
    spec = DirectionsSpec(train=1, val=0, test=0, look=Look(size=size, frames=3))
    spec.write(tmp_path)
    (clip,) = spec.clips("train")
    decoded = np.stack(Video.open(str(tmp_path / spec.path(clip))).get_batch(range(3)))
    assert np.abs(decoded.astype(int) - spec.draw(clip)).mean() < 8


def test_decoded_frames_do_not_depend_on_other_frames(tmp_path: Path) -> None:
    """A frame decodes to the same pixels in another order and among other frames."""
    frames = SMALL.draw(SMALL.clips("train")[0])

    def decoded(order: np.ndarray) -> np.ndarray:
        write_video(tmp_path / "clip.mp4", order, fps=25)
        reader = decord.VideoReader(str(tmp_path / "clip.mp4"))
        return reader.get_batch(range(len(reader))).asnumpy()

    forward = decoded(frames)
    np.testing.assert_array_equal(decoded(frames[::-1])[::-1], forward)
    np.testing.assert_array_equal(
        decoded(np.stack([frames[9], frames[0] * 0])), [forward[9], np.zeros_like(frames[0])]
    )


def test_label_is_the_measured_motion() -> None:
    """The shift between two frames that fits the pixels best points in the label's direction."""
    spec = DirectionsSpec(train=16, look=Look(frames=2, speed=5.0, texture=0.0))
    for clip in spec.clips("train"):
        first, second = spec.draw(clip).astype(float)
        shifts = [(dx, dy) for dx in range(-7, 8) for dy in range(-7, 8)]
        errors = [np.abs(np.roll(first, (dy, dx), (0, 1)) - second).sum() for dx, dy in shifts]
        best = np.array(shifts[int(np.argmin(errors))], dtype=float)
        wanted = np.array(DIRECTIONS[spec.class_names[clip.verb]], dtype=float)
        cosine = best @ wanted / np.linalg.norm(best) / np.linalg.norm(wanted)
        assert cosine > 0.97, (clip, best)


def test_single_frames_do_not_reveal_the_class() -> None:
    """At any time the position of the object is uniform, whatever its direction."""
    look = Look(frames=30)
    rng = np.random.default_rng(0)
    for direction in DIRECTIONS:
        ends = [trajectory(look, direction, look.frames, rng)[-1] for _ in range(2000)]
        places = np.stack(ends) / look.size
        counts, *_ = np.histogram2d(*places.T, bins=4, range=[[0, 1], [0, 1]])
        expected = 2000 / 16
        chi_square = ((counts - expected) ** 2 / expected).sum()
        assert chi_square < 44.3, direction  # 15 degrees of freedom, p = 1e-4


def test_motions_and_shapes_are_balanced() -> None:
    pairs = {(clip.verb, clip.noun) for clip in PRESETS["easy"].clips("train")[:16]}
    assert len(pairs) == 4 * len(SHAPES)


def test_texture() -> None:
    """Without it, the background has a single color; with it, hardly any two pixels are equal."""

    def largest_share(texture: float) -> float:
        look = replace(SMALL.look, texture=texture)
        frame = replace(SMALL, look=look).draw(SMALL.clips("train")[0])[0]
        _, counts = np.unique(frame.reshape(-1, 3), axis=0, return_counts=True)
        return counts.max() / counts.sum()

    assert largest_share(0.0) > 0.7  # all but the object and its edge
    assert largest_share(20.0) < 0.4


def test_plain_clips_are_white_on_black() -> None:
    spec = replace(SMALL, look=replace(PRESETS["plain"].look, frames=2))
    frames = spec.draw(spec.clips("train")[0])
    inside = frames[..., 0] > 0
    np.testing.assert_array_equal(frames[..., :1], frames[..., 1:2])
    assert 0.02 < inside.mean() < 0.2
    assert (frames[inside] == 255).mean() > 0.7  # the rest is the smoothed edge


def test_lists(made: Path) -> None:
    lines = [line.split() for line in (made / "train.txt").read_text().splitlines()]
    clips = SMALL.clips("train")
    assert [(path, int(label)) for path, label in lines] == [(SMALL.path(c), c.verb) for c in clips]
    assert (made / "classes.txt").read_text().split("\n")[:4] == SMALL.class_names


def test_same_spec_gives_the_same_files_and_is_written_once(made: Path, tmp_path: Path) -> None:
    before = (made / "train" / "train_00003.mp4").stat().st_mtime_ns
    assert not SMALL.write(made)
    assert (made / "train" / "train_00003.mp4").stat().st_mtime_ns == before
    assert SMALL.write(tmp_path, workers=2)
    for clip in SMALL.clips("val"):
        assert (made / SMALL.path(clip)).read_bytes() == (tmp_path / SMALL.path(clip)).read_bytes()


def test_another_spec_needs_another_folder(tmp_path: Path) -> None:
    SMALL.write(tmp_path)
    with pytest.raises(FileExistsError, match="other arguments"):
        replace(SMALL, seed=1, train=2).write(tmp_path)
    assert json.loads((tmp_path / "motion.json").read_text())["spec"]["seed"] == 0
    assert len(list((tmp_path / "train").iterdir())) == 8


def test_class_folders_hold_the_same_clips(made: Path, tmp_path: Path) -> None:
    folders = ClassFoldersSpec(**vars(SMALL))
    assert folders.write(tmp_path)
    clips = [clip for split in ("train", "val", "test") for clip in SMALL.clips(split)]
    names = [f"{SMALL.class_names[clip.verb]}/{SMALL.name(clip)}.mp4" for clip in clips]
    expected = dict(zip(names, [made / SMALL.path(clip) for clip in clips], strict=True))
    found = {path.relative_to(tmp_path).as_posix(): path for path in tmp_path.rglob("*.mp4")}
    assert found.keys() == expected.keys()
    assert all(found[name].read_bytes() == path.read_bytes() for name, path in expected.items())
    assert not folders.write(tmp_path)
    with pytest.raises(FileExistsError):
        SMALL.write(tmp_path)


def test_an_interrupted_run_is_repeated(tmp_path: Path, monkeypatch) -> None:
    def stop(spec: DirectionsSpec, root: Path) -> None:
        annotate(spec, root)
        raise KeyboardInterrupt

    annotate = DirectionsSpec.annotate
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(DirectionsSpec, "annotate", stop)
        SMALL.write(tmp_path)
    assert (tmp_path / "train.txt").is_file() and not (tmp_path / "motion.json").exists()
    assert SMALL.write(tmp_path)
    assert not SMALL.write(tmp_path)


def test_lists_of_others_stay(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("a.mp4 0\n")
    with pytest.raises(FileExistsError, match="has train.txt already; choose another folder"):
        SMALL.write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["train.txt"]


@pytest.fixture(scope="module")
def base() -> Config:
    root = Path(__file__).parents[3]
    return Config.fromfile(root / "configs" / "_base_" / "datasets" / "motion.py")


def run(pipeline: list[dict], path: Path) -> np.ndarray:
    with DefaultScope.overwrite_default_scope("mmaction"):
        steps = Compose([TRANSFORMS.build(dict(step)) for step in pipeline])
        packed = steps(dict(filename=str(path), start_index=0, modality="RGB", label=0))
    return packed["inputs"].numpy().astype(int)


@pytest.mark.parametrize(
    ("preset", "frames", "mean"),
    [
        ("easy", 48, 141.92),
        ("plain", 48, 25.49),
        ("phases", 40, 126.60),
        ("sequences", 160, 31.47),
    ],
)
def test_clips_of_the_presets_do_not_change(preset: str, frames: int, mean: float) -> None:
    """The accuracies in the documentation are those of these clips."""
    spec = PRESETS[preset]
    drawn = spec.draw(spec.clips("test")[1])
    assert len(drawn) == frames
    assert drawn[-1, :32].mean() == pytest.approx(mean, abs=0.01)


def test_test_views_differ(base: Config, tmp_path: Path) -> None:
    """Four clips; crops of square files would be equal."""
    spec = DirectionsSpec(train=1, val=1, test=1)
    spec.write(tmp_path)
    views = run(base.test_pipeline, tmp_path / "test" / "test_00000.mp4")
    assert views.shape == (4, 3, 16, 64, 64)
    for i in range(4):
        for j in range(i):
            assert np.abs(views[i] - views[j]).mean() > 1, (i, j)


def test_training_never_flips(base: Config, tmp_path: Path) -> None:
    """Training crops are nearer to the clip than to its mirror image."""
    spec = DirectionsSpec(train=1, val=1, test=1, look=Look(frames=31))
    spec.write(tmp_path)
    path = tmp_path / "train" / "train_00000.mp4"
    plain = run(base.val_pipeline, path)  # 31 frames hold a single clip of 16 frames
    for _ in range(8):
        seen = run(base.train_pipeline, path)
        same, mirrored = (np.abs(seen - x).mean() for x in (plain, plain[..., ::-1]))
        assert same < mirrored


@pytest.mark.parametrize(
    ("kind", "kwargs", "match"),
    [
        (DirectionsSpec, {"classes": 5}, "classes must be 2 to 4, got 5"),
        (Look, {"colors": "pink"}, "colors must be 'random' or 'plain', got 'pink'"),
    ],
)
def test_invalid_arguments(kind: type, kwargs: dict, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        kind(**kwargs)
