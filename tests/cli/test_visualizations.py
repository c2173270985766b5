"""The commands that draw, on tiny videos and a tiny model."""

import csv
import json
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from mmengine.config import Config
from mmengine.registry import DefaultScope

from mmvidformer.registry import MODELS


@pytest.fixture(scope="module")
def model_files(make_config, tmp_path_factory) -> tuple[str, str]:
    """A config and a checkpoint of random weights."""
    config = make_config("pictures")
    with DefaultScope.overwrite_default_scope("mmaction"):
        model = MODELS.build(Config.fromfile(config).model)
    checkpoint = tmp_path_factory.mktemp("weights") / "random.pth"
    torch.save({"state_dict": model.state_dict(), "meta": {}}, checkpoint)
    return str(config), str(checkpoint)


def test_rollout_writes_a_strip_and_a_video(
    main_of, model_files, tiny_videos, tmp_path: Path, capsys
) -> None:
    names = tmp_path / "names.txt"
    names.write_text("red\ngreen\nblue\n")
    videos = [str(tiny_videos.root / f"val_{i}.mp4") for i in range(2)]
    options = ["--out-dir", str(tmp_path / "out"), "--clips", "3", "--classes", str(names)]
    main_of("plot.rollout")([*model_files, *videos, *options])
    found = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert found == [f"val_{i}_mp4_rollout.{kind}" for i in range(2) for kind in ("mp4", "png")]
    strip = cv2.imread(str(tmp_path / "out" / "val_0_mp4_rollout.png"))
    assert strip.shape[1] == int(120 * (4 * 1.6 + 1.2))  # four frames and a color bar
    assert strip.std() > 20
    video_file = cv2.VideoCapture(str(tmp_path / "out" / "val_1_mp4_rollout.mp4"))
    assert video_file.get(cv2.CAP_PROP_FRAME_COUNT) == 3 * 4
    assert video_file.get(cv2.CAP_PROP_FRAME_WIDTH) == 2 * 360 + 300
    assert "val_1_mp4_rollout.mp4" in capsys.readouterr().out


def test_attention_writes_a_picture(main_of, model_files, tiny_videos, tmp_path: Path) -> None:
    video = str(tiny_videos.root / "val_0.mp4")
    options = ["--out-dir", str(tmp_path), "--block", "0"]
    main_of("lab.plot.matrices")([*model_files, video, *options])
    assert cv2.imread(str(tmp_path / "val_0_mp4_attention.png")).std() > 20


def test_pixels_beyond_the_last_tubelet_are_not_shown(
    main_of, model_files, tiny_videos, tmp_path: Path
) -> None:
    options = ["--out-dir", str(tmp_path), "--cfg-options", "model.backbone.stem.tubelet=(3,16,16)"]
    config, checkpoint = model_files
    with DefaultScope.overwrite_default_scope("mmaction"):
        cfg = Config.fromfile(config)
        cfg.model.backbone.stem.tubelet = (3, 16, 16)
        state = MODELS.build(cfg.model).state_dict()
    torch.save(state, tmp_path / "three.pth")
    video = str(tiny_videos.root / "val_0.mp4")
    main_of("plot.rollout")([config, str(tmp_path / "three.pth"), video, *options])
    video_file = cv2.VideoCapture(str(tmp_path / "val_0_mp4_rollout.mp4"))
    assert video_file.get(cv2.CAP_PROP_FRAME_COUNT) == 3  # of 4


def test_rollout_names_wrong_videos_first(
    main_of, tiny_videos, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tiny_videos.root)
    main, options = main_of("plot.rollout"), ["--out-dir", str(tmp_path)]
    with pytest.raises(FileNotFoundError, match="video gone.mp4 does not exist"):
        main(["no.py", "no.pth", "gone.mp4", *options])
    with pytest.raises(ValueError, match="videos must have different names, got val_0.mp4, val_0"):
        main(["no.py", "no.pth", "val_0.mp4", "val_0.mp4", *options])


