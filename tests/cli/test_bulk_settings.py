"""A folder of bulk results takes no rows of other options."""

import json
import os
import socket
import threading
import time
from pathlib import Path

import pytest
import torch

from mmvidformer.errors import FileThere
from mmvidformer.sinks.parquet import ParquetTable
from mmvidformer.storage import lease
from mmvidformer.storage.files import exists, read_file, write_file
from mmvidformer.storage.parts import Answer
from mmvidformer.storage.resuming import check_settings, hold

pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")


@pytest.fixture
def videos(tiny_videos, tmp_path) -> Path:
    folder = tmp_path / "videos"
    folder.mkdir()
    for number in range(2):
        os.link(tiny_videos.root / f"val_{number}.mp4", folder / f"{number}.mp4")
    return folder


CHANGES = {
    "label": [
        ["--window", "1"],
        ["--window", "1", "--stride", "0.5"],
        ["--window", "1", "--cuts", "none"],
    ],
    "features": [["--tokens"], ["--every", "4"], ["--layers", "0"], ["--files"]],
}


@pytest.mark.parametrize("command", CHANGES)
def test_options_that_are_given_or_taken_back(command, main_of, model, videos, tmp_path) -> None:
    for number, options in enumerate(([], *CHANGES[command])):
        plain = [*model, str(videos), "--out", str(tmp_path / str(number)), "--workers", "0"]
        assert main_of(command)([*plain, *options]) == 0
        assert main_of(command)([*plain, *options, "--batch", "1", "--workers", "1"]) == 0
        for others in ([], *CHANGES[command]):
            if others == options:
                continue
            name = (set(options) ^ set(others)) - {"1", "0.5", "0", "4", "none"}
            what = "|".join(option.removeprefix("--") for option in name)
            with pytest.raises(FileExistsError, match=f"has results of other settings: .*({what})"):
                main_of(command)([*plain, *others])


def test_names_of_classes_count_and_their_file_does_not(main_of, model, videos, tmp_path) -> None:
    command = [*model, str(videos), "--out", str(tmp_path / "out"), "--workers", "0"]
    names, same = tmp_path / "names.txt", tmp_path / "same.txt"
    names.write_text("red\ngreen\nblue\n")  # as the config says
    same.write_text("red\ngreen\nblue")
    assert main_of("label")(command) == 0
    assert main_of("label")([*command, "--classes", str(names)]) == 0
    assert main_of("label")([*command, "--classes", str(same)]) == 0
    names.write_text("red\ngreen\nyellow\n")
    with pytest.raises(FileExistsError, match="other settings: classes"):
        main_of("label")([*command, "--classes", str(names)])


@pytest.mark.parametrize("command", ["label", "features"])
def test_weights_count_by_content(command, main_of, model, videos, tmp_path) -> None:
    config, weights = model
    copy = tmp_path / "copy.pth"
    copy.write_bytes(Path(weights).read_bytes())
    options = [str(videos), "--out", str(tmp_path / "out"), "--workers", "0"]
    assert main_of(command)([config, weights, *options]) == 0
    assert main_of(command)([config, str(copy), *options]) == 0
    content = torch.load(copy)
    content["state_dict"]["cls_head.fc_cls.bias"] += 1
    torch.save(content, copy)
    with pytest.raises(FileExistsError, match="other settings: checkpoint"):
        main_of(command)([config, str(copy), *options])


def test_a_damaged_record(tmp_path) -> None:
    with pytest.raises(FileExistsError, match="has results of unknown settings, without .*json"):
        check_settings(tmp_path, dict(a=1), has_results=True)
    check_settings(tmp_path, dict(a=1, b=(2, 3)), has_results=False)
    check_settings(tmp_path, dict(a=1, b=[2, 3]), has_results=True)
    for other in (dict(a=1), dict(a=1, b=[2, 3], c=None), dict(a=None, b=[2, 3])):
        with pytest.raises(FileExistsError, match="has results of other settings: [abc] "):
            check_settings(tmp_path, other, has_results=True)
    (tmp_path / "_settings.json").write_text(json.dumps(dict(a=1))[:4])
    with pytest.raises(ValueError, match="_settings.json is damaged"):
        check_settings(tmp_path, dict(a=1), has_results=True)


def test_options_that_change_no_row_are_not_recorded(main_of, model, videos, tmp_path) -> None:
    command = [*model, str(videos), "--out", str(tmp_path / "out"), "--workers", "0"]
    assert main_of("label")([*command, "--window", "1"]) == 0
    recorded = json.loads((tmp_path / "out" / "_settings.json").read_text())
    parts = {"window", "stride", "cuts", "min_score", "boxes", "reading", "rate", "track"}
    model_words = {"command", "model", "config", "checkpoint", "input", "classes", "columns"}
    assert recorded.keys() == parts | model_words | {"int8", "static"}


