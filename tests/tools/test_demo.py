"""The demo on files, folders and cameras, and the extraction of features."""

import json
import shutil
from collections.abc import Iterator
from functools import partial

import cv2
import numpy as np
import pytest
import torch
from mmaction.datasets.transforms import LoadLocalizationFeature
from mmengine.config import Config
from mmengine.registry import DefaultScope

from benchmarks.live_server import LiveServer
from mmvidformer.apis import Capture, Recognizer, backbone_features
from mmvidformer.registry import MODELS


@pytest.fixture(scope="module")
def model(make_config, tmp_path_factory) -> tuple[str, str]:
    """A tiny config with class names, and its weights."""
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
    return main_of("demo")([*model, str(source), *map(str, options)])


def test_demo_of_a_folder(main_of, model, folder, tmp_path, capsys) -> None:
    records, videos = tmp_path / "new" / "predictions.json", tmp_path / "annotated"
    assert demo(main_of, model, folder, "--json", records, "--out", videos, "--topk", 2) == 1
    found = {one["source"]: one for one in json.loads(records.read_text())["videos"]}
    assert list(found) == sorted(map(str, folder.rglob("*.mp4")))
    assert "bad.mp4 as a video: " in found[str(folder / "bad.mp4")]["error"]
    recognizer = Recognizer(*model)
    printed = capsys.readouterr()
    assert "ViViT on cpu, optimized for inference\n" in printed.err
    assert "1 of 3 videos failed" in printed.err
    for number in range(2):
        file = folder / str(number) / "clip.mp4"
        top = recognizer(file).top(2)
        assert [c["name"] for c in found[str(file)]["predictions"]["class"]] == [
            name for _, name, _ in top
        ]
        assert f"{file}: {top[0][1]} {top[0][2]:.0%}" in printed.out
        video = cv2.VideoCapture(str(videos / str(number) / "clip_mp4.mp4"))
        assert video.get(cv2.CAP_PROP_FRAME_COUNT) == 24
        assert video.get(cv2.CAP_PROP_FRAME_HEIGHT) >= 360


def test_demo_of_windows(main_of, model, tiny_videos, tmp_path) -> None:
    video, names = tiny_videos.root / "val_0.mp4", tmp_path / "names.txt"
    names.write_text("uno\ndue\ntre\n")
    file, line, out = (tmp_path / name for name in ("predictions.json", "line.png", "out.mp4"))
    options = ["--window", 1, "--stride", 0.5, "--json", file, "--timeline", line]
    assert demo(main_of, model, video, *options, "--classes", names, "--out", out) == 0
    records = json.loads(file.read_text())["videos"]
    assert [r["seconds"] for r in records] == [[0, 1], [0.5, 1.5], [1, 2]]
    assert {c["name"] for c in records[0]["predictions"]["class"]} == {"uno", "due", "tre"}
    assert cv2.imread(str(line)).std() > 5
    assert cv2.VideoCapture(str(out)).get(cv2.CAP_PROP_FRAME_COUNT) == 24


def test_demo_of_a_camera(load, model, tiny_videos, tmp_path, monkeypatch) -> None:
    module = load("demo")
    monkeypatch.setattr(module, "Capture", lambda _: Capture(tiny_videos.root / "val_0.mp4"))
    file, out = tmp_path / "predictions.json", tmp_path / "out.mp4"
    options = ["--window", "0.5", "--stride", "0.5", "--seconds", "1.6", "--json", str(file)]
    assert module.main([*model, "7", *options, "--out", str(out)]) == 0
    records = json.loads(file.read_text())["videos"]
    assert [r["seconds"] for r in records] == [[0, 0.5], [0.5, 1.0], [1.0, 1.5]]
    # A frame is shown as soon as there is a prediction: from the 7th of 20.
    assert cv2.VideoCapture(str(out)).get(cv2.CAP_PROP_FRAME_COUNT) == 14


