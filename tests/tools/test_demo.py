"""The demo on files, folders and cameras, and the extraction of features."""

import json
import shutil

import cv2
import numpy as np
import pyarrow.parquet
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope

from mmvidformer.apis import Capture, Recognizer
from mmvidformer.registry import MODELS


@pytest.fixture(scope="module")
def model(make_config, tmp_path_factory) -> tuple[str, str]:
    """A tiny config with names of classes, and its weights."""
    config = make_config("tiny", class_names=["red", "green", "blue"])
    path = tmp_path_factory.mktemp("weights") / "tiny.pth"
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope("mmaction"):
        torch.save({"state_dict": MODELS.build(Config.fromfile(config).model).state_dict()}, path)
    return str(config), str(path)


@pytest.fixture
def folder(tiny_videos, tmp_path):
    """Two videos and a broken one, in folders."""
    root = tmp_path / "videos"
    for number in range(2):
        (root / str(number)).mkdir(parents=True)
        shutil.copy(tiny_videos.root / f"val_{number}.mp4", root / str(number) / "clip.mp4")
    (root / "bad.mp4").write_bytes(b"no video")
    return root


def demo(main_of, model, source, *options) -> int:
    arguments = [str(source), "--config", model[0], "--checkpoint", model[1]]
    return main_of("demo")([*arguments, *map(str, options)])


def test_demo_of_a_folder(main_of, model, folder, tmp_path, capsys) -> None:
    said, films = tmp_path / "new" / "said.json", tmp_path / "films"
    assert demo(main_of, model, folder, "--json", said, "--out", films, "--topk", 2) == 1
    videos = {one["source"]: one for one in json.loads(said.read_text())["videos"]}
    assert list(videos) == sorted(map(str, folder.rglob("*.mp4")))
    assert "cannot be opened as a video" in videos[str(folder / "bad.mp4")]["error"]
    recognizer = Recognizer(*model)
    printed = capsys.readouterr().out
    for number in range(2):
        file = folder / str(number) / "clip.mp4"
        top = recognizer(file).top(2)
        assert [c["name"] for c in videos[str(file)]["predictions"]["class"]] == [
            name for _, name, _ in top
        ]
        assert f"{file}: {top[0][1]} {top[0][2]:.0%}" in printed
        film = cv2.VideoCapture(str(films / str(number) / "clip_mp4.mp4"))
        assert film.get(cv2.CAP_PROP_FRAME_COUNT) == 24
        assert film.get(cv2.CAP_PROP_FRAME_HEIGHT) >= 360


def test_demo_of_windows(main_of, model, tiny_videos, tmp_path) -> None:
    video, names = tiny_videos.root / "val_0.mp4", tmp_path / "names.txt"
    names.write_text("uno\ndue\ntre\n")
    said, line = tmp_path / "said.json", tmp_path / "line.png"
    options = ["--window", 1, "--stride", 0.5, "--json", said, "--timeline", line]
    assert (
        demo(main_of, model, video, *options, "--classes", names, "--out", tmp_path / "f.mp4") == 0
    )
    records = json.loads(said.read_text())["videos"]
    assert [r["seconds"] for r in records] == [[0, 1], [0.5, 1.5], [1, 2]]
    assert {c["name"] for c in records[0]["predictions"]["class"]} == {"uno", "due", "tre"}
    assert cv2.imread(str(line)).std() > 5
    assert cv2.VideoCapture(str(tmp_path / "f.mp4")).get(cv2.CAP_PROP_FRAME_COUNT) == 24


def test_demo_of_a_camera(load, model, tiny_videos, tmp_path, monkeypatch) -> None:
    module = load("demo")
    monkeypatch.setattr(module, "Capture", lambda _: Capture(tiny_videos.root / "val_0.mp4"))
    said = tmp_path / "said.json"
    options = ["--window", "0.5", "--stride", "0.5", "--seconds", "1.6", "--json", str(said)]
    options += ["--config", model[0], "--checkpoint", model[1], "--out", str(tmp_path / "f.mp4")]
    assert module.main(["7", *options]) == 0
    records = json.loads(said.read_text())["videos"]
    assert [r["seconds"] for r in records] == [[0, 0.5], [0.5, 1.0], [1.0, 1.5]]
    # A frame is shown as soon as there is a prediction: from the 6th of 20.
    assert cv2.VideoCapture(str(tmp_path / "f.mp4")).get(cv2.CAP_PROP_FRAME_COUNT) == 15


def test_demo_says_what_is_wrong(main_of, model, tmp_path) -> None:
    with pytest.raises(FileNotFoundError, match="no file or folder gone.mp4"):
        demo(main_of, model, "gone.mp4")
    with pytest.raises(FileNotFoundError, match="there is no video in"):
        demo(main_of, model, tmp_path)


def test_features_are_written_once_and_whole(main_of, model, folder, tmp_path, capsys) -> None:
    main, out = main_of("extract_features"), tmp_path / "features"
    assert main([*model, str(folder), "--out", str(out)]) == 1
    assert "2 written, 0 there, 1 failed" in capsys.readouterr().out
    assert "bad.mp4\tfailed: " in (out / "failed.txt").read_text()
    recognizer = Recognizer(*model)
    for number in range(2):
        values = np.load(out / str(number) / "clip.mp4.npy")
        logits = recognizer.model.cls_head.fc_cls(torch.from_numpy(values)).detach()
        scores = recognizer(folder / str(number) / "clip.mp4").scores["class"]
        np.testing.assert_allclose(logits, scores, atol=1e-5)
    (out / "0" / "clip.mp4.npy").unlink()
    (folder / "bad.mp4").unlink()
    assert main([*model, str(folder), "--out", str(out)]) == 0
    assert "1 written, 1 there, 0 failed" in capsys.readouterr().out
    assert (out / "failed.txt").read_text() == ""
    assert not list(out.rglob(".*"))
    with pytest.raises(FileExistsError, match="another format, tokens"):
        main([*model, str(folder), "--out", str(out), "--format", "parquet", "--tokens"])


def test_tokens_of_a_list_as_parquet(main_of, model, tiny_videos, tmp_path) -> None:
    listed = tiny_videos.root / "two.txt"
    listed.write_text("val_0.mp4 0\nval_1.mp4 1\n")
    out = tmp_path / "tokens"
    options = ["--out", str(out), "--format", "parquet", "--tokens"]
    assert main_of("extract_features")([*model, str(listed), *options]) == 0
    row = pyarrow.parquet.read_table(out / "val_1.mp4.parquet").to_pylist()[0]
    assert row["video"] == str(tiny_videos.root / "val_1.mp4")
    # A view, a token for each of 2 pairs of frames, 16 channels.
    assert row["shape"] == [1, 2, 1, 1, 16] and len(row["values"]) == 32
