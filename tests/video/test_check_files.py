"""Files that an annotation file names: which are bad, and the file without them."""

import csv
import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from multiprocessing import active_children
from pathlib import Path

import cv2
import numpy as np
import pytest

from mmvidformer.errors import LostProcess
from mmvidformer.video.check_files import find_faults, read_to_end

DAMAGED = "it is damaged, cut off, or no video"


@pytest.fixture
def check(main_of, tmp_path):
    """Check a list in a folder; return status, reasons by line, and the list without bad files."""

    def run(text, *options):
        (tmp_path / "list.txt").write_text(text)
        options = ["--root", str(tmp_path), "--workers", "2", *options]
        status = main_of("data.check")([str(tmp_path / "list.txt"), *options])
        if not status:
            return status, {}, ""
        with (tmp_path / "list_bad.csv").open() as file:
            rows = {int(row["line"]): (row["path"], row["reason"]) for row in csv.DictReader(file)}
        return status, rows, (tmp_path / "list_clean.txt").read_text()

    return run


def video(path, count=10):
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"mp4v"), 12, (32, 24))
    for number in range(count):
        writer.write(np.full((24, 32, 3), 20 * number, np.uint8))
    writer.release()


def test_a_list_of_videos(tmp_path, check, capsys):
    for name in ("a.mp4", "b.mp4", "c.mp4"):
        video(tmp_path / name)
    (tmp_path / "b.mp4").write_bytes((tmp_path / "b.mp4").read_bytes()[:300])
    status, rows, clean = check("a.mp4 0\nb.mp4 1\ngone.mp4 2\nc 1\na.mp4 1 3\n")
    assert status == 1 and rows.keys() == {2, 3}
    assert rows[2][0] == str(tmp_path / "b.mp4") and rows[2][1] == DAMAGED
    assert rows[3][1] == "No such file or directory"
    assert clean == "a.mp4 0\nc 1\na.mp4 1 3\n"
    assert "2 files are bad" in capsys.readouterr().out
    for path in tmp_path.glob("list_*"):
        path.unlink()
    assert check("a.mp4 0\nc 1\n") == (0, {}, "")
    assert capsys.readouterr().out == f"{tmp_path / 'list.txt'}: all 2 files are good\n"
    assert not [*tmp_path.glob("list_*")]


def test_paths_with_blanks(tmp_path, check):
    video(tmp_path / "a b.mp4")
    assert check("a b.mp4\t0\n") == (0, {}, "")


def misbehave(path):
    if path == "hang":
        re.match("(a+)+$", 99 * "a" + "b")  # holds the GIL, as decord does
    if path == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if path == "exit":
        os._exit(3)
    if path == "wait":
        time.sleep(60)
    if path == "stay":
        time.sleep(0.5)  # its thread waits for the end of the parent by then
        os.closerange(3, 256)  # the pipe to the parent too
        time.sleep(60)
    if path == "raise":
        raise KeyError("no such frame")


def touch_or_hang(path):
    misbehave(path)
    Path(path).touch()


def test_what_hangs_or_crashes_is_replaced():
    before = {*active_children()}
    names = ["a", "hang", "b", "crash", "c", "wait", "exit", "raise", "d"]
    found = find_faults(misbehave, [(name,) for name in names], workers=3, time_limit=1)
    assert found == {
        "hang": "nothing could be read for 1 s",
        "wait": "nothing could be read for 1 s",
        "crash": "it ended the process that read it (SIGSEGV)",
        "exit": "it ended the process that read it (exit status 3)",
        "raise": "KeyError: 'no such frame'",
    }
    assert {*active_children()} <= before


class EndsAtOnce:
    """A function that ends the process which unpickles it, as if its imports needed more memory."""

    def __reduce__(self) -> tuple:
        return os._exit, (3,)

    def __call__(self, path: str) -> None:
        """Read nothing."""


def test_a_process_that_does_not_begin_is_an_error_and_no_bad_file():
    wanted = r"processes that read videos end before they begin \(exit status 3\)"
    with pytest.raises(LostProcess, match=wanted):
        find_faults(EndsAtOnce(), [("a",)])


def test_a_process_that_does_not_end_is_killed():
    before = {*active_children()}
    (reason,) = find_faults(misbehave, [("stay",)], time_limit=2).values()
    assert reason == "nothing could be read for 2 s"
    assert {*active_children()} <= before


