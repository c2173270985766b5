"""Nothing is written over that is read, or there already."""

import os
import threading
from pathlib import Path

import pytest

from mmvidformer.storage.atomic import open_rows, write_atomically
from mmvidformer.storage.targets import check_targets


@pytest.fixture
def source(tmp_path) -> Path:
    path = tmp_path / "a.mp4"
    path.write_text("film")
    return path


@pytest.mark.parametrize(
    "spelling", ["itself", "dots", "symlink", "hard link", "link to its folder"]
)
@pytest.mark.parametrize("force", [False, True])
def test_an_input_is_no_target(source, tmp_path, spelling, force) -> None:
    target = tmp_path / "other.mp4"
    if spelling == "itself":
        target = source
    elif spelling == "dots":
        target = tmp_path / ".." / tmp_path.name / "a.mp4"
    elif spelling == "symlink":
        target.symlink_to(source)
    elif spelling == "hard link":
        os.link(source, target)
    else:
        (tmp_path / "folder").symlink_to(tmp_path)
        target = tmp_path / "folder" / "a.mp4"
    with pytest.raises(ValueError, match=r"--out would be written over .*mp4, which is read"):
        check_targets([("--out", target)], [None, "0", "rtsp://x", str(source)], force)


def test_results_that_are_there_need_force(source, tmp_path) -> None:
    link = tmp_path / "link.mp4"
    link.symlink_to(source)
    for target in (source, link):
        with pytest.raises(FileExistsError, match="mp4 exists already; --force replaces it"):
            check_targets([("--out", target)])
        check_targets([("--out", target)], force=True)
    with pytest.raises(ValueError, match="--out: .* is a folder"):
        check_targets([("--out", tmp_path)], force=True)


def test_two_results_in_one_file(source, tmp_path) -> None:
    for names in (("new.csv", "new.csv"), ("new.csv", "x/../new.csv"), ("a.mp4", "b.mp4")):
        (tmp_path / "x").mkdir(exist_ok=True)
        (tmp_path / "b.mp4").unlink(missing_ok=True)
        (tmp_path / "b.mp4").symlink_to(source)
        targets = [(what, tmp_path / name) for what, name in zip("ab", names, strict=True)]
        with pytest.raises(ValueError, match=r"a and b would both be written to"):
            check_targets(targets, force=True)


def test_folders_that_cannot_be_written_are_named_before_the_work(source, tmp_path) -> None:
    with pytest.raises(OSError, match=r"cannot be written.*a\.mp4"):
        check_targets([("--csv", source / "new" / "x.csv")])
    with pytest.raises(OSError, match=r"cannot be written.*/proc"):
        check_targets([("--csv", Path("/proc/x.csv"))])
    check_targets([("--csv", tmp_path / "new" / "deep" / "x.csv")])
    assert not (tmp_path / "new").exists()  # nothing was made


def test_devices_keep_nothing_and_stay(tmp_path) -> None:
    null, pipe = Path("/dev/null"), tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    check_targets([("--csv", null), ("--json", null), ("--timeline", pipe)])
    with open_rows(null) as file, write_atomically(null) as part:
        file.write("x\n")
        part.write_bytes(b"x")
    assert null.is_char_device()
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    with open_rows(pipe) as file:
        file.write("x\n")
    reader.join(10)
    assert read == ["x\n"] and pipe.is_fifo()


def test_rows_are_at_their_place_as_they_are_written(tmp_path) -> None:
    path = tmp_path / "new" / "rows.csv"
    with open_rows(path) as file:
        file.write("1\n")
        assert path.read_text() == "1\n"
        with pytest.raises(FileExistsError, match="rows.csv exists already"), open_rows(path):
            pass  # of another process that began at the same time
    assert os.listdir(path.parent) == ["rows.csv"]


def test_old_rows_stay_until_the_new_ones_are_whole(tmp_path, capsys) -> None:
    path, part = tmp_path / "rows.csv", tmp_path / "rows.csv.part"
    path.write_text("old\n")
    with pytest.raises(FileExistsError, match=r"rows\.csv exists already"), open_rows(path):
        pass
    with pytest.raises(KeyboardInterrupt), open_rows(path, force=True) as file:
        file.write("new\n")
        assert path.read_text() == "old\n"
        raise KeyboardInterrupt
    assert path.read_text() == "old\n" and part.read_text() == "new\n"
    assert f"the rows so far are in {part}" in capsys.readouterr().err
    with pytest.raises(FileExistsError, match=r"rows.csv.part exists already, of a run that was"):
        with open_rows(path, force=True):
            pass
    part.unlink()
    with open_rows(path, force=True) as file:
        file.write("new\n")
    assert path.read_text() == "new\n" and os.listdir(tmp_path) == ["rows.csv"]


@pytest.mark.parametrize("name", ["x" * 250 + ".csv", "ä" * 125])
def test_names_may_be_as_long_as_the_system_allows(tmp_path, name) -> None:
    with write_atomically(tmp_path / name) as part:
        part.write_text("x")
    assert (tmp_path / name).read_text() == "x"


def test_a_link_stays_and_its_file_is_replaced(source, tmp_path) -> None:
    link, dangling = tmp_path / "link", tmp_path / "dangling"
    link.symlink_to(source)
    dangling.symlink_to(tmp_path / "later")
    for path in (link, dangling):
        with write_atomically(path) as part:
            part.write_text("new")
    assert link.is_symlink() and source.read_text() == "new"
    assert dangling.is_symlink() and (tmp_path / "later").read_text() == "new"
