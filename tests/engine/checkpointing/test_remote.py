"""Checkpoints in object storage, here fsspec's in memory."""

import fsspec
import pytest
import torch
from mmengine.fileio import FileClient
from mmengine.fileio.backends.registry_utils import prefix_to_backends

from mmvidformer.engine.checkpointing.hook import AtomicBackend
from mmvidformer.engine.checkpointing.remote import find_last
from mmvidformer.engine.checkpointing.resume import latest_checkpoint
from mmvidformer.storage import files
from mmvidformer.storage.errors import StorageError
from tests.engine.toys import Stop, StopAt

FOLDER = "memory://bucket/runs"


@pytest.fixture(autouse=True)
def memory(monkeypatch, tmp_path):
    """A file system in memory, which is empty, and a cache of its own."""
    monkeypatch.setenv("MMVIDFORMER_CACHE", str(tmp_path / "cache"))
    system = fsspec.filesystem("memory")
    system.store.clear()
    files._file_system.cache_clear()
    yield system
    system.store.clear()


def names(system) -> list[str]:
    return [path.rpartition("/")[2] for path in sorted(system.find("/bucket/runs/cut"))]


@pytest.mark.parametrize("keep", [-1, 1])
def test_a_run_goes_on_from_storage_alone(toy, tmp_path, memory, keep) -> None:
    """On another node, whose work dir is empty."""
    every = dict(by_epoch=False, interval=1, max_keep_ckpts=keep)
    remote = dict(every, out_dir=FOLDER)
    whole = toy("whole", checkpoint=every)
    whole.train()
    cut = toy("cut", hooks=[StopAt(5)], checkpoint=remote)
    assert find_last(cut) is None
    with pytest.raises(Stop):
        cut.train()
    assert not [*(tmp_path / "cut").glob("*.pth")]
    kept = [1, 2, 3, 4, 5] if keep == -1 else [5]
    assert names(memory) == [*(f"iter_{step}.pth" for step in kept), "last_checkpoint"]
    other = toy("other/cut", checkpoint=remote)
    latest = find_last(other)
    assert latest == f"{FOLDER}/cut/iter_5.pth"
    other = toy("other/cut", checkpoint=remote, load_from=latest, resume=True)
    other.train()
    assert cut.model.seen + other.model.seen == whole.model.seen
    torch.testing.assert_close(other.model.factor, whole.model.factor, rtol=0, atol=0)
    assert find_last(toy("third/cut", checkpoint=remote)) == f"{FOLDER}/cut/iter_9.pth"


def test_a_copied_folder_resumes_from_its_own(toy, memory) -> None:
    toy("cut", checkpoint=dict(out_dir=FOLDER)).train()
    memory.copy("/bucket/runs", "/bucket/copy", recursive=True)
    copied = FOLDER.replace("runs", "copy")
    assert find_last(toy("cut", checkpoint=dict(out_dir=copied))) == f"{copied}/cut/epoch_3.pth"


def test_a_note_in_the_work_dir_is_enough(toy, memory) -> None:
    """As of checkpoints in another folder: a command may be repeated without ``out_dir``."""
    runner = toy("cut", checkpoint=dict(out_dir=FOLDER))
    runner.train()
    assert latest_checkpoint(runner.work_dir) == f"{FOLDER}/cut/epoch_3.pth"
    memory.rm("/bucket/runs/cut/epoch_3.pth")
    assert latest_checkpoint(runner.work_dir) is None


def test_clients_of_mmengine_stay(toy, memory) -> None:
    before = dict(prefix_to_backends)
    toy("cut", checkpoint=dict(out_dir=FOLDER)).train()
    assert prefix_to_backends == {**before, "": AtomicBackend}
    with pytest.raises(ValueError, match="prefix memory is not supported"):
        FileClient(prefix="memory")


def test_a_run_that_is_stopped_saves_there(toy, memory) -> None:
    runner = toy("cut", hooks=[StopAt(4)], checkpoint=dict(out_dir=FOLDER))
    with pytest.raises(Stop):
        runner.train()
    (hook,) = (hook for hook in runner.hooks if hasattr(hook, "save_now"))
    assert hook.save_now(runner, 4) == f"{FOLDER}/cut/interrupted.pth"
    assert find_last(toy("cut", checkpoint=dict(out_dir=FOLDER))).endswith("interrupted.pth")


def test_storage_that_does_not_answer_ends_the_run(toy, memory, monkeypatch) -> None:
    def fail(*arguments, **options):
        raise OSError("it is away")

    monkeypatch.setattr(type(memory), "pipe_file", fail)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with pytest.raises(StorageError, match=r"epoch_1\.pth: 3 tries failed, the last by OSError"):
        toy("cut", checkpoint=dict(out_dir=FOLDER)).train()