def test_a_second_command_is_refused(main_of, model, videos, tmp_path) -> None:
    for command in ("label", "features"):
        words = [*model, str(videos), "--out", str(tmp_path / command), "--workers", "0"]
        assert main_of(command)(words) == 0
        with (
            hold(str(tmp_path / command)),
            pytest.raises(FileExistsError, match=f"another process writes to {tmp_path}/{command}"),
        ):
            main_of(command)(words)
        assert main_of(command)(words) == 0


def test_a_second_run_in_a_work_dir_is_refused(main_of, make_config, tmp_path) -> None:
    """Their checkpoints would have the same names."""
    config = make_config("held", train_cfg=dict(max_epochs=1))
    words = [str(config), "--work-dir", str(tmp_path / "run")]
    for more in ([], ["--resume"], ["--force"]):
        with hold(tmp_path / "run"), pytest.raises(FileThere, match="another process writes to"):
            main_of("train")([*words, *more])
    assert [*(tmp_path / "run").iterdir()] == []


def test_a_second_command_is_refused_at_an_address(
    main_of, model, videos, tmp_path, monkeypatch, capsys
) -> None:
    pytest.importorskip("fsspec", reason="needs fsspec")
    monkeypatch.setattr(lease, "SETTLING", 0.0)
    monkeypatch.setattr(lease, "RENEWAL", 0.01)
    out = "memory://held/labels"
    words = [*model, str(videos), "--out", out, "--workers", "0"]
    with hold(out):
        first = json.loads(read_file(f"{out}/_writer.json"))
        with pytest.raises(FileThere, match=f"process {os.getpid()} on .* writes to {out}; wait"):
            main_of("label")(words)
        while json.loads(read_file(f"{out}/_writer.json"))["time"] == first["time"]:
            time.sleep(0.01)
    assert main_of("label")(words) == 0
    assert not exists(f"{out}/_writer.json")


@pytest.mark.parametrize(
    ("change", "is_free"),
    [
        (dict(host="elsewhere"), False),
        (dict(host="elsewhere", time=0), True),  # said nothing for more than two minutes
        (dict(host="elsewhere", time=2**40), False),  # its clock is ahead, and it may live
        (dict(process=2**22 + 1), True),  # has ended, on this machine
        (dict(process="x"), False),
        ("no mapping", True),
    ],
)
def test_a_writer_that_was_killed_does_not_hold_an_address(change, is_free, monkeypatch) -> None:
    pytest.importorskip("fsspec", reason="needs fsspec")
    monkeypatch.setattr(lease, "SETTLING", 0.0)
    out = "memory://killed/labels"
    writer = dict(host=socket.gethostname(), process=os.getpid(), token="x", time=time.time())
    text = json.dumps(writer | change if isinstance(change, dict) else change)
    write_file(f"{out}/_writer.json", text.encode())
    if is_free:
        with hold(out):
            pass
        assert not exists(f"{out}/_writer.json")
    else:
        with pytest.raises(FileThere), hold(out):
            pass
        assert read_file(f"{out}/_writer.json") == text.encode()


def test_of_two_that_begin_at_once_one_stays(monkeypatch) -> None:
    pytest.importorskip("fsspec", reason="needs fsspec")
    monkeypatch.setattr(lease, "SETTLING", 0.5)
    out, stayed, refused = "memory://both/labels", [], []
    ready, decided = threading.Barrier(4), threading.Barrier(4)

    def begin(number: int) -> None:
        ready.wait()
        try:
            with hold(out):
                stayed.append(number)
                decided.wait()  # it holds the address until the others have tried
        except FileThere:
            refused.append(number)
            decided.wait()

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(stayed), len(refused)) == (1, 3)


def test_a_refused_folder_stays_as_it_is(tmp_path) -> None:
    """It has a table of somebody else, and settings would claim that for this command."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    foreign = tmp_path / "part-000000000-a.parquet"
    parquet.write_table(pyarrow.table({"x": [1]}), foreign)
    with pytest.raises(ValueError, match="was not written by this command"):
        ParquetTable(str(tmp_path), {"video": str}, {"command": "label"}, ["a.mp4"])
    assert [*tmp_path.iterdir()] == [foreign]


def test_rows_of_other_columns_are_refused(tmp_path) -> None:
    """Such as those of an earlier version."""
    settings, names = dict(model="a"), ["a.mp4"]
    for _ in range(2):
        with ParquetTable(str(tmp_path), dict(video=str, score=float), settings, names) as table:
            if table.missing():
                row = dict(video="a.mp4", score=1.0)
                table.write_part([Answer("a.mp4", [row])])
    with pytest.raises(FileExistsError, match="has results of other settings: columns"):
        ParquetTable(str(tmp_path), dict(video=str, probability=float), settings, names)
