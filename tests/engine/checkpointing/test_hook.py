"""Checkpoints: what is on the disk at each moment, and resuming from them."""

import errno
import os
import shutil
from pathlib import Path

import pytest
import torch

from mmvidformer.engine.checkpointing.hook import AtomicBackend
from mmvidformer.engine.checkpointing.resume import best_checkpoint, latest_checkpoint
from tests.engine.toys import Rising, Stop, StopAt, validated


def content(path: Path) -> dict:
    return torch.load(path, weights_only=True)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*.pth")}


def numbers(runner) -> list:
    return runner.model.seen


@pytest.mark.parametrize("stop", range(1, 9))
def test_a_resumed_run_equals_an_undisturbed_one(toy, tmp_path, stop: int) -> None:
    """Any step of 3 epochs of 3; the seed of the resumed run is another."""
    whole = toy("whole")
    whole.train()
    every = dict(by_epoch=False, interval=1)
    cut = toy("cut", hooks=[StopAt(stop)], checkpoint=every)
    with pytest.raises(Stop):
        cut.train()
    latest = latest_checkpoint(cut.work_dir)
    assert Path(latest).name == f"iter_{stop}.pth"
    rest = toy("cut", checkpoint=every, load_from=latest, resume=True, randomness=dict(seed=7))
    rest.train()
    assert numbers(cut) + numbers(rest) == numbers(whole)
    assert rest.iter == 9
    torch.testing.assert_close(rest.model.factor, whole.model.factor, rtol=0, atol=0)
    rates = [runner.optim_wrapper.get_lr()["lr"] for runner in (rest, whole)]
    assert rates[0] == rates[1]


def test_a_run_that_starts_anew_in_a_used_folder_resumes_its_own(toy) -> None:
    """Also after it was resumed; the clock of a resumed run does not count."""
    toy("used").train()
    with pytest.raises(Stop):
        toy("used", hooks=[StopAt(4)]).train()
    first = latest_checkpoint(toy("used").work_dir)
    assert Path(first).name == "epoch_1.pth"
    with pytest.raises(Stop):
        toy("used", hooks=[StopAt(8)], load_from=first, resume=True).train()
    second = latest_checkpoint(toy("used").work_dir)
    assert Path(second).name == "epoch_2.pth"
    assert content(second)["meta"]["started"] == content(first)["meta"]["started"]


def test_an_epoch_of_another_length_restarts(toy) -> None:
    cut = toy("cut", hooks=[StopAt(5)], checkpoint=dict(by_epoch=False, interval=1))
    with pytest.raises(Stop):
        cut.train()
    latest = latest_checkpoint(cut.work_dir)
    rest = toy("cut", load_from=latest, resume=True, batch_size=6)
    rest.train()
    assert rest.iter == 6  # of 3 epochs of 2 steps, the last 2 epochs were made
    assert [len(batch) for batch in numbers(rest)] == [6] * 4


def test_a_resumed_run_without_steps_left_notes_its_checkpoint(toy) -> None:
    """It was killed after its last checkpoint was written and before it was noted."""
    whole = toy("whole")
    whole.train()
    folder = Path(whole.work_dir)
    (folder / "last_checkpoint").write_text(str(folder / "epoch_2.pth"))
    toy("whole", load_from=str(folder / "epoch_3.pth"), resume=True).train()
    assert (folder / "last_checkpoint").read_text() == str(folder / "epoch_3.pth")


def test_the_last_ones_and_the_best_are_kept(toy) -> None:
    runner = validated(toy)
    runner.train()
    folder = Path(runner.work_dir)
    assert names(folder) == {"epoch_2.pth", "epoch_3.pth", "best_acc_epoch_3.pth"}
    assert (folder / "last_checkpoint").read_text() == str(folder / "epoch_3.pth")
    kept = content(folder / "epoch_3.pth")["message_hub"]["runtime_info"]
    assert kept["keep_ckpt_ids"] == [2, 3]
    assert kept["best_ckpt"] == str(folder / "best_acc_epoch_3.pth")


def test_of_equally_good_checkpoints_the_last_is_the_best(toy, monkeypatch) -> None:
    monkeypatch.setattr(Rising, "compute_metrics", lambda self, results: {"acc": 0.5})
    runner = validated(toy)
    runner.train()
    assert {"best_acc_epoch_3.pth"} == {x for x in names(Path(runner.work_dir)) if "best" in x}


@pytest.mark.parametrize("others", [{}, {"mae": 1.0}], ids=["nothing", "another result"])
def test_a_result_that_is_not_defined_ends_no_run(toy, monkeypatch, others: dict) -> None:
    """Such as R^2 of one readable video; the checkpoint of that epoch cannot be the best."""
    values = [{"acc": 0.5}, others, {"acc": 0.3}]
    monkeypatch.setattr(Rising, "compute_metrics", lambda self, results: values.pop(0))
    runner = validated(toy)
    runner.train()
    assert names(Path(runner.work_dir)) == {"epoch_2.pth", "epoch_3.pth", "best_acc_epoch_1.pth"}


