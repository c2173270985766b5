"""Checkpoints of probes and LoRA, which hold what was trained, are read as whole ones."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from safetensors.torch import load_file, save_file

from mmvidformer.apis import Recognizer
from mmvidformer.checkpoints import load_checkpoint
from mmvidformer.errors import UserError

FILES = dict(linear="linear.pth", lora="epoch_2.pth")
LORA = ["--method", "lora", "--lora-rank", "1", "--lr", "1e-3", "--workers", "0"]


@pytest.fixture(scope="module")
def runs(main_of, own, pretrained, tmp_path_factory) -> Path:
    """The work dirs of a probe and of a LoRA, started from weights that are gone."""
    config, checkpoint, _ = pretrained
    folder = tmp_path_factory.mktemp("runs")
    weights = Path(shutil.copy(checkpoint, folder / "five.pth"))
    options = ["--config", config, "--data", own, "--weights", str(weights)]
    probe = ["--method", "linear", "--workers", "0", "--work-dir", str(folder / "linear")]
    main_of("finetune")([*options, *probe])
    main_of("finetune")([*options, *LORA, "--epochs", "2", "--work-dir", str(folder / "lora")])
    weights.unlink()
    return folder


@dataclass
class Trained:
    """A checkpoint, the file of its frozen weights, and the config of its run."""

    path: Path
    frozen: Path
    config: str


@pytest.fixture(params=FILES)
def trained(runs, request, tmp_path) -> Trained:
    """Copies of both files in a folder of their own."""
    work_dir, name = runs / request.param, FILES[request.param]
    (frozen,) = work_dir.glob("base_*.safetensors")
    copies = [Path(shutil.copy(path, tmp_path)) for path in (work_dir / name, frozen)]
    return Trained(*copies, str(work_dir / "finetune" / "config.py"))


def top1(test: Callable, config: str, checkpoint: Path, work_dir: Path) -> float:
    test([config, str(checkpoint), "--work-dir", str(work_dir)])
    return json.loads((work_dir / "test_1x1_score.json").read_text())["metrics"]["acc/top1"]


def test_predictions_are_those_of_the_weights_in_one_file(trained, own, main_of, test, tmp_path):
    assert trained.path.stat().st_size < trained.frozen.stat().st_size
    whole, video = tmp_path / "whole" / "whole.pth", f"{own}/val_0.mp4"
    main_of("convert")([str(trained.path), str(whole)])
    recognizers = [Recognizer(trained.config, str(x)) for x in (trained.path, whole)]
    scores = [recognizer(video).scores["class"] for recognizer in recognizers]
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)
    found = [top1(test, trained.config, x, tmp_path / x.stem) for x in (trained.path, whole)]
    assert found[0] == found[1]


def test_other_commands_read_both_files(trained, own, main_of, tmp_path, capsys) -> None:
    video, out = f"{own}/val_0.mp4", tmp_path / "out"
    both = [trained.config, str(trained.path)]
    assert main_of("demo")([*both, video]) == 0
    assert main_of("features")([*both, video, "--files", "--out", str(out)]) == 0
    assert main_of("export")([*both, "--out", str(tmp_path / "model.pt2")]) == 0
    assert [*out.glob("*.npy")] and (tmp_path / "model.pt2").is_file()
    trained.frozen.unlink()
    with pytest.raises(FileNotFoundError, match=f"put {trained.frozen.name} into {tmp_path}$"):
        main_of("demo")([*both, video])


@pytest.mark.parametrize("trained", ["lora"], indirect=True)
def test_training_starts_and_resumes_from_both_files(trained, own, main_of, train, tmp_path):
    """The new run writes its own file of frozen weights; those of the first start are in it."""
    start = load_file(trained.frozen)
    cfg = Config.fromfile(trained.config)
    cfg.merge_from_dict(dict(load_from=str(trained.path), train_cfg=dict(max_epochs=3)))
    folders = dict(started=tmp_path / "started", resumed=tmp_path / "resumed")
    for name, options in (("started", []), ("resumed", ["--resume", str(trained.path)])):
        cfg.work_dir = str(folders[name])
        cfg.dump(tmp_path / f"{name}.py")
        train([str(tmp_path / f"{name}.py"), *options])
    again = ["--config", trained.config, "--data", own, "--weights", str(trained.path), *LORA]
    main_of("finetune")([*again, "--epochs", "3", "--work-dir", str(tmp_path / "again")])
    for folder in (*folders.values(), tmp_path / "again"):
        state = load_checkpoint(folder / "epoch_3.pth").state
        assert all(torch.equal(state[name], value) for name, value in start.items())
        assert any(value.any() for name, value in state.items() if name.endswith("lora_b"))


def test_each_frozen_tensor_is_checked(trained) -> None:
    frozen = trained.frozen  # which is written over; older safetensors map its content
    state = {name: value.clone() for name, value in load_file(frozen).items()}
    for ending in ("embed.proj.weight", "embed.proj.bias", "norm.weight", "norm.bias", ".thw"):
        name = next(name for name in state if name.endswith(ending))
        other = state[name].clone()
        other.view(-1)[-1] += 1
        save_file(state | {name: other}, frozen)
        with pytest.raises(ValueError, match=f"{frozen.name} holds: 1 of {len(state)} .*{name}"):
            load_checkpoint(trained.path)
    save_file({name: value.double() for name, value in state.items()}, frozen)  # the same values
    load_checkpoint(trained.path)


@pytest.mark.parametrize("method", FILES)
def test_published_weights_are_named_and_not_copied(
    method, main_of, own, pretrained, web, table, tmp_path, test
) -> None:
    """Positions that were resized to longer clips are not the published ones, and are saved."""
    config, checkpoint, start = pretrained
    address = web.add("/five.pth", Path(checkpoint).read_bytes())
    table(dict(name="five", address=address, format="mmvidformer"))
    options = ["--config", config, "--data", own, "--weights", "published://five", "--workers", "0"]
    options += ["--method", method, "--work-dir", str(tmp_path / "run")]
    options += ["--epochs", "2", "--lora-rank", "1"] if method == "lora" else []
    longer = [f"{x}_dataloader.dataset.pipeline.1.clip_len=8" for x in ("train", "val", "test")]
    main_of("finetune")([*options, "--cfg-options", "model.backbone.clip_len=8", *longer])
    path = tmp_path / "run" / FILES[method]
    assert not [*path.parent.glob("base_*")]
    content = torch.load(path, weights_only=True)
    assert content["base"]["source"] == "published://five"
    backbone = {name for name in start if name.startswith("backbone.")}
    saved = backbone & content["state_dict"].keys()
    assert saved and all(".pos_embed." in name for name in saved)
    moved = Path(shutil.copy(path, tmp_path / "moved.pth"))  # alone
    state = load_checkpoint(moved).state
    assert all(torch.equal(state[name], start[name]) for name in backbone - saved)
    top1(test, str(path.parent / "finetune" / "config.py"), moved, tmp_path / "tested")


@pytest.mark.parametrize("trained", ["lora"], indirect=True)
def test_the_base_of_a_checkpoint_is_not_written_over(trained, main_of) -> None:
    before = trained.frozen.read_bytes()
    error = re.escape(f"would be written over {trained.frozen}, which is read")
    with pytest.raises(UserError, match=error):
        main_of("convert")([str(trained.path), str(trained.frozen), "--force"])
    assert trained.frozen.read_bytes() == before
