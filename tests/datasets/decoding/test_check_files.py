"""Files that an annotation file names: which are bad, and the file without them."""

import os
import re
import signal
import time
from functools import partial

import cv2
import numpy as np
import pytest
import torch

from mmvidformer.datasets.decoding.check_files import (
    find_faults,
    read_entries,
    read_to_end,
    write_report,
)
from mmvidformer.datasets.decoding.errors import fault_of_frames


def video(path, count=10):
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"mp4v"), 12, (32, 24))
    for number in range(count):
        writer.write(np.full((24, 32, 3), 20 * number, np.uint8))
    writer.release()


def faults(ann_file, root, **options):
    entries = read_entries(ann_file, root, **options)
    found = find_faults(read_to_end, [info for _, info in entries], workers=2)
    bad, clean = write_report(ann_file, root / "out", entries, found)
    return {os.path.basename(path): fault for path, fault in found.items()}, bad, clean


def test_a_list_of_videos(tmp_path):
    for name in ("a.mp4", "b.mp4", "c.mp4"):
        video(tmp_path / name)
    (tmp_path / "b.mp4").write_bytes((tmp_path / "b.mp4").read_bytes()[:300])
    ann_file = tmp_path / "list.txt"
    ann_file.write_text("a.mp4 0\nb.mp4 1\ngone.mp4 2\nc.mp4 1\n")
    found, bad, clean = faults(ann_file, tmp_path)
    assert set(found) == {"b.mp4", "gone.mp4"} and found["gone.mp4"] == "there is no such file"
    assert clean.read_text() == "a.mp4 0\nc.mp4 1\n" and clean.name == "list_clean.txt"
    rows = bad.read_text().splitlines()
    assert rows[0] == "line,path,reason" and rows[1].startswith(f"2,{tmp_path / 'b.mp4'},")
    assert rows[2] == f"3,{tmp_path / 'gone.mp4'},there is no such file"


def test_names_without_suffix(tmp_path):
    """MMAction2 reads them as .mp4 files."""
    video(tmp_path / "a.mp4")
    (tmp_path / "list.txt").write_text("a 0\nb 1\n")
    found, _, clean = faults(tmp_path / "list.txt", tmp_path)
    assert found == {"b": "there is no such file"} and clean.read_text() == "a 0\n"


def test_folders_of_frames(tmp_path):
    for folder in ("a", "b", "c"):
        (tmp_path / folder).mkdir()
        for i in (1, 2, 3):
            image = np.full((9, 9, 3), 99, np.uint8)
            cv2.imwrite(str(tmp_path / folder / f"f_{i}.png"), image)
    (tmp_path / "b" / "f_2.png").write_bytes(b"no image")
    (tmp_path / "list.txt").write_text("a 3 0\nb 3 1\nc 4 0\n")
    found, _, clean = faults(tmp_path / "list.txt", tmp_path, filename_tmpl="f_{}.png")
    assert found == {
        "b": "frame f_2.png cannot be decoded",
        "c": "1 of 4 frames are missing, the first is f_4.png",
    }
    assert clean.read_text() == "a 3 0\n"
    assert fault_of_frames({"frame_dir": str(tmp_path / "b")}) is None  # its number is not known


def test_a_line_of_another_form_is_named(tmp_path):
    (tmp_path / "list.txt").write_text("a.mp4 0\na b.mp4 c d\n")
    with pytest.raises(ValueError, match=r"list\.txt, line 2: expected 'PATH LABEL'"):
        read_entries(tmp_path / "list.txt")


def misbehave(info, log=None):
    if info["filename"] == "hang":
        re.match("(a+)+$", 99 * "a" + "b")  # holds the GIL, as decord does
    if info["filename"] == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if info["filename"] == "wait":
        time.sleep(60)
    if log is not None:
        with log.open("a") as file:
            file.write(f"{time.monotonic()} ")


def test_what_hangs_or_crashes_is_replaced():
    infos = [{"filename": name} for name in ("a", "hang", "b", "crash", "c", "wait")]
    found = find_faults(misbehave, infos, workers=3, time_limit=1)
    assert found.keys() == {"hang", "crash", "wait"}
    assert found["hang"] == "took longer than 1 s and was killed"
    assert found["crash"] == "crashed its process (SIGSEGV)"
    assert "(wait): no answer within 1 s" in found["wait"] and "Tried 3 times" in found["wait"]


@pytest.mark.skipif(torch.__version__ < "2.7", reason="PyTorch 2.6 gives it another file")
def test_a_file_that_hangs_holds_up_no_other(tmp_path):
    infos = [{"filename": name} for name in ("hang", *"abcdefghijkl")]
    read = partial(misbehave, log=tmp_path / "log")
    assert find_faults(read, infos, 2, time_limit=2).keys() == {"hang"}
    ends = [float(text) for text in (tmp_path / "log").read_text().split()]
    assert len(ends) == 12 and time.monotonic() - max(ends) > 1.5  # of two tries, 2 s each


def test_the_first_frame_alone(tmp_path):
    video(tmp_path / "a.mp4")
    infos = [{"filename": str(tmp_path / name)} for name in ("a.mp4", "b.mp4")]
    found = find_faults(partial(read_to_end, first_only=True), infos, workers=0)
    assert found == {str(tmp_path / "b.mp4"): "there is no such file"}


def test_the_exit_code_of_the_tool(tmp_path, capsys):
    import importlib.util
    from pathlib import Path

    file = Path(__file__).parents[3] / "tools" / "data" / "check_videos.py"
    spec = importlib.util.spec_from_file_location("check_videos", file)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    video(tmp_path / "a.mp4")
    (tmp_path / "good.txt").write_text("a.mp4 0\n")
    (tmp_path / "bad.txt").write_text("a.mp4 0\nb.mp4 0\n")
    for name, code in (("good", 0), ("bad", 1)):
        assert tool.main([str(tmp_path / f"{name}.txt"), "--root", str(tmp_path)]) == code
    assert "1 of 2 files are bad" in capsys.readouterr().out
