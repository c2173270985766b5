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
# Both tools begin with these imports; each goes on in a process of its own.
START = """
import os, runpy, sys
from mmengine.runner import Runner
from mmaction.registry import RUNNERS

count = sys.argv.index("--", 1)
for words in (sys.argv[1:count], sys.argv[count + 1 :]):
    child = os.fork()
    if not child:
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")
        sys.exit()
    if status := os.waitpid(child, 0)[1]:
        sys.exit(f"{words[0]} ended with {status}")
    print("ended", flush=True)
"""


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
    train = [TOOLS / "train.py", config, *options]
    test = [TOOLS / "test.py", config, tmp_path / "official.pyth"]
    process = run(sys.executable, "-c", START, *train, "--", *test)
    logs = process.communicate(timeout=600)[0]
    assert process.returncode == 0, logs
    *logs, rest = logs.split("ended\n")
    assert len(logs) == 2 and not rest
    assert all("converted 50 tensors of TimeSformer" in log for log in logs), logs
    trained = weights(tmp_path / "epoch_1.pth")
    assert all(torch.equal(value, trained[name]) for name, value in model.state_dict().items())
