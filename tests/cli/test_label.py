"""Labels of many videos."""

import os
import shutil
import sys

import numpy as np
import pytest
import torch

from mmvidformer.apis import Recognizer
from mmvidformer.errors import UserError
from mmvidformer.storage import atomic

pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")


@pytest.fixture
def label(main_of):
    return main_of("label")


def rows_of(out) -> list[dict]:
    return pq.read_table(out).to_pylist()


def test_rows_are_the_predictions_of_a_recognizer(label, model, folder, tmp_path, capsys) -> None:
    out = tmp_path / "labels"
    command = [*model, str(folder), "--out", str(out)]
    assert label(command) == 1
    assert "2 answered, 0 answered before, 1 failed" in capsys.readouterr().out
    recognizer = Recognizer(*model)
    for row, name in zip(rows_of(out), ("0/clip.mp4", "1/clip.mp4"), strict=True):
        prediction = recognizer(folder / name)
        _, best, probability = prediction.top(1)[0]
        assert row["video"] == name and row["label"] == best
        assert row["start"] is None and row["end"] is None
        assert row["score"] == pytest.approx(probability, abs=1e-6)
        np.testing.assert_allclose(
            row["probabilities"], prediction.probabilities["class"], atol=1e-6
        )
    report = (out / "_failed.csv").read_text().splitlines()
    assert report[0] == "video,reason" and "Error reading" in report[1]
    assert len(report) == 2 and not list(out.rglob(".*"))

    before = rows_of(out)
    assert label(command) == 1
    assert "0 answered, 2 answered before, 1 failed" in capsys.readouterr().out
    shutil.copy(folder / "0" / "clip.mp4", folder / "bad.mp4")
    assert label([*command, "--retry"]) == 0
    assert "1 answered, 2 answered before, 0 failed" in capsys.readouterr().out
    assert label(command) == 0
    assert (out / "_failed.csv").read_text() == "video,reason\n"
    after = {row["video"]: row for row in rows_of(out)}
    assert len(after) == len(rows_of(out)) == 3
    assert [after[row["video"]] for row in before] == before


def test_the_rows_do_not_depend_on_workers_parts_and_interruptions(
    label, model, tiny_videos, tmp_path, monkeypatch
) -> None:
    """Parts are written after the second of them fails; equal bit for bit."""
    command = [*model, str(tiny_videos.root), "--window", "1", "--batch", "2", "--part", "4"]
    assert label([*command, "--out", str(tmp_path / "whole"), "--workers", "0"]) == 0
    expected = rows_of(tmp_path / "whole")
    assert len(expected) > 2 * 15
    assert label([*command, "--out", str(tmp_path / "two"), "--workers", "2"]) == 0
    assert rows_of(tmp_path / "two") == expected
    out, replace, done = tmp_path / "broken", os.replace, []

    def fail(part, target) -> None:
        if done.count("part") == 1:
            raise OSError(28, "No space left on device")
        done.append("part" if "part-" in str(target) else "other")
        replace(part, target)

    monkeypatch.setattr(atomic.os, "replace", fail)
    with pytest.raises(OSError, match="No space"):
        label([*command, "--out", str(out), "--workers", "0"])
    monkeypatch.undo()
    assert 0 < len(rows_of(out)) < len(expected) and not list(out.rglob(".*"))
    assert label([*command, "--out", str(out), "--workers", "0"]) == 0
    assert rows_of(out) == expected
    names = [
        sorted(path.name for path in (tmp_path / run).iterdir()) for run in ("whole", "broken")
    ]
    assert names[0] == names[1]


def test_windows_are_those_of_a_timeline(label, model, tiny_videos, tmp_path) -> None:
    video = str(tiny_videos.root / "val_0.mp4")
    assert label([*model, video, "--out", str(tmp_path), "--window", "1", "--stride", "0.5"]) == 0
    windows = list(Recognizer(*model).timeline(video, window=1, stride=0.5))
    rows = rows_of(tmp_path)
    assert len(rows) == len(windows) == 3
    for row, window in zip(rows, windows, strict=True):
        assert (row["start"], row["end"]) == pytest.approx(window.seconds, abs=5e-4)
        np.testing.assert_allclose(row["probabilities"], window.probabilities["class"], atol=1e-6)


def test_new_videos_of_a_list_are_added(label, model, tiny_videos, tmp_path) -> None:
    out, listed = tmp_path / "out", tiny_videos.root / "new.csv"
    listed.write_text("video,split\nval_1.mp4,val\nval_0.mp4,val\nval_1.mp4,val\n")
    assert label([*model, str(listed), "--out", str(out)]) == 0
    assert [row["video"] for row in rows_of(out)] == ["val_1.mp4", "val_0.mp4"]
    listed.unlink()
    assert label([*model, str(tiny_videos.val), "--out", str(out)]) == 0
    names = [row["video"] for row in rows_of(out)]
    assert sorted(names) == [f"val_{number}.mp4" for number in range(7)]


