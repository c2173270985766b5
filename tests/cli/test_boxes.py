"""From annotation to film with the commands, for boxes."""

import csv
import json
import os
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from mmvidformer.apis import Recognizer
from mmvidformer.apis.detector import Person, PersonDetector
from mmvidformer.sinks.annotate import COLORS
from mmvidformer.tasks.rows import CORNERS
from mmvidformer.tasks.stated_boxes import StatedBoxes
from mmvidformer.video.video import Video


class Persons(PersonDetector):
    """A detector without weights."""

    def __init__(self) -> None:
        pass

    def __call__(self, frame: np.ndarray, min_score: float) -> list[Person]:
        return [Person((0.3, 0.2, 0.9, 0.8), 0.9)]


def find_two(frame: np.ndarray, min_score: float) -> list[Person]:
    """Two persons who stand in every frame."""
    return [Person((0.1, 0.2, 0.4, 0.8), 0.9), Person((0.6, 0.2, 0.9, 0.8), 0.85)]


def test_boxes_from_annotation_to_film(
    main_of, test, make_config, tiny_videos, tmp_path, capsys, monkeypatch, web
) -> None:
    for name in ("val_0", "val_1", "val_2", "val_3"):
        (tmp_path / f"{name}.mp4").symlink_to(tiny_videos.root / f"{name}.mp4")
    rows = [f"val_{i},1,0.{i},0.2,0.9,0.8,{i % 2 + 1},0\n" for i in range(4)]
    (tmp_path / "all.csv").write_text("".join(rows))
    (tmp_path / "classes.txt").write_text("walk\nsit\n")
    shares = ["--val", "0.25", "--test", "0.25"]
    main_of("data.list")([str(tmp_path / "all.csv"), "--task", "boxes", *shares])
    whole = dict(scheme="spacetime", temporal_depth=4, stem=dict(tubelet=(2, 8, 8)))
    config = make_config("boxes", model=dict(backbone=whole))
    options = ["--config", str(config), "--data", str(tmp_path)]
    run = tmp_path / "run"
    options += ["--task", "boxes", "--epochs", "1", "--batch", "2", "--workers", "0"]
    main_of("finetune")([*options, "--work-dir", str(run)])
    config, best = str(run / "finetune" / "config.py"), str(next(run.glob("best_*.pth")))
    (tmp_path / "test.csv").write_text("".join(rows))
    (tmp_path / "val_0.mp4").unlink()
    (tmp_path / "val_0.mp4").write_text("no video")
    scores, page = tmp_path / "scores.npz", tmp_path / "errors.html"
    test([config, best, f"--dump={scores}", "--cfg-options", "bad_videos.max_bad_share=0.5"])
    shown = capsys.readouterr().out
    assert re.search(r"mAP/overall: \d+\.\d\d%", shown) and "bad videos: 1" in shown
    with np.load(scores) as arrays:
        assert arrays["boxes"][:, 0].tolist() == [1, 2, 3]
        truth = [[1, i / 10, 0.2, 0.9, 0.8] for i in (1, 2, 3)]
        np.testing.assert_allclose(arrays["boxes"][:, 1:6], truth, atol=1e-6)
        assert arrays["boxes"][:, 8:].tolist() == [[0, 1], [1, 0], [0, 1]]
        boxes = arrays["boxes"].copy()
        boxes[:, 8:] = boxes[:, 6:8] <= 0.5  # what would make all answers wrong
        np.savez(scores, **{**arrays, "boxes": boxes})
    main_of("plot.errors")([str(scores), f"--out={page}"])
    text = page.read_text()
    assert "3 errors of 4 videos; 1 videos could not be read" in text
    assert text.count("at 1.00 s</h2>") == text.count("<article>") == 3
    assert text.count("<img") == 4 * 3
    video, film = str(tmp_path / "val_3.mp4"), tmp_path / "film.mp4"
    boxes = ["--boxes", str(tmp_path / "all.csv")]
    assert main_of("demo")([config, best, video, *boxes, "--out", str(film)]) == 0
    assert film.stat().st_size and "1.00-1.00 s: " in capsys.readouterr().out
    monkeypatch.setattr("mmvidformer.apis.parts.load_detector", lambda _: Persons())
    assert main_of("demo")([config, best, video]) == 0
    shown = capsys.readouterr().out
    assert "0.00-0.00 s: " in shown and "1.00-1.00 s: " in shown
    main_of("push")([str(run), "--out", str(tmp_path / "shared")])
    card = (tmp_path / "shared" / "README.md").read_text()
    (example,) = re.findall("```python\n(.*?)```", card, re.S)
    exec(example.replace("video.mp4", video).replace('"."', f'"{tmp_path}/shared"'))
    assert "'x1': 0.3, 'y1': 0.2, 'x2': 0.9, 'y2': 0.8, 'label': " in capsys.readouterr().out
    assert "for the task `boxes`, with 2 classes." in card and "mAP/overall" in card
    recognizer = Recognizer(config, best)
    stated = [StatedBoxes(1, [(0.3, 0.2, 0.9, 0.8)], [None])]
    (found,) = recognizer.timeline(video, boxes=stated)
    assert found.task.needs_boxes and found.box == (0.3, 0.2, 0.9, 0.8)
    assert [found.row()[name] for name in CORNERS] == [0.3, 0.2, 0.9, 0.8]
    assert {name for _, name, _ in found.top()} == {"walk", "sit"}
    assert [one.row() for one in recognizer(video)] == [
        one.row() for one in recognizer.timeline(video)
    ]
    with pytest.raises(ValueError, match="models of boxes take no window, got 1"):
        next(recognizer.timeline(video, window=1))
    with pytest.raises(ValueError, match="boxes are of video files; of an array, stream"):
        recognizer(np.zeros((8, 16, 16, 3), np.uint8), fps=10)
    check_tracks(main_of, [config, best], video, tmp_path, monkeypatch)
    address = web.add("/v.mp4", Path(video).read_bytes())
    check_stream(main_of, [config, best], address, tmp_path)
    check_labels(main_of, [config, best], tiny_videos.root, tmp_path)
    main_of("export")([config, best, "--out", str(tmp_path / "x.pt2")])
    assert '"boxes": ["boxes", 5]' in capsys.readouterr().out


