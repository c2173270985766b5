"""The extraction of features."""

import numpy as np
import pytest
import torch
from mmaction.datasets.transforms import LoadLocalizationFeature
from mmengine.config import Config

from mmvidformer.apis import Recognizer, VideoPipeline, backbone_features
from mmvidformer.apis.features import read_views
from mmvidformer.datasets.own_videos import VideoLists
from mmvidformer.finetune.probes import compute_features


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


def test_workers_read_the_same(tiny_videos, folder, model) -> None:
    """Sixteen videos, one of them bad, in two processes and batches of three."""
    videos = sorted(tiny_videos.root.glob("*.mp4"))
    videos.insert(7, folder / "bad.mp4")
    pipeline = VideoPipeline(Config.fromfile(model[0]))
    found = [pair for batch in read_views(pipeline, videos, 2, 3) for pair in batch]
    assert [video for video, _ in found] == videos and len(videos) == 16
    for video, views in found:
        if video.name == "bad.mp4":
            assert views.startswith(f"cannot read {video} as a video: ")
        else:
            assert torch.equal(views, pipeline.read(pipeline.open(video))["inputs"])


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
        np.testing.assert_allclose(np.load(file), expected, rtol=1e-5, atol=1e-6)


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