def test_mistakes(label, model, folder, tiny_videos, tmp_path, monkeypatch) -> None:
    out = tmp_path / "out"
    command = [*model, str(folder), "--out", str(out)]
    assert label(command) == 1
    for changes, what in (
        (["--cfg-options", "model.cls_head.num_classes=3", "model.backbone.pool=cls"], "config"),
        (["--window", "1"], "columns, window"),
    ):
        with pytest.raises(FileExistsError, match=f"other settings: {what} .*_settings.json.; use"):
            label([*command, *changes])
    with pytest.raises(FileExistsError, match="other settings: input"):
        label([*model, str(tiny_videos.root), "--out", str(out)])
    with pytest.raises(UserError, match="models of windows take no boxes, got ava.csv"):
        label([*model, str(folder), "--out", str(tmp_path / "new"), "--boxes", "ava.csv"])
    with pytest.raises(SystemExit):
        label([*command, "--workers", "-1"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="empty has no videos"):
        label([*model, str(tmp_path / "empty"), "--out", str(out)])
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(ValueError, match="empty.txt names no video"):
        label([*model, str(tmp_path / "empty.txt"), "--out", str(out)])
    with pytest.raises(OSError, match="file.txt"):
        (tmp_path / "file.txt").write_text("")
        label([*model, str(folder), "--out", str(tmp_path / "file.txt" / "out")])
    part = next(out.glob("part-*.parquet"))
    part.write_bytes(part.read_bytes()[:50])
    with pytest.raises(ValueError, match=f"{part.name} .* is damaged; remove it"):
        label(command)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'pip install "mmvidformer\[parquet\]"'):
        label(command)
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "pyarrow")
    with pytest.raises(ImportError, match=r'pip install "mmvidformer\[ray\]"'):
        label([*model, str(folder), "--out", str(tmp_path / "ray"), "--ray", "local"])


@pytest.fixture
def annotate_task(tiny_videos, tmp_path_factory, main_of, make_config):
    """Write a config of a task, whose annotations are of the tiny videos."""

    def write(task: str) -> str:
        root, names = tmp_path_factory.mktemp(task), ["red", "green", "blue"]
        header, row = {
            "labels": ("video,label,split", "{path},{first};{second},{split}"),
            "number": ("video,level,size,split", "{path},{number},{number},{split}"),
            "moments": ("video,time,label,split", "{path},0.3,{first},{split}"),
        }.get(task, ("video,start,end,label,split", "{path},0.1,0.5,{first},{split}"))
        lines = [header]
        for split, count in (("train", 8), ("val", 7)):
            for number in range(count):
                path = tiny_videos.root / f"{split}_{number}.mp4"
                classes = dict(first=names[number % 3], second=names[(number + 1) % 3])
                lines.append(row.format(path=path, number=number, split=split, **classes))
        (root / "all.csv").write_text("\n".join(lines))
        main_of("data.list")([str(root / "all.csv"), "--task", task])
        options = ["--config", str(make_config(task)), "--data", str(root), "--prepare"]
        main_of("finetune")([*options, "--task", task, "--work-dir", str(root / "run")])
        return str(root / "run" / "finetune" / "config.py")

    return write


TASK_COLUMNS = {
    "labels": {"label": str, "score": float, "probabilities": list},
    "number": {"level": float, "size": float},
    "frames": {"start": float, "end": float, "label": str, "probabilities": list},
    "segments": {"start": float, "end": float, "label": str, "score": float},
    "moments": {"start": float, "end": float, "label": str, "score": float},
}


@pytest.mark.parametrize("task", TASK_COLUMNS)
def test_all_tasks(task, annotate_task, label, main_of, make_config, tiny_videos, tmp_path) -> None:
    config = annotate_task(task)
    checkpoint = str(tmp_path / "task.pth")
    torch.save({"state_dict": Recognizer(config, None).model.state_dict()}, checkpoint)
    out = str(tmp_path / "out")
    options = []
    if task in ("segments", "moments"):
        options = ["--cfg-options", "model.cls_head.score_thr=0.001", "--min-score=0.001"]
    command = [config, checkpoint, str(tiny_videos.val), "--out", out]
    assert label([*command, *options]) == 0
    rows = rows_of(out)
    assert {row["video"] for row in rows} == {f"val_{number}.mp4" for number in range(7)}
    for name, python_type in TASK_COLUMNS[task].items():
        assert all(isinstance(row[name], python_type) for row in rows)
    if task == "frames":
        first = [row for row in rows if row["video"] == "val_0.mp4"]
        assert [row["start"] for row in first] == pytest.approx([n / 3 for n in range(6)], abs=5e-4)


def test_shards_and_storage_give_the_labels_of_files(label, model, tiny_videos, tmp_path) -> None:
    """``memory:`` is storage that fsspec reads; a folder in it, a list and a video."""
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec")
    from mmvidformer.tasks.shards import shard_list

    options = ["--cfg-options", "test_dataloader.dataset.pipeline.0.type=mmvidformer.VideoInit"]
    options += ["test_dataloader.dataset.pipeline.2.type=mmvidformer.VideoDecode"]
    label([*model, str(tiny_videos.val), "--out", str(tmp_path / "files"), *options])
    expected = rows_of(tmp_path / "files")
    shard_list(tiny_videos.val, tmp_path / "shards", workers=1)
    storage = fsspec.filesystem("memory")
    storage.put(str(tiny_videos.root), "/bulk/videos", recursive=True)
    sources = {"shards": str(tmp_path / "shards"), "list": "memory://bulk/videos/val.txt"}
    for name, source in sources.items():
        out = tmp_path / f"out_{name}"
        assert label([*model, source, "--out", str(out), "--workers", "0"]) == 0
        assert rows_of(out) == expected
    out = tmp_path / "out_folder"
    assert label([*model, "memory://bulk/videos", "--out", str(out), "--workers", "0"]) == 0
    rows = {row["video"]: row for row in rows_of(out)}
    assert len(rows) == 15 and all(rows[row["video"]] == row for row in expected)
    with pytest.raises(FileNotFoundError, match="memory://bulk/nothing has no videos"):
        label([*model, "memory://bulk/nothing", "--out", str(out)])