def test_a_table_of_windows_goes_on_where_it_stopped(
    main_of, model, folder, tmp_path, capsys, monkeypatch
) -> None:
    table, computed = tmp_path / "new" / "windows.csv", []
    run = Recognizer._run
    monkeypatch.setattr(Recognizer, "_run", lambda *a: computed.append(1) or run(*a))
    options = ["--window", 1, "--stride", 0.5, "--windows", table]
    assert demo(main_of, model, folder, *options) == 1  # one is bad
    whole, rows = table.read_bytes(), table.read_text().splitlines()
    assert rows[0] == "video,start,end,label,probability" and len(rows) == 7 == 1 + len(computed)
    first = Recognizer(*model)
    (expected, *_) = first.timeline(folder / "0" / "clip.mp4", 1, 0.5)
    _, name, share = expected.top(1)[0]
    assert rows[1] == f"{folder / '0' / 'clip.mp4'},0.00,1.00,{name},{share:.6g}"
    for end, left in ((len(whole), 0), (whole.rindex(b"\n", 0, -1) - 9, 2), (9, 6)):
        table.write_bytes(whole[:end])
        computed.clear()
        assert demo(main_of, model, folder, *options) == 1
        assert (table.read_bytes(), len(computed)) == (whole, left)
    computed.clear()
    table.write_bytes(whole + b"\n")  # as editors do
    assert demo(main_of, model, folder, *options) == 1 and not computed
    options[3] = 0.25
    assert demo(main_of, model, folder, *options) == 1
    assert "windows.csv has other windows of" in capsys.readouterr().err
    assert table.read_bytes() == whole + b"\n"
    table.write_text("video,label\na.mp4,left\n")
    with pytest.raises(ValueError, match="windows.csv is no table of windows; use another file"):
        demo(main_of, model, folder, *options)
    assert table.read_text() == "video,label\na.mp4,left\n"
    with pytest.raises(SystemExit):
        demo(main_of, model, folder, *options, "--json", tmp_path / "x.json")


def test_demo_of_an_address(load, model, tmp_path, capsys, monkeypatch) -> None:
    """Windows of 6 frames, every 6; after 16 frames the server begins anew, and then is gone."""
    monkeypatch.setattr("mmvidformer.apis.capture.WAIT", 0.02)
    module, file = load("demo"), tmp_path / "predictions.json"
    monkeypatch.setattr(module, "Capture", partial(Capture, queue=100, patience=0))
    with LiveServer(16, fps=12, pace=200, connections=2) as server:
        options = ["--window", "0.5", "--stride", "0.5", "--json", str(file)]
        assert module.main([*model, server.address, *options]) == 1
    *records, failure = json.loads(file.read_text())["videos"]
    begins, ends = zip(*(one["seconds"] for one in records), strict=True)
    assert begins[:2] == (0, 0.5) and ends[:2] == (0.5, 1)
    assert len(records) == 4 and begins[3] == pytest.approx(begins[2] + 0.5)
    assert {one["source"] for one in records} == {server.address}
    assert "went away after 33 frames" in failure["error"]
    assert "frames dropped: 0, reconnections: 1" in capsys.readouterr().err


def test_what_an_interrupted_stream_has_told(load, model, capsys, monkeypatch) -> None:
    """Frames by the clock that ctrl-C ends: after the 7th window, or before the first is full."""
    module = load("demo")

    def interrupted(self: Capture) -> Iterator:
        yield from ((i, i / 30, np.zeros((48, 64, 3), np.uint8)) for i in range(12))
        raise KeyboardInterrupt

    monkeypatch.setattr(Capture, "frames", interrupted)
    with LiveServer(30, pace=200) as server:
        for window, answers in (("0.2", 7), ("2", 0)):
            options = ["--window", window, "--stride", "0.03"]
            assert module.main([*model, server.address, *options]) == 0
            found = capsys.readouterr()
            assert found.out.count(" s: ") == answers
            assert ("live.ts: no answer in 0.37 s" in found.err) == (not answers)
            assert "frames dropped: 0, reconnections: 0" in found.err


def test_static_windows_repeat_the_answer(main_of, model, tmp_path, capsys) -> None:
    """Ten gray frames, ten that get lighter, ten gray ones."""
    levels = [100] * 10 + [100 + 10 * i for i in range(10)] + [190] * 12
    video, file = tmp_path / "gray.avi", tmp_path / "predictions.json"
    writer = cv2.VideoWriter(str(video), cv2.VideoWriter_fourcc(*"MJPG"), 10, (64, 48))
    for level in levels:
        writer.write(np.full((48, 64, 3), level, np.uint8))
    writer.release()
    options = ["--window", 0.8, "--stride", 0.1, "--json", file]
    static = {}
    for threshold in (None, 4, 300):
        more = [] if threshold is None else ["--skip-static", threshold]
        assert demo(main_of, model, video, *options, *more) == 0
        records = json.loads(file.read_text())["videos"]
        static[threshold] = [i for i, one in enumerate(records) if one.get("static")]
    assert static[None] == [] and static[300] == list(range(1, 25))
    assert static[4][:2] == [1, 2] and static[4][-4:] == [21, 22, 23, 24]
    assert not set(static[4]) & set(range(5, 20))
    assert "24 of 25 windows repeat the last answer" in capsys.readouterr().err
    for wrong in (["--window", 1, "--skip-static", -1], ["--skip-static", 1]):
        with pytest.raises(SystemExit):
            demo(main_of, model, video, *wrong)


