"""Files that an annotation file names: which are bad, and the file without them."""

import ctypes
import os
import signal

import cv2
import numpy as np
import pytest

from mmvidformer.datasets.decoding import check_files
from mmvidformer.datasets.decoding.check_files import read_entries, scan, write_report

CSV = "narration_id,participant_id,video_id,start_frame,stop_frame,noun_class,verb_class\n"


def video(path, count=10):
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"mp4v"), 12, (32, 24))
    for number in range(count):
        writer.write(np.full((24, 32, 3), 20 * number, np.uint8))
    writer.release()


def faults(ann_file, root, **options):
    header, entries = read_entries(ann_file, root, **options)
    infos = [entry.info for entry in entries]
    found = {path: fault for path, fault in scan(infos, workers=2) if fault is not None}
    bad, clean = write_report(ann_file, root / "out", header, entries, found)
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
        "b": "frame f_2.png can't be decoded",
        "c": "1 of 4 frames are missing, the first is f_4.png",
    }
    assert clean.read_text() == "a 3 0\n"


def test_epic_kitchens(tmp_path):
    (tmp_path / "P01" / "videos").mkdir(parents=True)
    video(tmp_path / "P01" / "videos" / "v.MP4")
    rows = ["n0,P01,v,1,5,0,0\n", "n1,P01,w,1,5,0,0\n", "n2,P01,v,2,5,0,0\n"]
    (tmp_path / "train.csv").write_text(CSV + "".join(rows))
    found, _, clean = faults(tmp_path / "train.csv", tmp_path)
    assert found == {"w.MP4": "there is no such file"}
    assert clean.read_text() == CSV + rows[0] + rows[2]


def test_a_line_of_another_form_is_told(tmp_path):
    (tmp_path / "list.txt").write_text("a.mp4 0\na b.mp4 c d\n")
    with pytest.raises(ValueError, match=r"list\.txt, line 2: expected 'PATH LABEL'"):
        read_entries(tmp_path / "list.txt")


def test_what_hangs_or_crashes_is_replaced(monkeypatch):
    def check(info):
        if info["filename"] == "hang":
            ctypes.PyDLL(None).sleep(60)  # keeps Python's lock, as decord does
        if info["filename"] == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        return None

    monkeypatch.setattr(check_files, "check_file", check)
    names = ["a", "hang", "b", "crash", "c", "d"]
    found = dict(scan([{"filename": name} for name in names], workers=2, time_limit=2))
    assert found == {
        **dict.fromkeys("abcd"),
        "hang": "took longer than 2 s and was killed",
        "crash": "the process that read it was ended by SIGSEGV",
    }


def test_the_tool_tells_by_its_exit_code(tmp_path, capsys):
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
