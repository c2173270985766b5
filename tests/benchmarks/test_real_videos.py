"""One table of methods and of other models, on lists with and without folds."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from mmengine.config import Config

from benchmarks import real_rivals, real_videos
from benchmarks.real_lists import main as read_lists
from benchmarks.real_rivals import RIVALS, evaluate_rival
from lab.synthetic.render import write_video
from mmvidformer.apis.pipeline import VideoPipeline
from mmvidformer.cli.data.list import main as list_videos
from tests.tiny_configs import shrink

NAMES = ("dark", "light")


def write_videos(folder: Path, suffix: str, *places: str) -> None:
    """Write eight videos of two colors below each place, where {} stands for color and number."""
    for place in places:
        for label, name in enumerate(NAMES):
            for number in range(4):
                path = folder / f"{place.format(name=name, number=4 * label + number)}{suffix}"
                path.parent.mkdir(parents=True, exist_ok=True)
                matroska = path.with_suffix(".mkv") if suffix == ".webm" else path
                write_video(matroska, np.full((12, 32, 32, 3), 60 + 120 * label, np.uint8), 10)
                matroska.rename(path)


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    """Two folds of videos of two colors."""
    write_videos(tmp_path / "videos", ".mp4", "{name}/{number}")
    list_videos([str(tmp_path / "videos"), "--folds", "2", "--out", str(tmp_path / "lists")])
    return tmp_path / "lists"


@pytest.fixture
def tiny_config(tmp_path: Path) -> Path:
    """The config of the benchmark with a tiny model of random weights."""
    cfg = shrink(Config.fromfile(real_videos.CONFIG))
    for split in ("train", "val", "test"):
        pipeline = cfg[f"{split}_pipeline"]
        cfg[f"{split}_dataloader"].dataset.pipeline = pipeline
        next(step for step in pipeline if step["type"] == "Resize")["scale"] = (32, 32)
    cfg.dump(tmp_path / "tiny.py")
    return tmp_path / "tiny.py"


def list_kinetics(folder: Path) -> list[str]:
    """The csv files of Kinetics, and clips as its scripts name them."""
    for split in ("train", "validate"):
        lines = ["label,youtube_id,time_start,time_end,split"]
        write_videos(
            folder / "videos" / split, ".mp4", f"{{name}}/{split[:5]}00000{{number}}_000005_000015"
        )
        for number in range(8):
            lines.append(f"{NAMES[number // 4]},{split[:5]}00000{number},5,15,{split}")
        (folder / "lists").mkdir(exist_ok=True)
        (folder / "lists" / f"{split}.csv").write_text("\n".join(lines) + "\n")
    return [str(folder / "lists"), "--root", str(folder / "videos")]


def list_something(folder: Path) -> list[str]:
    """Something-Something's JSON files, and numbered videos."""
    write_videos(folder / "videos", ".webm", "1{number}", "2{number}")
    for split, first in (("train", 1), ("validation", 2)):
        videos = []
        for number in range(8):
            template = f"Showing [something] {NAMES[number // 4]}"
            videos.append({"id": f"{first}{number}", "template": template})
        (folder / "labels").mkdir(exist_ok=True)
        file = folder / "labels" / f"something-something-v2-{split}.json"
        file.write_text(json.dumps(videos))
    return [str(folder / "labels"), "--root", str(folder / "videos")]


def list_ucf(folder: Path) -> list[str]:
    """UCF101's lists of a test of three, and its folders of classes."""
    write_videos(folder / "UCF-101", ".avi", "{name}/v_{name}_g0{number}_c01")
    paths = sorted(str(path.relative_to(folder / "UCF-101")) for path in folder.rglob("*.avi"))
    (folder / "classInd.txt").write_text("1 dark\n2 light\n")
    for fold in (1, 2, 3):
        tested = paths[fold::4]
        trained = [f"{path} {1 + ('light' in path)}" for path in paths if path not in tested]
        (folder / f"testlist0{fold}.txt").write_text("\n".join(tested) + "\n")
        (folder / f"trainlist0{fold}.txt").write_text("\n".join(trained) + "\n")
    table = folder / "all.csv"
    read_lists([str(folder), "--videos", str(folder / "UCF-101"), "--out", str(table)])
    return [str(table)]


LAYOUTS = {list_kinetics: 8, list_something: 8, list_ucf: 6}  # videos of the tests


@pytest.mark.parametrize("name", RIVALS)
def test_rivals_learn_colors(name: str, lists: Path, monkeypatch) -> None:
    monkeypatch.setattr(real_rivals, "SIZE", 32)
    record = lists / "runs" / "record.json"
    tally = evaluate_rival(name, lists / "fold_1", 0, 2, record)
    assert tally.count == 4 and tally.right >= 2
    losses = json.loads(record.read_text())["losses"]
    assert losses[-1] < losses[0]
    assert evaluate_rival(name, lists / "fold_1", 0, 600, record) == tally  # not trained again


def test_a_table_goes_on(lists: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(real_rivals, "SIZE", 32)
    out = tmp_path / "out"
    options = [str(lists), "--out", str(out), "--methods", "--rival-minutes", "1e-4"]
    real_videos.main([*options, "--rivals", "videomae"])
    first = capsys.readouterr().out
    assert first.count("videomae, ") == 2  # folds
    real_videos.main([*options, "--rivals", "videomae", "--seeds", "0", "1"])
    assert capsys.readouterr().out.count("videomae, ") == 2  # of the new seed
    with (out / "real_videos.csv").open(newline="") as table:
        rows = list(csv.reader(table))
    assert [row[:3] for row in rows[1:]] == [["lists", "videomae", x] for x in ("0", "1")]
    assert all("n = 8)" in row[3] for row in rows[1:])
    assert (out / "lists_losses.png").stat().st_size > 1000


def test_the_config_reads_a_video(lists: Path) -> None:
    pipeline = VideoPipeline(Config.fromfile(real_videos.CONFIG), clips=1)
    video = next(lists.parent.glob("videos/light/*.mp4"))
    assert pipeline.read(pipeline.open(video))["inputs"].shape == (1, 3, 16, 224, 224)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
def test_layouts_of_data_sets(layout, tmp_path: Path, tiny_config: Path) -> None:
    """What a user has who downloaded them: their own lists, then two commands."""
    source = tmp_path / "source"
    source.mkdir()
    lists, out = tmp_path / "lists", tmp_path / "out"
    list_videos([*layout(source), "--task", "classes", "--out", str(lists)])
    options = ["--config", str(tiny_config), "--methods", "temporal", "knn"]
    real_videos.main([str(lists), "--out", str(out), *options])
    with (out / "real_videos.csv").open(newline="") as table:
        rows = list(csv.reader(table))[1:]
    methods = {row[1]: row[3] for row in rows}
    assert {"temporal", "knn", "frame differences with logistic regression"} <= methods.keys()
    assert all(cell.endswith(f"n = {LAYOUTS[layout]})") for cell in methods.values())
