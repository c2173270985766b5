"""MMAction2's own tools run configs with the shipped runtime by the config alone."""

import sys
from pathlib import Path

import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope
from mmengine.utils import get_installed_path

from mmvidformer.checkpoints.video_models import to_other
from mmvidformer.config.shipped import config_folder
from mmvidformer.registry import MODELS

TOOLS = Path(get_installed_path("mmaction"), ".mim", "tools")


def test_they_train_and_test_with_converted_weights(make_config, run, weights, tmp_path) -> None:
    sizes = dict(arch=dict(embed_dims=16, depth=2, num_heads=2), img_size=32, clip_len=4)
    backbone = dict(_delete_=True, type="mmvidformer.TimeSformer", **sizes)
    runtime = Config.fromfile(config_folder() / "_base_" / "default_runtime.py")
    parts = {name: runtime[name] for name in ("custom_imports", "default_hooks")}
    config = make_config("theirs", **{"model.backbone": backbone}, **parts)
    with DefaultScope.overwrite_default_scope("mmaction"):
        model = MODELS.build(Config.fromfile(config).model)
    state = to_other(model.state_dict(), "divided_space_time", "official")
    torch.save({"model_state": state, "epoch": 14}, tmp_path / "official.pyth")

    options = ["--work-dir", tmp_path, "--cfg-options", "optim_wrapper.optimizer.lr=0"]
    options += [f"load_from={tmp_path / 'official.pyth'}", "train_cfg.max_epochs=1"]
    processes = {
        "train": run(sys.executable, TOOLS / "train.py", config, *options),
        "test": run(sys.executable, TOOLS / "test.py", config, tmp_path / "official.pyth"),
    }
    for name, process in processes.items():
        log = process.communicate(timeout=600)[0]
        assert process.returncode == 0 and "converted 50 tensors of TimeSformer" in log, name + log
    trained = weights(tmp_path / "epoch_1.pth")
    assert all(torch.equal(value, trained[name]) for name, value in model.state_dict().items())