def test_demo_names_wrong_arguments_before_it_loads_the_model(
    main_of, model, tmp_path, monkeypatch
) -> None:
    model = (model[0], "none.pth")
    with pytest.raises(FileNotFoundError, match="gone.mp4 does not exist, and is no camera"):
        demo(main_of, model, "gone.mp4")
    with pytest.raises(FileNotFoundError, match="has no videos"):
        demo(main_of, model, tmp_path)
    (tmp_path / "names.txt").write_text("uno\n")
    (tmp_path / "x.mp4").touch()
    with pytest.raises(ValueError, match="'class' has 3 classes, but 1 names"):
        demo(main_of, model, tmp_path / "x.mp4", "--classes", tmp_path / "names.txt")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    with pytest.raises(OSError, match="no display to show a window on"):
        demo(main_of, model, tmp_path / "x.mp4", "--show")


def test_features_are_written_once_and_completely(main_of, model, folder, tmp_path, capsys) -> None:
    main, out = main_of("features"), tmp_path / "features"
    assert main([*model, str(folder), "--out", str(out)]) == 1
    assert "2 written, 0 skipped, 1 failed" in capsys.readouterr().out
    assert "bad.mp4\tcannot read" in (out / "failed.txt").read_text()
    recognizer = Recognizer(*model)
    for number in range(2):
        values = np.load(out / str(number) / "clip.mp4.npy")
        logits = recognizer.model.cls_head.fc_cls(torch.from_numpy(values)).detach()
        scores = recognizer(folder / str(number) / "clip.mp4").scores["class"]
        np.testing.assert_allclose(logits, scores, atol=1e-5)
    (out / "0" / "clip.mp4.npy").unlink()
    (folder / "bad.mp4").unlink()
    assert main([*model, str(folder), "--out", str(out)]) == 0
    assert "1 written, 1 skipped, 0 failed" in capsys.readouterr().out
    assert (out / "failed.txt").read_text() == ""
    assert not list(out.rglob(".*"))
    with pytest.raises(FileExistsError, match="another tokens .*features.json.; use another"):
        main([*model, str(folder), "--out", str(out), "--tokens"])
    with pytest.raises(FileExistsError, match="another overrides .*features.json"):
        main([*model, str(folder), "--out", str(out), "--cfg-options", "model.backbone.pool=cls"])


def test_tokens_of_a_list(main_of, model, tiny_videos, tmp_path) -> None:
    listed = tiny_videos.root / "two.txt"
    listed.write_text("val_0.mp4 0\nval_1.mp4 1\n")
    out = tmp_path / "tokens"
    assert main_of("features")([*model, str(listed), "--out", str(out), "--tokens"]) == 0
    # A view, a token for each of 2 pairs of frames, 16 channels.
    assert np.load(out / "val_1.mp4.npy").shape == (1, 2, 1, 1, 16)
    with pytest.raises(FileNotFoundError, match="list gone.txt does not exist"):
        main_of("features")([*model, "gone.txt", "--out", str(out)])


def test_a_row_for_each_window(main_of, model, tiny_videos, tmp_path) -> None:
    """A clip of 4 frames at interval 2 spans 8 of 24 frames; one starts every 4 frames."""
    video, main = str(tiny_videos.root / "val_0.mp4"), main_of("features")
    assert main([*model, video, "--out", str(tmp_path / "rows"), "--every", "4"]) == 0
    rows = np.load(tmp_path / "rows" / "val_0.mp4.npz")["features"]
    assert rows.shape == (5, 16)
    recognizer = Recognizer(*model, clips=1)
    opened = recognizer.pipeline.open(video)
    for row, first in ((0, 0), (3, 12)):
        clip = recognizer.pipeline.read(opened, (first, first + 7))["inputs"]
        expected = backbone_features(recognizer.model, clip)[0]
        np.testing.assert_allclose(rows[row], expected, atol=1e-5)
    out = tmp_path / "table"
    assert main([*model, video, "--out", str(out), "--every", "4", "--rows", "10"]) == 0
    load = LoadLocalizationFeature()
    feature = load({"feature_path": str(out / "val_0.csv")})["raw_feature"].T
    assert feature.shape == (10, 16)
    np.testing.assert_allclose(feature[[0, 9]], rows[[0, 4]], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(feature[1], 0.75 * rows[0] + 0.25 * rows[1], rtol=1e-4, atol=1e-5)
    for wrong in (["--rows", "10"], ["--every", "-1"], ["--every", "4", "--tokens"]):
        with pytest.raises(SystemExit):
            main([*model, video, "--out", str(out), *wrong])
