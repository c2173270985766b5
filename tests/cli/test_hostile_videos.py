"""Bulk commands go on past videos that end, hang or deceive the process that reads them."""

import csv
import json
import os
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from mmcv.transforms import BaseTransform
from mmengine.config import Config

from mmvidformer.apis import Recognizer
from mmvidformer.data import sources
from mmvidformer.registry import TRANSFORMS
from mmvidformer.storage.errors import StorageError

NOT_UTF8 = os.fsdecode(b"caf\xe9.mp4")
SPELLED = r"caf\xe9.mp4"


@TRANSFORMS.register_module()
class EndOrHang(BaseTransform):
    """Ends or hangs the process that reads a file of a certain name, or raises what is a bug."""

    def transform(self, results: dict) -> dict:
        """Look at the name."""
        name = Path(results.get("filename", "")).name
        if name.startswith("kill"):
            os.kill(os.getpid(), signal.SIGKILL)
        if name.startswith("hang"):
            time.sleep(600)
        if name.startswith("memory"):
            raise MemoryError("Unable to allocate 2.20 TiB")
        if name.startswith("once"):  # as if another process had needed the memory
            mark = Path(f"{results['filename']}.mark")
            if not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return results


@pytest.fixture
def hostile(tiny_videos, tmp_path) -> Path:
    """A folder of twelve good videos and some others, in the middle of them."""
    root = tmp_path / "videos"
    root.mkdir()
    good = sorted(tiny_videos.root.glob("*.mp4"))[:12]
    for number, video in enumerate(good):
        shutil.copy(video, root / f"{'agmz'[number % 4]}{number}.mp4")
    for name in ("hang.mp4", "kill.mp4", "memory.mp4", "once.mp4", NOT_UTF8):
        shutil.copy(good[0], root / name)
    (root / "empty.mp4").touch()
    (root / "folder.mp4").mkdir()
    os.mkfifo(root / "pipe.mp4")
    return root


@pytest.fixture
def troubled(model, tmp_path) -> list[str]:
    """The tiny model, whose pipeline has ``EndOrHang``."""
    cfg = Config.fromfile(model[0])
    for loader in (cfg.val_dataloader, cfg.test_dataloader):
        loader.dataset.pipeline.insert(1, dict(type="mmvidformer.EndOrHang"))
    config = tmp_path / "troubled.py"
    cfg.dump(config)
    return [str(config), model[1]]


REASONS = {
    "kill.mp4": "it ended the process that read it (SIGKILL)",
    "hang.mp4": "nothing could be read for 3 s",
    "memory.mp4": "its header asks for more memory than there is",
    "empty.mp4": "the file is empty",
    "folder.mp4": "it is a folder",
    "pipe.mp4": "it is a device or pipe",
}


def failures_of(out: Path) -> dict[str, str]:
    with (out / "_failed.csv").open(encoding="utf-8", newline="") as file:
        return {row["video"]: row["reason"] for row in csv.DictReader(file)}


@pytest.mark.parametrize("command", ["label", "label --window 1", "features --every 4"])
def test_the_command_goes_on(command, main_of, troubled, hostile, tmp_path, capsys) -> None:
    pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    name, *options = command.split()
    out = tmp_path / "out"
    options += ["--workers", "2", "--time-limit", "3", "--out", str(out)]
    assert main_of(name)([*troubled, str(hostile), *options]) == 1
    assert "14 answered, 0 answered before, 6 failed" in capsys.readouterr().out
    failures = failures_of(out)
    assert failures.keys() == REASONS.keys()
    for video, reason in REASONS.items():
        assert reason in failures[video]
    videos = pq.read_table(out)["video"].to_pylist()
    assert len({*videos}) == 14 and {SPELLED, "once.mp4"} < {*videos}
    if "--" not in command:
        assert len(videos) == 14
    assert main_of(name)([*troubled, str(hostile), *options]) == 1
    assert "0 answered, 14 answered before, 6 failed" in capsys.readouterr().out


def test_files_of_features_are_named_as_the_videos_are(
    main_of, troubled, hostile, tmp_path
) -> None:
    out = tmp_path / "out"
    options = ["--files", "--workers", "2", "--time-limit", "3", "--out", str(out)]
    assert main_of("features")([*troubled, str(hostile), *options]) == 1
    assert failures_of(out).keys() == REASONS.keys()
    assert len([*out.glob("*.npy")]) == 14
    same = [np.load(out / f"{name}.npy") for name in (NOT_UTF8, "once.mp4")]
    np.testing.assert_allclose(*same, atol=1e-5)


