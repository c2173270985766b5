"""One table of methods and of other models, on lists with and without folds."""

import csv
from pathlib import Path

import numpy as np
import pytest
from mmengine.config import Config

from benchmarks import real_rivals, real_videos
from benchmarks.real_rivals import RIVALS, evaluate_rival
from lab.synthetic.render import write_video
from mmvidformer.apis.pipeline import VideoPipeline
from mmvidformer.cli.data.list import main as list_videos


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    """Two folds of videos of two colors."""
    for label, name in enumerate(("dark", "light")):
        for number in range(4):
            path = tmp_path / "videos" / name / f"{number}.mp4"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_video(path, np.full((12, 32, 32, 3), 60 + 120 * label, np.uint8), 10)
    list_videos([str(tmp_path / "videos"), "--folds", "2", "--out", str(tmp_path / "lists")])
    return tmp_path / "lists"


@pytest.mark.parametrize("name", RIVALS)
def test_rivals_learn_colors(name: str, lists: Path, monkeypatch) -> None:
    monkeypatch.setattr(real_rivals, "SIZE", 32)
    tally = evaluate_rival(name, lists / "fold_1", seed=0, seconds=2)
    assert tally.count == 4 and tally.right >= 2


def test_a_table_goes_on(lists: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(real_rivals, "SIZE", 32)
    out = tmp_path / "out"
    options = [str(lists), "--out", str(out), "--methods", "--rival-minutes", "0.02"]
    real_videos.main([*options, "--rivals", "videomae"])
    first = capsys.readouterr().out
    assert first.count("videomae, ") == 2  # folds
    real_videos.main([*options, "--rivals", "videomae", "--seeds", "0", "1"])
    assert capsys.readouterr().out.count("videomae, ") == 2  # of the new seed
    with (out / "real_videos.csv").open(newline="") as table:
        rows = list(csv.reader(table))
    assert [row[:3] for row in rows[1:]] == [["lists", "videomae", x] for x in ("0", "1")]
    assert all("n = 8)" in row[3] for row in rows[1:])


@pytest.mark.parametrize("name", ["real_videos_config", "real_videos_crop_config"])
def test_configs_read_a_video(name: str, lists: Path) -> None:
    cfg = Config.fromfile(Path(real_videos.__file__).with_name(f"{name}.py"))
    pipeline = VideoPipeline(cfg, clips=1)
    video = next(lists.parent.glob("videos/light/*.mp4"))
    assert pipeline.read(pipeline.open(video))["inputs"].shape == (1, 3, 16, 224, 224)