def test_a_file_that_hangs_holds_up_no_other(tmp_path):
    files = [("hang",), *((str(tmp_path / name),) for name in "abcdefgh")]
    assert find_faults(touch_or_hang, files, 2, time_limit=1).keys() == {"hang"}
    assert len([*tmp_path.iterdir()]) == 8


def test_ctrl_c_ends_all_processes():
    # A shell lets what it starts in the background ignore Ctrl-C, and so its children.
    code = """if __name__ == "__main__":
    import signal
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from mmvidformer.video.check_files import find_faults
    # One write each: unbuffered, print() writes the end of the line apart.
    busy = "import os, time; os.write(1, b'busy' + bytes([10])); time.sleep(900)"
    find_faults(exec, [(busy,)] * 2)
    """
    options = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, start_new_session=True, **options) as run:
        assert [run.stdout.readline() for _ in range(2)] == ["busy\n"] * 2
        os.killpg(run.pid, signal.SIGINT)
        # Its end comes when the last process that could write to it has ended.
        error = run.communicate(timeout=600)[1]
    assert run.returncode == -signal.SIGINT and error.rstrip().endswith("KeyboardInterrupt")


def test_lines_that_name_a_video_again(tmp_path, main_of, capsys):
    video(tmp_path / "a.mp4")
    (tmp_path / "b.mp4").write_bytes((tmp_path / "a.mp4").read_bytes())
    (tmp_path / "link.mp4").symlink_to("a.mp4")
    file = tmp_path / "list.txt"
    file.write_text("a.mp4 0\nb.mp4 1\n./b.mp4 1\na.mp4 1\nlink.mp4 0\nb.mp4 1\n")
    assert main_of("data.check")([str(file)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{file}, line 4: a.mp4 is listed again and has the label '1', but {file}, line 1 says '0'",
        f"{file}, line 6 repeats line 2",
        f"{file}, line 3: ./b.mp4 is the same file as b.mp4",
        f"{file}, line 5: link.mp4 is the same file as a.mp4",
        f"{file}: 4 faults",
    ]
    assert {path.name for path in tmp_path.iterdir()} == {"a.mp4", "b.mp4", "link.mp4", "list.txt"}


@pytest.mark.parametrize(
    ("task", "header", "ending"),
    [("frames", "video,start,end,label", "0,0.5,run"), ("number", "speed;video", "3,5")],
)
def test_a_list_of_another_task(tmp_path, main_of, capsys, task, header, ending):
    """The list without bad videos has the other rows as they are."""
    for name in ("a.mp4", "b.mp4"):
        video(tmp_path / name)
    (tmp_path / "b.mp4").write_bytes((tmp_path / "b.mp4").read_bytes()[:300])
    rows = [f"{name},{ending}" for name in ("a.mp4", "b.mp4", "gone.mp4")]
    if ";" in header:
        rows = [f"{ending};{name}" for name in ("a.mp4", "b.mp4", "gone.mp4")]
    file = tmp_path / "all.csv"
    file.write_text("\n".join([header, *rows, ""]))
    assert main_of("data.check")([str(file), "--task", task]) == 1
    assert (tmp_path / "all_clean.csv").read_text() == f"{header}\n{rows[0]}\n"
    with (tmp_path / "all_bad.csv").open() as report:
        bad = [(row["line"], row["reason"]) for row in csv.DictReader(report)]
    assert bad == [("3", DAMAGED), ("4", "No such file or directory")]
    assert main_of("data.check")([str(tmp_path / "all_clean.csv"), "--task", task]) == 0


def test_the_first_frame_alone(tmp_path):
    video(tmp_path / "a.mp4")
    files = [(str(tmp_path / name),) for name in ("a.mp4", "b.mp4")]
    found = find_faults(partial(read_to_end, first_only=True), files, workers=1)
    assert found.keys() == {str(tmp_path / "b.mp4")}


def test_one_video(tmp_path, main_of, capsys):
    path = tmp_path / "12:30:00.MP4"
    video(path)
    assert main_of("data.check")([str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: its file is good\n"
    path.write_bytes(path.read_bytes()[:300])
    assert main_of("data.check")([str(path)]) == 1
    assert capsys.readouterr().out == f"{path}: {DAMAGED}\n{path}: 1 fault\n"
    assert [*tmp_path.iterdir()] == [path]
