"""Cuts of generated edits."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.cuts import JOINS, Score, describe, draw_edit, main, score
from lab.synthetic.camera.clips import film
from lab.synthetic.camera.textures import texture
from mmvidformer.video.video import Video


def scene(picture: int) -> np.ndarray:
    steps = np.tile([0.002, 0, 0, 0], (119, 1))
    return film(texture(picture), steps, 128 + 128j, 180, (320, 180))


@pytest.mark.parametrize("join", JOINS)
def test_edits_know_their_cuts(join: str, tmp_path: Path) -> None:
    edit = draw_edit([scene(1), scene(2)], tmp_path / "a.mp4", 3, join, np.random.default_rng(0))
    (first, last), (second, _) = edit.cuts
    frames = len(Video.open(str(edit.path)))
    assert 0 < first < last <= second < frames and len(edit.cuts) == 2
    found = score(edit)
    assert found.true == 2 and found.right == (0 if join == "dissolve" else 2)


def test_shares_have_intervals_by_edit() -> None:
    scores = [Score(true=4, named=2, right=2), Score(true=4, named=4, right=2)]
    assert describe(scores, "named") == "66.7% (50.0-100.0, n = 6)"
    assert describe(scores, "true") == "50.0% (50.0-50.0, n = 8)"


def test_the_table(write, tmp_path: Path, capsys) -> None:
    videos = [str(write(f"{picture}.avi", scene(picture))) for picture in (1, 2)]
    main([*videos, "--out", str(tmp_path), "--edits", "2", "--shots", "3"])
    printed = capsys.readouterr().out
    assert "| content | " in printed and "n = 4) |" in printed and "ms of CPU a frame" in printed
