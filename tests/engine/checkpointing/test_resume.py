"""The checkpoint that a run resumes from."""

import os
import shutil
import zipfile
from pathlib import Path

import pytest
import torch

from mmvidformer.engine.checkpointing import resume
from mmvidformer.engine.checkpointing.resume import latest_checkpoint


def save(folder: Path, name: str, age: int, epoch: int | None = None, **meta: float) -> Path:
    """A checkpoint of ten steps an epoch; by default, its name says which epoch."""
    path = folder / name
    epoch = int("".join(filter(str.isdigit, name)) or 0) if epoch is None else epoch
    meta = {"epoch": epoch, "iter": 10 * epoch, **meta}
    torch.save(dict(state_dict=dict(weight=torch.ones(100)), meta=meta), path)
    os.utime(path, (1000 - age, 1000 - age))
    return path


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def test_an_empty_folder_has_none(tmp_path):
    assert latest_checkpoint(tmp_path) is None
    assert latest_checkpoint(tmp_path / "missing") is None


def test_the_last_one_is_taken_whatever_the_note_says(tmp_path):
    """A run may be killed between writing a checkpoint and the note."""
    for age, name in enumerate(("epoch_5.pth", "epoch_10.pth", "epoch_9.pth", "epoch_1.pth")):
        save(tmp_path, name, age)
    (tmp_path / "last_checkpoint").write_text(str(tmp_path / "epoch_9.pth"))
    assert latest_checkpoint(tmp_path) == str(tmp_path / "epoch_10.pth")


LAST = {
    # Of two checkpoints the one that is resumed, and the other, whose file is newer.
    "steps": (dict(epoch=2), dict(epoch=1)),
    "steps within an epoch": (dict(epoch=2, iter=25), dict(epoch=2)),
    "after the batch grew": (dict(epoch=3, iter=15), dict(epoch=2, iter=20)),
    "started anew in the folder": (dict(epoch=1, started=9.0), dict(epoch=3, started=5.0)),
    "written before starts were noted": (dict(epoch=1, started=9.0), dict(epoch=3)),
}


@pytest.mark.parametrize("case", LAST)
def test_a_copy_without_times_resumes_from_the_last_one(tmp_path, case):
    """As of object storage, whose copies are as old as the copying."""
    last, other = LAST[case]
    save(tmp_path, "epoch_1.pth", age=0, **other)
    taken = save(tmp_path, "interrupted.pth", age=5, **last)
    assert latest_checkpoint(tmp_path) == str(taken)


def test_equal_ones_and_those_that_say_nothing_are_taken_by_their_time(tmp_path):
    for name in ("epoch_1.pth", "epoch_2.pth"):
        torch.save(dict(state_dict={}), tmp_path / name)
    os.utime(tmp_path / "epoch_1.pth", (2000, 2000))
    os.utime(tmp_path / "epoch_2.pth", (1000, 1000))
    assert latest_checkpoint(tmp_path) == str(tmp_path / "epoch_1.pth")
    save(tmp_path, "iter_3.pth", age=9, epoch=3)
    taken = save(tmp_path, "interrupted.pth", age=5, epoch=3)
    assert latest_checkpoint(tmp_path) == str(taken)


def test_a_copied_folder_resumes_from_its_own(tmp_path):
    save(tmp_path, "epoch_1.pth", age=9)
    noted = save(tmp_path, "epoch_2.pth", age=5)
    (tmp_path / "last_checkpoint").write_text(str(noted))
    other = tmp_path / "copy"
    shutil.copytree(tmp_path, other, copy_function=shutil.copy2)
    assert latest_checkpoint(other) == str(other / "epoch_2.pth")
    (other / "epoch_2.pth").unlink()
    assert latest_checkpoint(other) == str(other / "epoch_1.pth")


def test_checkpoints_in_another_folder_are_found_by_the_note(tmp_path):
    """MMEngine's ``out_dir`` of checkpoints."""
    noted = save(tmp_path, "epoch_1.pth", age=0)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "last_checkpoint").write_text(str(noted))
    assert latest_checkpoint(tmp_path / "work") == str(noted)


@pytest.mark.parametrize("text", [b"", b"\xff\x00\n", b"/etc/passwd", b"..", b"\0"])
def test_a_damaged_note_is_ignored(tmp_path, text):
    only = save(tmp_path, "epoch_1.pth", age=0)
    (tmp_path / "last_checkpoint").write_bytes(text)
    assert latest_checkpoint(tmp_path) == str(only)


def test_a_cut_one_is_skipped(tmp_path, monkeypatch):
    logged = []
    monkeypatch.setattr(resume, "print_log", lambda message, **_: logged.append(message))
    save(tmp_path, "epoch_2.pth", age=9)
    before = save(tmp_path, "epoch_10.pth", age=5)
    noted = save(tmp_path, "epoch_11.pth", age=1)
    save(tmp_path, "best_acc_top1_epoch_11.pth", age=0)
    (tmp_path / "last_checkpoint").write_text(str(noted))
    cut(noted)
    assert latest_checkpoint(tmp_path) == str(before)
    assert logged == [f"skipped {noted}: it is damaged"]


def test_all_damaged_is_an_error(tmp_path):
    cut(save(tmp_path, "iter_100.pth", age=0))
    with pytest.raises(ValueError, match=r"iter_100\.pth"):
        latest_checkpoint(tmp_path)


@pytest.mark.parametrize("place", [0.3, 0.5, 0.7])
def test_one_with_a_flipped_bit_is_skipped(tmp_path, place):
    """The directory of the archive is intact then; PyTorch would load it."""
    before = save(tmp_path, "epoch_1.pth", age=5)
    noted = save(tmp_path, "epoch_2.pth", age=0)
    (tmp_path / "last_checkpoint").write_text(str(noted))
    content = bytearray(noted.read_bytes())
    start = content.index(torch.ones(100).numpy().tobytes())
    content[start + int(400 * place)] ^= 1
    noted.write_bytes(content)
    torch.load(noted, weights_only=True)
    assert latest_checkpoint(tmp_path) == str(before)


def test_the_state_of_an_interrupted_run_counts(tmp_path):
    save(tmp_path, "epoch_1.pth", age=5)
    last = save(tmp_path, "interrupted.pth", age=0, epoch=1, iter=13)
    assert latest_checkpoint(tmp_path) == str(last)


def test_only_the_one_that_is_taken_is_read_in_full(tmp_path, monkeypatch):
    read, testzip = [], zipfile.ZipFile.testzip
    monkeypatch.setattr(
        zipfile.ZipFile, "testzip", lambda self: (read.append(self.filename), testzip(self))[1]
    )
    save(tmp_path, "epoch_1.pth", age=9)
    taken = save(tmp_path, "epoch_2.pth", age=5)
    cut(save(tmp_path, "epoch_3.pth", age=0))
    assert latest_checkpoint(tmp_path) == str(taken)
    assert read == [str(taken)]
