"""Probes, methods and lists of fine-tuning, through the tool."""

import json
import shutil
from pathlib import Path

import pytest
from mmengine.config import Config

from mmvidformer.data.list_folders import VideoLists
from mmvidformer.errors import UserError
from mmvidformer.finetune.rows import warn_of_shared_videos
from mmvidformer.finetune.tally import Tally
from mmvidformer.tasks.lists import read_task_lists
from mmvidformer.tasks.table import task_of


def test_methods_freeze_the_blocks_of_the_overrides(main_of, own, pretrained, tmp_path) -> None:
    options = ["--config", pretrained[0], "--data", own, "--prepare", "--method", "attentive"]
    sizes = [f"model.backbone.arch.{x}" for x in ("depth=3", "embed_dims=24", "num_heads=3")]
    main_of("finetune")([*options, "--work-dir", str(tmp_path), "--cfg-options", *sizes])
    model = Config.fromfile(tmp_path / "finetune" / "config.py").model
    assert model.backbone.frozen_stages == 4 and model.cls_head.num_heads == 3
    assert model.cls_head.in_channels == 24


def test_probes_from_the_same_features(main_of, test, own, pretrained, tmp_path, capsys) -> None:
    """The printed accuracy is that of mmvidformer test, and features are computed once."""
    config, checkpoint, _ = pretrained
    features = tmp_path / "features"
    options = ["--config", config, "--data", own, "--weights", checkpoint, "--workers", "0"]
    options += ["--features", str(features)]
    found = {}
    for method in ("linear", "temporal", "knn", "attentive"):
        run = tmp_path / method
        training = ["--epochs", "3", "--batch", "4"]
        main_of("finetune")([*options, *training, "--method", method, "--work-dir", str(run)])
        found[method] = json.loads((run / "finetune" / "result.json").read_text())
        times = {file: file.stat().st_mtime_ns for file in features.glob("vectors/*.npy")}
        assert len(times) == 15 and times == found.setdefault("times", times)
        assert Tally.read(found[method]["tally"]).count == 7
        assert (
            method == "temporal" or Tally.read(found[method]["tally"]).right >= 4
        )  # the mean colour tells
        with pytest.raises(FileExistsError, match="config.py exists; --force starts again"):
            main_of("finetune")([*options, "--method", method, "--work-dir", str(run)])
    assert not [*(tmp_path / "knn").glob("*.pth")]
    for method in ("linear", "temporal"):
        beside = found[method]["baselines"]["the same features with nearest neighbors"]
        assert Tally.read(beside).count == 7
        if method == "linear":  # of the same vectors
            assert beside == found["knn"]["tally"]
    said = capsys.readouterr().out
    assert "knn, 8 neighbors: " in said
    assert said.count("n = 7); without looking at the videos: 42.9%; frame differences with") == 4
    assert "linear does not use --epochs, --batch, --workers\n" in said
    assert "attentive does not use --workers\n" in said
    for method in ("linear", "temporal", "attentive"):
        run = tmp_path / method
        test([str(run / "finetune" / "config.py"), str(run / f"{method}.pth")])
        (metrics,) = run.glob("test_*.json")
        top1 = json.loads(metrics.read_text())["metrics"]["acc/top1"]
        assert top1 == pytest.approx(Tally.read(found[method]["tally"]).right / 7)
    pixels = "model.data_preprocessor.std=[1,1,1]"
    interval = [f"{x}_dataloader.dataset.pipeline.1.frame_interval=1" for x in ("val", "test")]
    for changed, what in ((interval, "pipeline"), ([pixels], "pixels")):
        run = ["--method", "knn", "--work-dir", str(tmp_path / what), "--cfg-options", *changed]
        with pytest.raises(FileExistsError, match=f"results of other settings: {what}"):
            main_of("finetune")([*options, *run])


