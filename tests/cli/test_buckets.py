"""Commands whose results go to a bucket."""

import json
import time

import numpy as np
import pytest
import torch

from mmvidformer.checkpoints import load_checkpoint
from mmvidformer.checkpoints.download import fetch
from mmvidformer.storage.files import list_files, read_file
from mmvidformer.tasks.transforms import LoadFeatures
from mmvidformer.video.errors import BadVideo


@pytest.fixture
def out(storage, tmp_path) -> str:
    return f"s3://bucket/{tmp_path.name}"


def test_checkpoints_and_logs_of_a_run(make_config, train, out, tmp_path) -> None:
    """It goes on where neither is on the disk."""
    hooks = dict(checkpoint=dict(type="mmvidformer.AtomicCheckpointHook", save_best=None))
    config = str(make_config("bucket", default_hooks=hooks))
    hooks = [f"default_hooks.{name}.out_dir={out}" for name in ("checkpoint", "logger")]
    for node, epochs in (("a", 2), ("b", 3)):
        time.sleep(1 - time.time() % 1)  # MMEngine names the logs of a run by the second
        work_dir = tmp_path / node / "run"
        changes = ["--cfg-options", f"train_cfg.max_epochs={epochs}", *hooks]
        train([config, "--work-dir", str(work_dir), "--no-validate", "--resume", *changes])
        assert not list(work_dir.rglob("*.pth"))
    names = list_files(f"{out}/run")
    checkpoints = [name for name in names if name.endswith(".pth")]
    assert checkpoints == ["epoch_1.pth", "epoch_2.pth", "epoch_3.pth"]
    logs = [read_file(f"{out}/run/{name}").decode() for name in names if name.endswith(".log")]
    assert len(logs) == 2 and "resumed epoch: 2" in "".join(logs)


def test_fine_tuning_names_its_best_checkpoint(main_of, own, pretrained, out, tmp_path, capsys):
    """Low-rank updates, as there are few videos; the frozen weights are with them."""
    work_dir = tmp_path / "run"
    options = ["--config", pretrained[0], "--data", own, "--weights", pretrained[1]]
    options += ["--work-dir", str(work_dir), "--epochs", "1", "--batch", "4", "--workers", "0"]
    changes = ["--cfg-options", f"default_hooks.checkpoint.out_dir={out}"]
    assert main_of("finetune")([*options, *changes]) == 0
    best = f"{out}/run/best_acc_top1_epoch_1.pth"
    assert f"demo {work_dir}/finetune/config.py {best} VIDEO" in capsys.readouterr().out
    assert json.loads((work_dir / "finetune" / "result.json").read_text())["checkpoint"] == best
    state = load_checkpoint(fetch(best)).state
    assert any("lora_" in name for name in state)
    for name, value in pretrained[2].items():
        if name.startswith("backbone."):
            torch.testing.assert_close(state[name], value, rtol=0, atol=0)


def test_a_work_dir_is_a_folder(main_of, make_config, own) -> None:
    config, folder = str(make_config("plain")), ["--work-dir", "s3://bucket/run"]
    hint = "must be a local folder, got s3://bucket/run; .* default_hooks.checkpoint.out_dir=s3://"
    for command, words in {
        "train": [config],
        "test": [config, config],
        "finetune": ["--config", config, "--data", own],
        "pretrain": ["--config", config, "--data", own],
        "lab.paper": ["show", "vivit", "table2"],
    }.items():
        with pytest.raises(ValueError, match=hint):
            main_of(command)([*words, *folder])


@pytest.mark.parametrize("words", [["s3://b/a.txt"], ["a.txt", "--root", "s3://b"]])
def test_videos_that_are_not_read_are_not_called_bad(main_of, capsys, words) -> None:
    with pytest.raises(SystemExit):
        main_of("data.check")(words)
    assert "local files are checked, got s3://b" in capsys.readouterr().err


def test_labels(main_of, model, folder, out, tmp_path, capsys) -> None:
    """Those that are there are not answered again."""
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    command = [*model, str(folder), "--part", "1", "--out"]
    assert main_of("label")([*command, str(tmp_path / "labels")]) == 1
    for said in ("2 answered, 0 answered before", "0 answered, 2 answered before"):
        capsys.readouterr()
        assert main_of("label")([*command, out]) == 1
        printed = capsys.readouterr().out
        assert said in printed and f"reasons: {out}/_failed.csv" in printed
    names = sorted(path.name for path in (tmp_path / "labels").iterdir())
    assert list_files(out) == names and len(names) == 5
    for name in names[2:]:
        (tmp_path / name).write_bytes(read_file(f"{out}/{name}"))
        assert parquet.read_table(tmp_path / name) == parquet.read_table(tmp_path / "labels" / name)
    with pytest.raises(FileExistsError, match="has results of other settings: .*window"):
        main_of("label")([*command, out, "--window", "1"])


def test_features_are_read_from_there_too(main_of, model, tiny_videos, out, tmp_path) -> None:
    listed = tiny_videos.root / "two.txt"
    listed.write_text("val_0.mp4 0\nval_1.mp4 1\n")
    command = [*model, str(listed), "--files", "--every", "4", "--out"]
    for target in (out, str(tmp_path / "local")):
        assert main_of("features")([*command, target]) == 0
    for folder in (out, str(tmp_path / "local")):
        found = LoadFeatures()({"filename": f"{folder}/val_1.mp4.npz"})
        assert found["imgs"].shape == (1, 5, 1, 1, 16)
    local, remote = (
        LoadFeatures()({"filename": f"{folder}/val_1.mp4.npz"})["imgs"]
        for folder in (tmp_path / "local", out)
    )
    np.testing.assert_array_equal(local, remote)
    with pytest.raises(BadVideo, match=r"gone\.npz: does not exist"):
        LoadFeatures()({"filename": f"{out}/gone.npz"})