def test_demo_writes_names_that_are_not_utf8(main_of, model, hostile, tmp_path) -> None:
    video, spelled = str(hostile / NOT_UTF8), str(hostile / SPELLED)
    table, lines = tmp_path / "windows.csv", tmp_path / "lines.json"
    main = main_of("demo")
    for count in (3, 3):  # the second time they are there already
        assert main([*model, video, "--window", "1", "--windows", str(table)]) == 0
        with table.open(encoding="utf-8", newline="") as file:
            assert [row["video"] for row in csv.DictReader(file)] == [spelled] * count
    (hostile / NOT_UTF8).write_bytes(b"no video")
    assert main([*model, video, str(hostile / "a0.mp4"), "--json", str(lines)]) == 1
    records = [json.loads(line) for line in lines.read_text("utf-8").splitlines()]
    assert spelled in str(records[0]["error"]) and records[0]["video"] == spelled


def test_storage_may_fail_for_a_video_but_not_for_all(
    main_of, model, tiny_videos, tmp_path, monkeypatch, capsys
) -> None:
    pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec")
    fsspec.filesystem("memory").put(str(tiny_videos.root), "/of/videos", recursive=True)
    refused, read = {"val_1.mp4", "val_3.mp4", "val_4.mp4"}, sources.read_file

    def refuse(path: str) -> bytes:
        if path.rpartition("/")[2] in refused:
            raise StorageError(f"{path}: access is denied")
        return read(path)

    monkeypatch.setattr(sources, "read_file", refuse)
    options = ["test_dataloader.dataset.pipeline.0.type=mmvidformer.VideoInit"]
    options += ["test_dataloader.dataset.pipeline.2.type=mmvidformer.VideoDecode"]
    out = tmp_path / "out"
    command = [*model, "memory://of/videos/val.txt", "--out", str(out), "--workers", "0"]
    command += ["--batch", "1", "--cfg-options", *options]
    assert main_of("label")(command) == 1
    assert "4 answered, 0 answered before, 3 failed" in capsys.readouterr().out
    assert failures_of(out).keys() == refused
    refused.add("val_5.mp4")
    with pytest.raises(StorageError, match=r"val_5.mp4: access is denied"):
        main_of("label")([*command, "--out", str(tmp_path / "new")])
    names = pq.read_table(tmp_path / "new")["video"].to_pylist()
    assert sorted(names) == ["val_0.mp4", "val_2.mp4"]
    refused.clear()
    assert main_of("label")([*command, "--out", str(tmp_path / "new"), "--retry"]) == 0
    assert pq.read_table(tmp_path / "new").num_rows == 7


def test_listed_videos_that_are_none(main_of, model, hostile, tmp_path) -> None:
    pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    listed = hostile / "list.csv"
    listed.write_text("video\nfolder.mp4\na0.mp4\ngone.mp4\npipe.mp4\n")
    out = tmp_path / "out"
    assert main_of("label")([*model, str(listed), "--out", str(out)]) == 1
    assert pq.read_table(out)["video"].to_pylist() == ["a0.mp4"]
    failures = failures_of(out)
    assert "it is a folder" in failures["folder.mp4"]
    assert "does not exist" in failures["gone.mp4"]
    listed.write_text("label,video\nx,a0.mp4\ny\n")
    with pytest.raises(ValueError, match=r"list.csv, line 3: there is no video"):
        main_of("label")([*model, str(listed), "--out", str(out)])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_is_finished_is_written_when_the_command_is_stopped(
    number, main_of, model, tiny_videos, tmp_path, monkeypatch
) -> None:
    pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    out, answer, calls = tmp_path / "out", Recognizer.run_samples, []

    def stop(*arguments: object) -> list:
        calls.append(1)
        if len(calls) == 3:
            os.kill(os.getpid(), number)
        return answer(*arguments)

    monkeypatch.setattr(Recognizer, "run_samples", stop)
    command = [*model, str(tiny_videos.val), "--out", str(out), "--workers", "0", "--batch", "1"]
    usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    old = signal.signal(number, usual)  # the tests may run below nohup, which ignores signals
    try:
        with pytest.raises(KeyboardInterrupt if number == signal.SIGINT else SystemExit) as stopped:
            main_of("label")(command)
    finally:
        signal.signal(number, old)
    assert number == signal.SIGINT or stopped.value.code == 128 + number
    assert pq.read_table(out)["video"].to_pylist() == ["val_0.mp4", "val_1.mp4"]
    assert main_of("label")(command) == 0
    assert len({*pq.read_table(out)["video"].to_pylist()}) == pq.read_table(out).num_rows == 7