def test_probes_name_videos_of_training_in_other_lists(tmp_path, caplog) -> None:
    (tmp_path / "train.txt").write_text("a.mp4 0\nb.mp4 1\n")
    (tmp_path / "val.txt").write_text("sub/../b.mp4 1\nc.mp4 0\n")
    counts = {"train": 2, "val": 2, "test": 0}
    warn_of_shared_videos(VideoLists(tmp_path, ("x", "y"), counts, " "))
    assert "1 of 2 videos of val are in train too, such as " in caplog.text


def test_data_may_be_whatever_data_list_reads(
    main_of, pretrained, tiny_videos, tmp_path, capsys
) -> None:
    """Folders of classes, a csv file with other columns, and an export, whose task is found."""
    classes = tmp_path / "classes"
    for number in range(6):
        path = classes / ("run", "sit")[number % 2] / f"{number}.mp4"
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(tiny_videos.root / f"val_{number}.mp4", path)
    table = tmp_path / "notes.csv"
    videos = [path.relative_to(tmp_path) for path in sorted(classes.glob("*/*"))]
    rows = [f"{path};{path.parent.name};me" for path in videos]
    table.write_text("\n".join(["clip;what;who", *rows, "gone.mp4;other;you"]))
    span = {"segment": [0, 1], "label": "run"}
    subsets = ("training", "validation", "training")
    database = {str(n): {"subset": x, "annotations": [span]} for n, x in enumerate(subsets)}
    export = tmp_path / "anet.json"
    export.write_text(json.dumps({"database": database}))
    named = ["--columns", "label=what", "video=clip", "--only", "who=me"]
    found = {}
    for data, task, options in (
        (classes, "classes", []),
        (table, "classes", named),
        (export, "segments", ["--root", str(classes)]),
    ):
        work_dir = tmp_path / f"run_{data.stem}"
        arguments = ["--config", pretrained[0], "--data", str(data), "--prepare", *options]
        arguments += ["--work-dir", str(work_dir)]
        main_of("finetune")(arguments)
        cfg = Config.fromfile(work_dir / "finetune" / "config.py")
        assert Path(cfg.train_dataloader.dataset.ann_file).parent == work_dir / "lists"
        assert task_of(cfg).name == task
        found[data] = read_task_lists(work_dir / "lists", task)
        with pytest.raises(FileExistsError, match="--force"):
            main_of("finetune")(arguments)
        main_of("finetune")([*arguments, "--force"])
    assert found[classes].counts == found[table].counts == {"train": 2, "val": 2, "test": 2}
    assert found[classes].classes == found[table].classes == ("run", "sit")
    assert found[export].counts == {"train": 2, "val": 1, "test": 0}
    assert "anet.json: read as activitynet, --task segments" in capsys.readouterr().out
    lists = str(tmp_path / "run_anet" / "lists")
    with pytest.raises(ValueError, match="has lists, or does not exist; --root, --columns"):
        main_of("finetune")(["--config", pretrained[0], "--data", lists, *named])


def test_a_result_of_somebody_else_stays(main_of, own, tmp_path) -> None:
    result = tmp_path / "finetune" / "result.json"
    result.parent.mkdir()
    result.write_text("mine")
    options = ["--config", "vivit_fe_motion", "--data", own, "--work-dir", str(tmp_path)]
    with pytest.raises(FileExistsError, match=r"result\.json exists already"):
        main_of("finetune")([*options, "--prepare"])
    assert result.read_text() == "mine"


@pytest.mark.parametrize("method", ["linear", "knn"])
def test_a_classifier_learns_two_classes(method, main_of, own, pretrained, tmp_path) -> None:
    """Of the classes in ``classes.txt``, training may have one."""
    data = tmp_path / "data"
    shutil.copytree(own, data)
    lines = [line for line in (data / "train.txt").read_text().splitlines() if line.endswith(" 1")]
    (data / "train.txt").write_text("\n".join(lines))
    options = ["--config", pretrained[0], "--data", str(data), "--weights", pretrained[1]]
    with pytest.raises(UserError, match="all training videos .* read have the class 'green'"):
        main_of("finetune")([*options, "--method", method, "--work-dir", str(tmp_path / "run")])
