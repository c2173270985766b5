"""Missing files are named before anything is built."""

import multiprocessing
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from mmengine.config import Config

from mmvidformer.checkpoints.reading import UnreadableCheckpoint
from mmvidformer.engine.checkpointing.settings import CannotContinue
from mmvidformer.engine.inputs import check_apart, check_inputs, check_unused
from mmvidformer.errors import UserError


@pytest.fixture
def cfg(tmp_path, monkeypatch) -> Config:
    monkeypatch.chdir(tmp_path)
    for name in ("train.txt", "val.txt", "names.txt"):
        Path(name).touch()
    leaf = dict(ann_file="train.txt", metainfo=dict(classes="names.txt"))
    wrapped = dict(type="RepeatDataset", dataset=leaf)
    test = dict(ann_file="test.txt", data_root="elsewhere")
    loaders = [dict(dataset=dataset) for dataset in (wrapped, dict(ann_file="val.txt"), test)]
    names = ("train_dataloader", "val_dataloader", "test_dataloader")
    return Config(dict(zip(names, loaders, strict=True)))


def test_what_is_there_or_elsewhere_passes(cfg) -> None:
    check_inputs(cfg, ["train", "val"])
    cfg.train_dataloader.dataset.dataset.ann_file = "s3://bucket/train.txt"
    cfg.train_dataloader.dataset.dataset.metainfo = dict(classes="labels://kinetics400")
    cfg.val_dataloader = None
    cfg.load_from = "hf://org/name"
    check_inputs(cfg, ["train", "val"], "auto")


@pytest.mark.parametrize(
    ("missing", "splits", "reason"),
    [
        ("train.txt", ["train"], r"no file train.txt \(ann_file of train_dataloader\)$"),
        ("names.txt", ["train"], r"no file names.txt \(metainfo.classes of train_dataloader\)$"),
        ("", ["test"], r"no file elsewhere/test.txt \(ann_file of test_dataloader\)$"),
    ],
)
def test_a_missing_file_is_named(cfg, missing, splits, reason) -> None:
    if missing:
        Path(missing).unlink()
    with pytest.raises(FileNotFoundError, match=reason):
        check_inputs(cfg, splits)


@pytest.mark.parametrize(
    ("folder", "command"),
    [
        ("data/motion", "python -m lab generate data/motion$"),
        ("data/motion_cues", "python -m lab generate data/motion_cues --preset cues$"),
        ("data/camera", "python -m lab generate data/camera --preset camera$"),
        ("data/sthv2", r"\(ann_file of val_dataloader\)$"),
    ],
)
def test_the_command_that_makes_it_is_named(cfg, folder, command) -> None:
    cfg.val_dataloader.dataset.ann_file = f"{folder}/val.txt"
    with pytest.raises(FileNotFoundError, match=command):
        check_inputs(cfg, ["val"])


def test_the_package_of_a_dataset_is_named(cfg) -> None:
    cfg.train_dataloader.dataset.dataset.type = "no_such_package.clips.Drawn"
    with pytest.raises(UserError, match="Drawn needs the package no_such_package, which is not in"):
        check_inputs(cfg, ["train"])
    cfg.train_dataloader.dataset.dataset.type = "no_such_scope.Drawn"  # the registry says so
    check_inputs(cfg, ["train"])


def test_a_missing_checkpoint_is_named(cfg) -> None:
    with pytest.raises(FileNotFoundError, match=r"no checkpoint epoch_3.pth"):
        check_inputs(cfg, [], "epoch_3.pth")
    cfg.load_from = "start.pth"
    with pytest.raises(FileNotFoundError, match=r"no checkpoint start.pth"):
        check_inputs(cfg, [])


def test_a_checkpoint_to_resume_from_is_whole_and_has_a_state(cfg) -> None:
    state = dict(message_hub={}, optimizer={}, meta=dict(epoch=1, iter=3))
    torch.save(state, "whole.pth")
    check_inputs(cfg, [], "whole.pth")
    torch.save({"weight": torch.ones(3)}, "weights.pth")
    with pytest.raises(CannotContinue, match="weights.pth cannot be resumed"):
        check_inputs(cfg, [], "weights.pth")
    content = Path("whole.pth").read_bytes()
    Path("half.pth").write_bytes(content[: len(content) // 2])
    with pytest.raises(UnreadableCheckpoint, match="half.pth is damaged"):
        check_inputs(cfg, [], "half.pth")


def test_the_checkpoint_of_a_start_is_not_written_over(cfg, tmp_path) -> None:
    names = ("epoch_3.pth", "iter_7.pth", "best_acc_top1_epoch_1.pth", "interrupted.pth")
    for name in (*names, "start.pth"):
        Path(name).touch()
    Path("other").mkdir()
    for name in names:
        with pytest.raises(ValueError, match=f"would write over {name}, from which it starts"):
            check_apart(name, tmp_path)
        check_apart(name, "other")
    check_apart("start.pth", tmp_path)
    check_apart(None, tmp_path)
    check_apart("published://vivit_fe_k400", tmp_path)


@pytest.mark.parametrize("name", ["epoch_3.pth", "best_acc_top1_epoch_1.pth", "interrupted.pth"])
def test_a_run_in_the_folder_of_another_is_told_what_to_add(tmp_path, name) -> None:
    """Also the same run again, after it was interrupted."""
    folder = tmp_path / "used"
    check_unused(folder)
    folder.mkdir()
    (folder / "finetune_start.pth").touch()
    check_unused(folder)
    (folder / name).touch()
    with pytest.raises(FileExistsError, match=f"{name} is of an earlier run: --resume .* --force"):
        check_unused(folder)


def look_for_lab() -> None:
    """Hide the clone of this process, and find its lab nevertheless."""
    clone = Path(__file__).parents[2]
    sys.path[:] = [place for place in sys.path if Path(place).resolve() != clone]
    for name in [name for name in sys.modules if name.partition(".")[0] == "lab"]:
        del sys.modules[name]
    assert find_spec("lab") is None
    dataset = dict(type="lab.synthetic.camera.dataset.CameraMotionDataset")
    check_inputs(Config(dict(train_dataloader=dict(dataset=dataset))), ["train"])
    assert find_spec("lab") is not None


def test_lab_of_a_clone_is_found_by_an_installed_command() -> None:
    """Such a command has neither the clone nor the current folder on its path."""
    process = multiprocessing.get_context("forkserver").Process(target=look_for_lab)
    process.start()
    process.join(600)
    assert process.exitcode == 0