@pytest.mark.parametrize("fails_at", range(1, 10))
def test_a_full_disk_at_any_write_leaves_what_was_there(toy, monkeypatch, fails_at: int) -> None:
    """Three epochs write three files and three notes, and the best and the last again."""
    put, count = AtomicBackend.put, iter(range(1, 100))

    def full(self, obj, filepath) -> None:
        if next(count) >= fails_at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(filepath))
        put(self, obj, filepath)

    monkeypatch.setattr(AtomicBackend, "put", full)
    runner = validated(toy)
    with pytest.raises(OSError, match="No space left"):
        runner.train()
    folder = Path(runner.work_dir)
    for path in folder.glob("*.pth"):
        content(path)  # each is complete
    if fails_at > 1:
        assert content(Path(latest_checkpoint(folder)))["meta"]["epoch"] >= (fails_at - 1) // 5
        monkeypatch.setattr(AtomicBackend, "put", put)
        rest = validated(toy, load_from=latest_checkpoint(folder), resume=True)
        rest.train()
        assert rest.iter == 9
    if fails_at > 3:
        assert list(folder.glob("best_acc_*.pth"))


def test_what_a_killed_writer_left_is_removed(toy, tmp_path) -> None:
    (tmp_path / "run").mkdir()
    old, new = (tmp_path / "run" / f".epoch_1.pth.{x}.part" for x in ("x7y", "a3b"))
    old.write_bytes(b"half")
    os.utime(old, (1000, 1000))
    new.write_bytes(b"another run writes it")
    toy().train()
    assert list((tmp_path / "run").glob(".*.part")) == [new]


def test_averaged_weights_are_saved_and_resumed(toy) -> None:
    ema = dict(type="EMAHook", momentum=0.5)
    whole = toy("whole", hooks=[ema])
    whole.train()
    every = dict(by_epoch=False, interval=1)
    cut = toy("cut", hooks=[dict(ema), StopAt(4)], checkpoint=every)
    with pytest.raises(Stop):
        cut.train()
    latest = latest_checkpoint(cut.work_dir)
    rest = toy("cut", hooks=[dict(ema)], checkpoint=every, load_from=latest, resume=True)
    rest.train()
    ends = [content(Path(r.work_dir) / n) for r, n in ((whole, "epoch_3"), (rest, "iter_9"))
            for n in (f"{n}.pth",)]  # fmt: skip
    torch.testing.assert_close(ends[1]["state_dict"], ends[0]["state_dict"], rtol=0, atol=0)
    moved = abs(ends[0]["state_dict"]["factor"] - ends[0]["ema_state_dict"]["module.factor"])
    assert moved > 1e-6


def go_on(toy, folder: str, checkpoint: Path, **changes) -> Path:
    """Train one epoch more than the three of a run."""
    loop = dict(type="mmvidformer.ResumableTrainLoop", max_epochs=4)
    runner = validated(toy, folder=folder, load_from=str(checkpoint), resume=True,
                       train_cfg=loop, **changes)  # fmt: skip
    runner.train()
    return Path(runner.work_dir)


def test_resuming_in_another_folder_leaves_the_first_one_alone(toy) -> None:
    """It keeps the last two, and the best, of both folders."""
    first = Path(validated(toy).work_dir)
    validated(toy).train()
    before = names(first)
    second = go_on(toy, "second", first / "epoch_3.pth")
    assert names(first) == before
    assert names(second) == {"epoch_4.pth", "best_acc_epoch_4.pth"}


def test_a_copy_of_a_run_deletes_its_own_files_only(toy, tmp_path) -> None:
    first = Path(validated(toy).work_dir)
    validated(toy).train()
    before = names(first)
    shutil.copytree(first, tmp_path / "copy")
    copy = go_on(toy, "copy", tmp_path / "copy" / "epoch_3.pth")
    assert names(first) == before
    assert names(copy) == {"epoch_3.pth", "epoch_4.pth", "best_acc_epoch_4.pth"}
    assert best_checkpoint(copy) == str(copy / "best_acc_epoch_4.pth")


@pytest.mark.parametrize("placed", [False, True], ids=["from another folder", "copied into it"])
def test_files_of_another_run_in_the_folder_stay(toy, placed: bool) -> None:
    """Both runs have files of the same names."""
    first, other = (validated(toy, folder=name) for name in ("first", "other"))
    first.train()
    other.train()
    checkpoint, folder = Path(first.work_dir, "epoch_3.pth"), Path(other.work_dir)
    (folder / "epoch_2.pth").rename(folder / "interrupted.pth")
    before = {path: path.read_bytes() for path in folder.glob("*.pth")}
    if placed:
        checkpoint = checkpoint.rename(folder / "epoch_1.pth")
    go_on(toy, "other", checkpoint)
    assert {path: path.read_bytes() for path in before} == before


def test_the_best_one_of_another_folder_does_not_count(toy, monkeypatch) -> None:
    """Otherwise no checkpoint of the new folder might be its best."""
    first = validated(toy, folder="first")
    first.train()
    monkeypatch.setattr(Rising, "compute_metrics", lambda self, results: {"acc": 0.0})
    second = go_on(toy, "second", Path(first.work_dir, "epoch_3.pth"))
    assert names(second) == {"epoch_4.pth", "best_acc_epoch_4.pth"}


def test_starting_again_in_a_used_folder_is_said_and_keeps_what_was_interrupted(toy) -> None:
    folder = Path(validated(toy).work_dir)
    validated(toy).train()
    (folder / "epoch_3.pth").rename(folder / "interrupted.pth")
    again = validated(toy, train_cfg=dict(type="mmvidformer.ResumableTrainLoop", max_epochs=1))
    said = []
    again.logger.warning = said.append
    again.train()
    assert "interrupted.pth" in names(folder)
    assert said == [
        f"{folder} has checkpoints of an earlier run: new ones replace those of the same name"
    ]
