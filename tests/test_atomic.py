"""Files that are complete or not there."""

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mmvidformer.engine.checkpointing.hook import AtomicBackend
from mmvidformer.storage.atomic import write_atomically
from tests.full_disk import small_files

ROOT = Path(__file__).parents[1]


def test_it_writes_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.txt"
    for text in ("long text", "short"):
        AtomicBackend().put(text.encode(), path)
        assert path.read_text() == text
    assert os.listdir(path.parent) == ["a.txt"]
    plain = tmp_path / "plain"
    plain.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_a_writer_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("before")

    with pytest.raises(OSError, match="No space"), write_atomically(path) as part:
        part.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["a.txt"]


DYING = """
import os, signal, sys
from mmvidformer.storage.atomic import write_atomically

setattr(os, sys.argv[1], lambda *args: os.kill(os.getpid(), signal.SIGKILL))
with write_atomically(sys.argv[2]) as part:
    part.write_text("after")
"""


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_killed_writer_leaves_the_old_file(call: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("before")
    command = [sys.executable, "-c", DYING, call, str(path)]
    assert subprocess.run(command, cwd=ROOT).returncode == -signal.SIGKILL
    assert path.read_text() == "before"
    (left,) = tmp_path.glob(".*.part")
    left.unlink()
    assert os.listdir(tmp_path) == ["a.txt"]


def test_two_writers_of_one_file_have_names_of_their_own(tmp_path: Path) -> None:
    """Process ids are equal in two containers that share a folder."""
    path = tmp_path / "a.txt"
    with write_atomically(path) as first:
        first.write_text("first")
        with write_atomically(path) as second:
            second.write_text("second")
        assert path.read_text() == "second"
    assert path.read_text() == "first" and os.listdir(tmp_path) == ["a.txt"]


def test_a_full_disk_leaves_the_checkpoint_before(tmp_path: Path) -> None:
    path = tmp_path / "epoch_1.pth"
    with write_atomically(path) as part:
        torch.save(torch.ones(10), part)
    with small_files(), pytest.raises(OSError, match=r"too large: .*epoch_1\.pth"):
        AtomicBackend().put(bytes(100_000), path)
    assert torch.equal(torch.load(path, weights_only=True), torch.ones(10))
    assert os.listdir(tmp_path) == ["epoch_1.pth"]