def check_tracks(main_of, model: list[str], video: str, tmp_path: Path, monkeypatch) -> None:
    """Rows, segments, films and bulk labels have a number for each person."""
    pytest.importorskip("trackers", reason="needs trackers")
    load = "mmvidformer.apis.parts.load_detector"
    monkeypatch.setattr(load, lambda _: find_two)
    outputs = {name: tmp_path / f"tracks.{name}" for name in ("json", "csv", "mp4")}
    names = {"json": "--json", "csv": "--csv", "mp4": "--out"}
    options = [f"{names[name]}={path}" for name, path in outputs.items()]
    persons = ["--track"]
    assert main_of("demo")([*model, video, *persons, "--rate", "4", *options]) == 0
    rows = [json.loads(line) for line in outputs["json"].read_text().splitlines()]
    lefts = {(row["start"], row["track"]): row["x1"] for row in rows}
    assert lefts == {(n / 4, track): x for n in range(8) for track, x in ((1, 0.1), (2, 0.6))}
    segments = list(csv.DictReader(outputs["csv"].open()))
    for track, left in (("1", "0.1"), ("2", "0.6")):  # one after another, of changing classes
        parts = [row for row in segments if row["track"] == track]
        assert (parts[0]["start"], parts[-1]["end"]) == ("0.0", "1.75")
        assert all(one["end"] == other["start"] for one, other in pairwise(parts))
        assert {row["x1"] for row in parts} == {left}
    assert list(segments[0])[:8] == ["video", "start", "end", "track", *CORNERS]
    film = Video.open(str(outputs["mp4"]))
    picture = film.get_batch([12]).asnumpy()[0].astype(int)
    for left, color in ((72, COLORS[1]), (432, COLORS[2])):  # before the texts
        edge = picture[76:86, left : left + 2].mean(axis=(0, 1))
        assert np.abs(edge - color).max() < 60
    boxes = ["--boxes", str(tmp_path / "all.csv")]
    with pytest.raises(ValueError, match="a rate is of persons that are detected, got 4; leave it"):
        main_of("demo")([*model, video, *boxes, "--rate", "4"])
    pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    command = [*model, video, "--track", "--workers", "0", "--out", str(tmp_path / "tracked")]
    assert main_of("label")(command) == 0
    rows = pq.read_table(tmp_path / "tracked").to_pylist()
    assert [row["track"] for row in rows] == [1, 2] * 10  # five times a second, for 2 s
    monkeypatch.setattr(load, lambda _: None)
    assert main_of("label")(command) == 0  # nothing is left to do
    with pytest.raises(FileExistsError, match="has results of other settings: rate"):
        main_of("label")([*command, "--rate", "2"])
    with pytest.raises(ValueError, match="a rate is of persons that are detected, got 4; leave it"):
        main_of("label")([*command[:-1], str(tmp_path / "z"), *boxes, "--rate", "4"])
    check_stated_tracks(main_of, model, video, tmp_path)
    monkeypatch.setattr(load, lambda _: find_two)


