"""The benchmark of camera motion on clips that are cut from videos."""

from argparse import Namespace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import camera_motion, pretraining_miniature
from benchmarks.camera_baselines import by_features, by_flow
from benchmarks.camera_motion import main, share, wilson
from benchmarks.camera_windows import Unusable, cut_windows, read_frames, still_clips
from lab.synthetic.camera.clips import film
from lab.synthetic.camera.paths import CLASSES, EDGE, class_of
from lab.synthetic.camera.textures import texture


def scene(steps: np.ndarray) -> np.ndarray:
    """Draw what a camera sees: RGB frames (T, 192, 192, 3)."""
    return film(texture(5), steps, 128 + 128j, 192, 192)


@pytest.fixture(scope="module")
def still(write) -> Path:
    """A still camera; an object crosses the frame at one side."""
    frames = scene(np.zeros((39, 4)))
    for number, frame in enumerate(frames):
        frame[80:110, 4 * number : 4 * number + 30] = 250
    return write("still.avi", frames)


def test_frames_are_an_eighth_of_a_second_apart(still) -> None:
    assert read_frames(still).shape == (20, 192, 192, 3)
    assert len(read_frames(still, most=9)) == 9


@pytest.mark.parametrize("part", range(4))
def test_moving_cameras_are_found(part: int) -> None:
    steps = np.zeros((7, 4))
    assert still_clips(scene(steps)) == [0]
    steps[:, part] = 0.02 / EDGE[part] / 8
    assert still_clips(scene(steps)) == []


def test_windows_and_baselines(still) -> None:
    clips = list(cut_windows(still, 18, seed=1))
    assert [clip.label for clip in clips] == [*range(9)] * 2
    assert all(class_of(clip.velocity) == clip.label for clip in clips)
    assert clips[0].frames.shape == (8, 128, 128, 3)
    again = list(cut_windows(still, 2, seed=1))
    np.testing.assert_array_equal(again[1].frames, clips[1].frames)
    for method in (by_flow, by_features):
        assert np.mean([method(clip.frames) == clip.label for clip in clips]) > 0.85


def test_unusable_videos(write) -> None:
    steps = np.tile([0.02, 0, 0, 0], (31, 1))
    moves, plain = write("moves.avi", scene(steps)), write("plain.avi", 0 * scene(steps) + 90)
    for path in (moves, plain):
        with pytest.raises(Unusable, match="the camera stands still in 0 of 5 clips"):
            next(cut_windows(path, 1))
    with pytest.raises(Unusable, match="4 frames at 8 per second, needs 8"):
        read_frames(write("short.avi", scene(steps)[:8]))
    text = plain.with_name("notes.txt")
    text.write_text("no video")
    with pytest.raises(Unusable, match="cannot be read: .*Invalid data"):
        next(cut_windows(text, 1))


def test_intervals() -> None:
    np.testing.assert_allclose(wilson(3, 4), (0.30064, 0.95442), atol=1e-4)
    np.testing.assert_allclose(wilson(0, 10), (0, 0.27754), atol=1e-4)
    assert share([True, True, False, True]) == "75.0% (30.1-95.4, n = 4)"


def test_tables(still, write, tmp_path, monkeypatch, capsys) -> None:
    few = partial(camera_motion.mixed_motions, count=6)
    monkeypatch.setattr(camera_motion, "mixed_motions", few)
    write("brief.avi", scene(np.zeros((7, 4))))  # too short
    main([str(still.parent), "--clips", "9", "--out", str(tmp_path / "clips.csv")])
    said = capsys.readouterr()
    assert "brief.avi: left out, 4 frames" in said.err
    assert "| video | dense flow | dense flow, 64 x 64 | sparse features |" in said.out
    assert "| still.avi | " in said.out and "| pan left | " in said.out and "n = 9)" in said.out
    assert "ms of CPU time a clip" in said.out
    lines = (tmp_path / "clips.csv").read_text().splitlines()
    assert len(lines) == 10 and lines[2].startswith("still.avi,1,pan left,")
    assert "| 0.9 to 1.0 | " in said.out and "two motions, one 0.5 as fast: " in said.out
    assert said.out.count("n = 6)") == 3 * 3  # ratios, answers
    assert CLASSES[0] in lines[1]
    with pytest.raises(SystemExit, match="no video whose camera stands still"):
        main([str(still.parent / "brief.avi")])


def test_pretraining_on_windows(still, capsys) -> None:
    """Labels of windows are the classes in turn; the test windows are others."""
    options = "--arch 16,1,2 --pretrain 0.1 --finetune 0.1 --seeds 2 --labels 8 --train 20 --test 9"
    pretraining_miniature.main(
        [*options.split(), "--videos", str(still), "--test-video", str(still)]
    )
    sets = pretraining_miniature.draw(
        Namespace(videos=[still], test_video=still, train=9, test=9), 0
    )
    assert [len(clips) for clips, _ in sets.values()] == [9, 9, 9]
    assert not torch.equal(sets["train"][0], sets["test"][0])
    assert torch.equal(sets["train"][1], sets["test"][1])
    assert capsys.readouterr().out.count("'labels': 8, 'start': 'pretrained'") == 2
