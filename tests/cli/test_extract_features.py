"""The extraction of features."""

from pathlib import Path

import numpy as np
import pytest
import torch
from mmaction.datasets.transforms import LoadLocalizationFeature
from mmengine.config import Config

from mmvidformer.apis import Recognizer, VideoPipeline, backbone_features
from mmvidformer.apis.bulk.reading import Batch, WholeVideos, read_groups
from mmvidformer.apis.bulk.run import cut
from mmvidformer.data.list_folders import VideoLists
from mmvidformer.finetune.frozen_features import compute_features


def test_features_are_written_once_and_completely(main_of, model, folder, tmp_path, capsys) -> None:
    main, out = main_of("features"), tmp_path / "features"
    command = [*model, str(folder), "--files", "--out", str(out)]
    assert main(command) == 1
    assert "2 answered, 0 answered before, 1 failed" in capsys.readouterr().out
    assert "bad.mp4,DecordInit cannot read it" in (out / "_failed.csv").read_text()
    recognizer = Recognizer(*model)
    for number in range(2):
        values = np.load(out / str(number) / "clip.mp4.npy")
        logits = recognizer.model.cls_head.fc_cls(torch.from_numpy(values)).detach()
        scores = recognizer(folder / str(number) / "clip.mp4").scores["class"]
        np.testing.assert_allclose(logits, scores, atol=1e-5)
    (out / "0" / "clip.mp4.npy").unlink()
    (folder / "bad.mp4").unlink()
    assert main(command) == 0
    assert "1 answered, 1 answered before, 0 failed" in capsys.readouterr().out
    assert (out / "_failed.csv").read_text() == "video,reason\n"
    assert not list(out.rglob(".*"))
    with pytest.raises(FileExistsError, match="other settings: tokens .*_settings.json.; use"):
        main([*command, "--tokens"])
    with pytest.raises(FileExistsError, match="other settings: config .*_settings.json"):
        main([*command, "--cfg-options", "model.backbone.pool=cls"])


def test_workers_read_the_same(tiny_videos, folder, model) -> None:
    """Sixteen videos, one of them bad, in two processes and batches of three."""
    videos = sorted(tiny_videos.root.glob("*.mp4"))
    videos.insert(7, folder / "bad.mp4")
    pipeline = VideoPipeline(Config.fromfile(model[0]))
    groups = cut([(str(video), str(video)) for video in videos], 3)
    messages = read_groups(WholeVideos(pipeline), groups, 3, workers=2)
    batches = [message for message in messages if isinstance(message, Batch)]
    assert sorted(batch.finished for batch in batches) == [[str(v) for v, _ in g] for g in groups]
    clips = {Path(clip.name): clip for batch in batches for clip in batch.clips}
    assert sorted(clips) == sorted(videos) and len(videos) == 16
    for video, clip in clips.items():
        if video.name == "bad.mp4":
            assert clip.error and str(video) not in clip.error
        else:
            views = pipeline.read(pipeline.open(video))["inputs"]
            assert torch.equal(clip.sample["inputs"], views)


def test_features_of_probes_are_those_of_each_video_alone(tiny_videos, model, tmp_path) -> None:
    (tiny_videos.root / "classes.txt").write_text("red\ngreen\nblue\n")
    counts = dict(train=8, val=7, test=0)
    lists = VideoLists(tiny_videos.root, ("red", "green", "blue"), counts, " ")
    cfg = Config.fromfile(model[0])
    cfg.load_from = model[1]
    recognizer = Recognizer(cfg, model[1], clips=1)
    compute_features(cfg, recognizer.model, lists, tmp_path, ["vectors"])
    files = sorted((tmp_path / "vectors").rglob("*.npy"))
    assert len(files) == 15
    for file in files:
        video = tiny_videos.root / file.name.removesuffix(".npy")
        clips = recognizer.pipeline.read(recognizer.pipeline.open(video))["inputs"]
        expected = backbone_features(recognizer.model, clips)[0]
        np.testing.assert_allclose(np.load(file), expected[None], rtol=1e-5, atol=1e-6)


def test_tokens_of_a_list(main_of, model, tiny_videos, tmp_path) -> None:
    listed = tiny_videos.root / "two.txt"
    listed.write_text("val_0.mp4 0\nval_1.mp4 1\n")
    out = tmp_path / "tokens"
    assert main_of("features")([*model, str(listed), "--files", "--out", str(out), "--tokens"]) == 0
    # A view, a token for each of 2 pairs of frames, 16 channels.
    assert np.load(out / "val_1.mp4.npy").shape == (1, 2, 1, 1, 16)
    with pytest.raises(FileNotFoundError, match="list gone.txt does not exist"):
        main_of("features")([*model, "gone.txt", "--out", str(out)])