def check_stated_tracks(main_of, model: list[str], video: str, tmp_path: Path) -> None:
    """Tracks of a file are kept; boxes without any get numbers with --track."""
    corners = {"a": "0.1,0.2,0.4,0.8", "b": "0.6,0.2,0.9,0.8"}
    header, expected = "video,time,x1,y1,x2,y2,label,track\n", [(0.1, 1), (0.6, 2)]
    for name, tracks, options in (
        ("named", {"a": "anna", "b": "bert"}, []),
        ("numbered", {"a": "1", "b": "2"}, ["--track"]),
        ("unknown", {"a": "", "b": ""}, ["--track"]),
    ):
        file, lines = tmp_path / f"{name}.csv", tmp_path / f"{name}.json"
        rows = [
            f"val_3,{time},{corners[who]},walk,{tracks[who]}\n"
            for time in (0.2, 0.4, 0.6, 0.8)
            for who in ("a", "b")
        ]
        file.write_text(header + "".join(rows))
        command = [*model, video, "--boxes", str(file), "--json", str(lines)]
        assert main_of("demo")([*command, *options]) == 0
        found = [json.loads(line) for line in lines.read_text().splitlines()]
        assert [(row["x1"], row["track"]) for row in found] == expected * 4
        assert [row["start"] for row in found[::2]] == [0.2, 0.4, 0.6, 0.8]


def check_stream(main_of, model: list[str], address: str, tmp_path: Path) -> None:
    """An address has the persons of the file (``check_tracks``), at the same times."""
    rows, film = tmp_path / "live.json", tmp_path / "live.mp4"
    persons = ["--track", "--rate", "4"]
    assert main_of("demo")([*model, address, *persons, f"--json={rows}", f"--out={film}"]) == 0
    of_stream, of_file = (
        [json.loads(line) for line in path.read_text().splitlines()]
        for path in (rows, tmp_path / "tracks.json")
    )
    places = [
        [(row["start"], row["track"], row["x1"]) for row in of] for of in (of_stream, of_file)
    ]
    assert places[0] == places[1]
    for live, whole in zip(of_stream, of_file, strict=True):
        scores = [{top["label"]: top["score"] for top in row["top"]} for row in (live, whole)]
        assert scores[0] == pytest.approx(scores[1], abs=1e-4)
    picture = Video.open(str(film)).get_batch([5]).asnumpy()[0].astype(int)
    assert np.abs(picture[76:86, 72:74].mean(axis=(0, 1)) - COLORS[1]).max() < 60
    with pytest.raises(ValueError, match="a camera or an address needs persons, got --boxes"):
        main_of("demo")([*model, address, "--boxes", str(tmp_path / "all.csv")])


def check_labels(main_of, model: list[str], videos: Path, tmp_path: Path) -> None:
    """Boxes are those of one video, and count by their content."""
    pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    folder, out, file = tmp_path / "x", tmp_path / "rows", tmp_path / "ava.csv"
    folder.mkdir()
    for name in ("val_2.mp4", "val_3.mp4", "train_0.mp4"):
        os.link(videos / name, folder / name)
    file.write_text("val_3,1,0.3,0.2,0.9,0.8,1,0\nval_2,1,0.2,0.2,0.9,0.8,1,0\n")
    command = [*model, str(folder), "--boxes", str(file), "--out", str(out)]
    assert main_of("label")(command) == 0
    rows = {row["video"]: row["x1"] for row in pq.read_table(out).to_pylist()}
    assert rows == pytest.approx({"val_2.mp4": 0.2, "val_3.mp4": 0.3})
    file.write_text(file.read_text().replace("0.3,0.2", "0.4,0.2"))
    with pytest.raises(FileExistsError, match="has results of other settings: boxes"):
        main_of("label")(command)
    file.write_text("Clip,time,x1,y1,x2,y2\nval_3,1,0.3,0.2,0.9,0.8\n")
    options = [*command[:-1], str(tmp_path / "others"), "--columns", "video=Clip"]
    assert main_of("label")(options) == 0
    rows = pq.read_table(tmp_path / "others").to_pylist()
    assert [(row["video"], row["x1"]) for row in rows] == [("val_3.mp4", pytest.approx(0.3))]
    with pytest.raises(SystemExit):
        main_of("label")([*model, str(folder), "--out", "x", "--columns", "video=Clip"])
    file.write_text("val_3,1,0.4,0.2,0.9,0.8,1,0\n")
    (folder / "y").mkdir()
    os.link(videos / "val_3.mp4", folder / "y" / "val_3.mp4")
    with pytest.raises(ValueError, match="two files have the name 'val_3': val_3.mp4 and y/"):
        main_of("label")(command)
    file.write_text("other,1,0.3,0.2,0.9,0.8,1,0\n")
    with pytest.raises(ValueError, match="none of the 1 videos of .*ava.csv is among"):
        main_of("label")(command)