def test_tsne_draws_saved_features(main_of, model_files, tiny_videos, tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn of setup.cfg is not installed")
    main, videos = main_of("lab.plot.tsne"), str(tiny_videos.val)
    out, names = tmp_path / "new" / "map.png", tmp_path / "names.txt"
    files = [str(tmp_path / "features"), videos, "--out", str(out), "--classes", str(names)]
    names.write_text("red\ngreen\n")
    with pytest.raises(ValueError, match="below the number of videos, 7; got 30"):
        main(files)
    files += ["--perplexity", "3", "--max-videos", "6"]
    with pytest.raises(ValueError, match="names.txt has 2 names, for labels to 2"):
        main(files)
    names.write_text("red\ngreen\nblue\n")
    unlabelled = tmp_path / "unlabelled.txt"
    unlabelled.write_text("a.mp4 1\nb.mp4\n")
    with pytest.raises(ValueError, match="each line of .*unlabelled.txt must have one label"):
        main([files[0], str(unlabelled), *files[2:], "--perplexity", "1"])
    main_of("features")([*model_files, videos, "--files", "--out", files[0]])
    main(files)
    assert cv2.imread(str(out)).std() > 5
    saved = np.load(out.with_suffix(".npz"))
    assert {name: saved[name].shape for name in saved} == {
        "features": (6, 16),
        "labels": (6,),
        "points": (6, 2),
    }
    files[-1:] = ["7", "--force"]
    main(files)
    saved = np.load(out.with_suffix(".npz"))
    assert saved["labels"].tolist() == [0, 1, 2, 0, 1, 2, 0]
    last = np.load(tmp_path / "features" / "val_6.mp4.npy")
    np.testing.assert_array_equal(saved["features"][-1], last)


def test_confusions_of_a_saved_test(main_of, model_files, test, tmp_path: Path) -> None:
    scores, names = tmp_path / "scores.npz", tmp_path / "names.txt"
    test([*model_files, "--work-dir", str(tmp_path), "--dump", str(scores)])
    names.write_text("red\ngreen\nblue\n")
    options = ["--out-dir", str(tmp_path / "out"), "--classes", str(names)]
    main_of("plot.confusion")([str(scores), *options])
    assert cv2.imread(str(tmp_path / "out" / "confusion.png")).std() > 5
    with open(tmp_path / "out" / "class_accuracy.csv") as file:
        rows = list(csv.DictReader(file))
    assert [(row["name"], row["videos"]) for row in rows] == [
        ("red", "3"),
        ("green", "2"),
        ("blue", "2"),
    ]
    with np.load(scores) as file:
        wrong = file["scores"].argmax(axis=1) != file["labels"]
        assert file["videos"][0].endswith("val_0.mp4")
        expected = set(file["videos"][wrong])
    with open(tmp_path / "out" / "wrong.csv") as file:
        errors = list(csv.DictReader(file))
    assert len(errors) == wrong.sum() > 0 and {row["video"] for row in errors} == expected
    gaps = [float(row["score of class"]) - float(row["score of predicted"]) for row in errors]
    assert gaps == sorted(gaps) and gaps[-1] <= 0
    assert all(row["class"] != row["predicted"] for row in errors)
    named = ["--force", "--dump", str(scores), "--cfg-options", "class_names=[r,g,b]"]
    test([*model_files, "--work-dir", str(tmp_path), *named])
    main_of("plot.confusion")([str(scores), "--out-dir", str(tmp_path / "named")])
    with open(tmp_path / "named" / "class_accuracy.csv") as file:
        assert [row["name"] for row in csv.DictReader(file)] == ["r", "g", "b"]
    metrics = json.loads((tmp_path / "test_1x1_score.json").read_text())["metrics"]
    assert sum(int(row["correct"]) for row in rows) == pytest.approx(7 * metrics["acc/top1"])
    names.write_text("red\n")
    with pytest.raises(ValueError, match="'class' has 3 classes, but 1 names"):
        main_of("plot.confusion")([str(scores), *options, "--force"])


def test_accuracy_by_views_is_that_of_the_tests(
    main_of, model_files, test, tmp_path: Path, monkeypatch
) -> None:
    drawn = []
    draw = Figure.savefig
    monkeypatch.setattr(
        Figure,
        "savefig",
        lambda figure, *a, **k: draw(figure, *a, **k) or drawn.append(figure.axes[0]),
    )
    main, options = main_of("lab.plot.views"), [str(tmp_path), "--out", str(tmp_path / "views.png")]
    with pytest.raises(ValueError, match="has no test_<views>_<fusion>.json with acc/top1"):
        main(options)
    for views in ("2x1", "1x1", "1x3"):
        test([*model_files, "--work-dir", str(tmp_path), "--views", views])
    test([*model_files, "--work-dir", str(tmp_path), "--views", "1x1", "--fuse", "prob"])
    main(options)
    saved = {
        path.stem.removeprefix("test_"): 100 * json.loads(path.read_text())["metrics"]["acc/top1"]
        for path in tmp_path.glob("test_*.json")
    }
    assert {line.get_label(): line.get_xydata().tolist() for line in drawn[0].lines} == {
        "1 crop": [[1, saved["1x1_score"]], [2, saved["2x1_score"]]],
        "1 crop, prob": [[1, saved["1x1_prob"]]],
        "3 crops": [[1, saved["1x3_score"]]],
    }
    with pytest.raises(ValueError, match="with verb/top1"):
        main([*options, "--force", "--metric", "verb/top1"])


def test_training_curves_of_two_runs(main_of, tmp_path: Path, capsys) -> None:
    row = '{"lr": 0.1, "loss": 2.0, "epoch": 1, "iter": 4, "step": 4}\n'
    for run in ("a", "b"):
        (tmp_path / run / "1" / "vis_data").mkdir(parents=True)
        (tmp_path / run / "1" / "vis_data" / "scalars.json").write_text(row)
    runs = [str(tmp_path / "a"), str(tmp_path / "b")]
    out = tmp_path / "new" / "curves.png"
    main = main_of("lab.plot.curves")
    main([*runs, "--out", str(out), "--names", "first", "second"])
    assert cv2.imread(str(out)).std() > 5
    with pytest.raises(SystemExit):
        main([*runs, "--out", str(out), "--names", "first"])
    assert "must name each of the 2 runs, got 1" in capsys.readouterr().err