def test_layers(main_of, model, tiny_videos, tmp_path) -> None:
    """Of both encoders of ViViT's model 2, pooled and dense, by clips too."""
    video, main = str(tiny_videos.root / "val_0.mp4"), main_of("features")
    command = [*model, video, "--files", "--layers", "1", "0"]
    assert main([*command, "--out", str(tmp_path / "pooled")]) == 0
    assert main([*command, "--out", str(tmp_path / "every"), "--every", "4"]) == 0
    recognizer = Recognizer(*model)
    clips = recognizer.pipeline.read(recognizer.pipeline.open(video))["inputs"]
    expected = backbone_features(recognizer.model, clips, layers=[1, 0]).mean(dim=0)
    pooled = np.load(tmp_path / "pooled" / "val_0.mp4.npy")
    np.testing.assert_allclose(pooled, expected, atol=1e-6)
    assert pooled.shape == (32,)
    assert np.load(tmp_path / "every" / "val_0.mp4.npz")["features"].shape == (5, 32)
    dense = [
        *model,
        video,
        "--files",
        "--layers",
        "0",
        "--tokens",
        "--out",
        str(tmp_path / "dense"),
    ]
    assert main(dense) == 0
    assert np.load(tmp_path / "dense" / "val_0.mp4.npy").shape == (1, 2, 2, 2, 16)
    with pytest.raises(ValueError, match="layers must be 0 to 2, got 7"):
        main([*command[:3], "--layers", "7", "--out", str(tmp_path / "wrong")])


def test_a_row_for_each_window(main_of, model, tiny_videos, tmp_path) -> None:
    """A clip of 4 frames at interval 2 spans 8 of 24 frames; one starts every 4 frames."""
    video, main = str(tiny_videos.root / "val_0.mp4"), main_of("features")
    rows_out = str(tmp_path / "rows")
    assert main([*model, video, "--out", rows_out, "--every", "4", "--files"]) == 0
    rows = np.load(tmp_path / "rows" / "val_0.mp4.npz")["features"]
    assert rows.shape == (5, 16)
    recognizer = Recognizer(*model, clips=1)
    opened = recognizer.pipeline.open(video)
    for row, first in ((0, 0), (3, 12)):
        clip = recognizer.pipeline.read(opened, (first, first + 7))["inputs"]
        expected = backbone_features(recognizer.model, clip)[0]
        np.testing.assert_allclose(rows[row], expected, atol=1e-5)
    out = tmp_path / "table"
    command = [*model, video, "--out", str(out), "--files", "--every", "4"]
    assert main([*command, "--rows", "10"]) == 0
    load = LoadLocalizationFeature()
    feature = load({"feature_path": str(out / "val_0.csv")})["raw_feature"].T
    assert feature.shape == (10, 16)
    np.testing.assert_allclose(feature[[0, 9]], rows[[0, 4]], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(feature[1], 0.75 * rows[0] + 0.25 * rows[1], rtol=1e-4, atol=1e-5)
    wrong_options = (["--rows", "10"], ["--every", "-1"], ["--every", "4", "--tokens"])
    for wrong in (*wrong_options, ["--every", "4", "--rows", "10"]):
        with pytest.raises(SystemExit):
            main([*model, video, "--out", str(out), *wrong])


def test_features_are_rows_of_parquet_files(main_of, model, folder, tmp_path) -> None:
    pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    main, outs = main_of("features"), {}
    for name, options in (("plain", []), ("every", ["--every", "4"]), ("tokens", ["--tokens"])):
        outs[name], files = tmp_path / name, tmp_path / f"{name}_files"
        command = [*model, str(folder), *options]
        assert main([*command, "--out", str(outs[name])]) == 1
        assert main([*command, "--out", str(files), "--files"]) == 1
        rows = pq.read_table(outs[name]).to_pylist()
        assert {row["video"] for row in rows} == {"0/clip.mp4", "1/clip.mp4"}
        first = [row for row in rows if row["video"] == "0/clip.mp4"]
        saved = np.load(next((files / "0").iterdir()))
        values = saved["features"] if name == "every" else saved
        numbers = np.concatenate([row["features"] for row in first])
        np.testing.assert_allclose(numbers, values.ravel(), atol=1e-6)
        assert name != "tokens" or first[0]["shape"] == list(values.shape) == [1, 2, 1, 1, 16]
    # At 12 frames per second, a clip of 8 frames every 4 frames.
    every = pq.read_table(outs["every"]).to_pylist()
    seconds = [second for row in every[:2] for second in (row["start"], row["end"])]
    assert seconds == pytest.approx([0, 8 / 12, 4 / 12, 1])
