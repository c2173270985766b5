"""Checkpoints in a bucket of an S3 server that makes faults, and runs that are killed."""

import io
import multiprocessing
import os
import re
from pathlib import Path

import pytest
import torch

from mmvidformer.engine.checkpointing.remote import find_last
from mmvidformer.engine.errors import describe, is_mistake
from mmvidformer.storage.errors import StorageError
from mmvidformer.storage.files import list_files, read_file
from tests.engine.toys import Stop, StopAt, toy_runner, validated


@pytest.fixture
def out(storage, tmp_path) -> str:
    """Address of checkpoints; they are in a folder with the name of the work dir."""
    return f"s3://bucket/{tmp_path.name}"


def assert_it_ends_as(whole, runner) -> None:
    """A run, or the rest of one, has seen the same numbers and learned the same."""
    seen = runner.model.seen
    assert seen == whole.model.seen[len(whole.model.seen) - len(seen) :]
    assert runner.iter == whole.iter
    torch.testing.assert_close(runner.model.factor, whole.model.factor, rtol=0, atol=0)


def resume(toy, out: str, folder: str = "other/cut", **options):
    """Go on with a run on another node, from the bucket alone."""
    checkpoint = dict(out_dir=out, **options)
    latest = find_last(toy(folder, checkpoint=checkpoint))
    changes = dict(load_from=latest, resume=True) if latest else {}
    runner = toy(folder, checkpoint=checkpoint, **changes)
    runner.train()
    return runner


@pytest.mark.parametrize("busy_for", ["", "PUT", "HEAD", "GET", "DELETE"])
def test_a_run_goes_on_from_the_bucket_alone(toy, storage, out, busy_for) -> None:
    """Two answers of 503 to one sort of request change nothing."""
    whole = toy("whole")
    whole.train()
    storage.methods = {busy_for}
    storage.faults.extend(["503"] * 2 if busy_for else [])
    cut = toy("cut", hooks=[StopAt(7)], checkpoint=dict(out_dir=out, max_keep_ckpts=1))
    with pytest.raises(Stop):
        cut.train()
    assert list_files(f"{out}/cut") == ["epoch_2.pth", "last_checkpoint"]
    rest = resume(toy, out, max_keep_ckpts=1)
    assert len(rest.model.seen) == 3
    assert_it_ends_as(whole, rest)
    assert list_files(f"{out}/cut") == ["epoch_3.pth", "last_checkpoint"]
    assert not storage.faults


def test_the_last_ones_and_the_best_are_kept(toy, out) -> None:
    validated(toy, checkpoint=dict(out_dir=out)).train()
    kept = ["best_acc_epoch_3.pth", "epoch_2.pth", "epoch_3.pth", "last_checkpoint"]
    assert list_files(f"{out}/run") == kept


@pytest.mark.parametrize("fails_at", range(1, 7))
def test_a_lasting_fault_ends_with_a_sentence_and_loses_nothing(
    toy, storage, out, fails_at: int
) -> None:
    """Three epochs write three checkpoints, each with a note that it is the last one."""
    whole = toy("whole")
    whole.train()
    storage.methods = {"PUT"}
    storage.faults.extend([""] * (fails_at - 1) + ["503"] * 3)
    cut = toy("cut", checkpoint=dict(out_dir=out, max_keep_ckpts=1))
    with pytest.raises(StorageError) as caught:
        cut.train()
    assert is_mistake(caught.value)  # is printed without a traceback
    name = "last_checkpoint" if fails_at % 2 == 0 else rf"epoch_{(fails_at + 1) // 2}\.pth"
    sentence = rf"{out}/cut/{name}: 3 tries failed, the last by .*"
    assert re.fullmatch(sentence, describe(caught.value))
    assert not storage.faults
    for file in list_files(f"{out}/cut"):
        if file.endswith(".pth"):
            torch.load(io.BytesIO(read_file(f"{out}/cut/{file}")), weights_only=True)
    latest = find_last(toy("cut", checkpoint=dict(out_dir=out)))
    saved = (fails_at - 1) // 2
    assert latest == (f"{out}/cut/epoch_{saved}.pth" if saved else None)
    assert_it_ends_as(whole, resume(toy, out, max_keep_ckpts=1))


def train_in_a_bucket(folder: Path, out: str, variables: dict[str, str]) -> None:
    """What a process does that is killed."""
    torch.set_num_threads(1)
    os.environ.update(variables)
    toy_runner(folder / "cut", "killed", checkpoint=dict(out_dir=out)).train()


@pytest.mark.slow  # the process imports all
def test_a_kill_within_an_upload_leaves_the_last_complete_checkpoint(
    toy, storage, out, tmp_path
) -> None:
    whole = toy("whole")
    whole.train()
    context = multiprocessing.get_context("forkserver")
    variables = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    arguments = (tmp_path, out, variables)
    process = context.Process(target=train_in_a_bucket, args=arguments, daemon=True)
    storage.stalls = "epoch_2.pth"
    process.start()
    assert storage.stalled.wait(300)
    process.kill()
    process.join()
    storage.stalls = ""
    assert list_files(f"{out}/cut") == ["epoch_1.pth", "last_checkpoint"]
    rest = resume(toy, out)
    assert len(rest.model.seen) == 6
    assert_it_ends_as(whole, rest)
