"""Run lengths on videos: the rows of a still one, a moving one and both."""

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config

JOINT = dict(
    _delete_=True,
    type="mmvidformer.ViViT",
    scheme="spacetime",
    arch=dict(embed_dims=16, depth=1, num_heads=2),
    img_size=32,
    clip_len=4,
    stem=dict(tubelet=(1, 16, 16)),
)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A tiny model of joint attention."""
    cfg = Config.fromfile(Path(__file__).parents[1] / "cli" / "tiny_vivit.py")
    cfg.merge_from_dict({"model": {"backbone": JOINT}})
    cfg.dump(tmp_path / "joint.py")
    return tmp_path / "joint.py"


def test_rows(main_of, write, config: Path, tmp_path: Path, capsys) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (48, 32, 32, 3), dtype=np.uint8)
    still = write("still.mp4", np.broadcast_to(np.uint8(90), noise.shape))
    write("moving.mp4", noise)
    out, threads = tmp_path / "rows.csv", torch.get_num_threads()
    options = ["--random", "--clips", "2", "--rounds", "1", "--out", str(out)]
    try:
        main_of("still_videos")([str(config), str(still.parent), *options])
    finally:
        torch.set_num_threads(threads)
    with open(out, newline="") as file:
        moving, of_still, together = csv.DictReader(file)
    assert [row["video"] for row in (moving, of_still, together)] == [
        "moving.mp4",
        "still.mp4",
        "all",
    ]
    assert (moving["tokens"], of_still["tokens"], together["tokens"]) == ("1.000", "0.250", "0.625")
    assert float(moving["scores"]) == 0 and int(together["answers"]) == 4
    assert float(together["scores"]) == float(of_still["scores"]) > 0
    assert "approximation: positions in time" in capsys.readouterr().out


def test_one_checkpoint(main_of, config: Path, capsys) -> None:
    with pytest.raises(SystemExit):
        main_of("still_videos")([str(config), "a.pth", "videos", "--random"])
    assert "at most a checkpoint before the folder, got ['a.pth']" in capsys.readouterr().err
