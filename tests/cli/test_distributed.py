"""Several processes against one, through the shell scripts, on CPU."""

import json
import os
import random
import socket
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import init_default_scope


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch) -> None:
    """MMEngine collects results in the current folder, which may be read-only."""
    monkeypatch.chdir(tmp_path)


def finish(*processes) -> None:
    for process in processes:
        log = process.communicate(timeout=600)[0]
        assert process.returncode == 0, log


def free_port() -> int:
    """A port below those that the system gives away until the run opens it, seconds later."""
    for port in random.Random().sample(range(20_000, 30_000), 100):
        with socket.socket() as one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port
    raise OSError("no free port")


@pytest.fixture(scope="module")
def start(make_config, tmp_path_factory) -> Path:
    """Weights that all runs start from, with logits that depend on the clip."""
    from mmaction.registry import MODELS

    init_default_scope("mmaction")
    torch.manual_seed(0)
    model = MODELS.build(Config.fromfile(make_config("start")).model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    path = tmp_path_factory.mktemp("start") / "start.pth"
    torch.save(dict(state_dict=model.state_dict()), path)
    return path


def whole_batch(processes: int) -> dict:
    return dict(batch_size=8 // processes)


# With a rate of 1 and no momentum the first step is the gradient.
ONE_STEP = dict(
    train_cfg=dict(max_epochs=1),
    optim_wrapper=dict(_delete_=True, optimizer=dict(type="SGD", lr=1.0), accumulative_counts=1),
    param_scheduler=None,
)


@pytest.mark.slow
def test_two_nodes_give_the_gradients_of_one_process(
    start, make_config, train, run, tools, weights, tmp_path
):
    changes = dict(load_from=str(start), **ONE_STEP)
    pair = make_config("pair", train_dataloader=whole_batch(2), **changes)
    port = free_port()
    nodes = [
        run(
            *(tools / "dist_train.sh", pair, 1, "--work-dir", tmp_path / "pair", "--seed", 0),
            **dict(NNODES=2, NODE_RANK=rank, PORT=port),
        )
        for rank in range(2)
    ]
    single = make_config("single", train_dataloader=whole_batch(1), **changes)
    train([str(single), "--work-dir", str(tmp_path / "single"), "--seed", "0"])
    finish(*nodes)

    before = weights(start)
    gradients = [
        {name: before[name] - after for name, after in weights(path).items()}
        for path in (tmp_path / "single" / "epoch_1.pth", tmp_path / "pair" / "epoch_1.pth")
    ]
    torch.testing.assert_close(gradients[1], gradients[0], rtol=0, atol=1e-5)
    assert max(gradient.abs().max() for gradient in gradients[0].values()) > 1e-2


@pytest.mark.gpu
def test_a_launched_process_on_a_gpu_gives_the_gradients_of_a_plain_one(
    start, make_config, run, tools, weights, tmp_path
):
    config = make_config("one", train_dataloader=whole_batch(1), load_from=str(start), **ONE_STEP)
    runs = {
        "plain": [],
        "nccl": ["--procs", 1],
        "fsdp": ["--procs", 1, "--strategy", "fsdp"],
        "bf16": ["--amp", "bf16"],
        "fp16": ["--amp", "fp16", "--cfg-options", "optim_wrapper.loss_scale=256.0"],
    }
    device = {"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0")}
    for name, options in runs.items():
        command = [sys.executable, tools / "train.py", config, "--work-dir", tmp_path / name]
        finish(run(*command, "--seed", 0, *options, **device))
    before = weights(start)
    moved = {
        name: torch.cat([(before[k] - v).flatten() for k, v in found.items()])
        for name in runs
        for found in [weights(tmp_path / name / "epoch_1.pth")]
    }
    norm = moved["plain"].norm()
    assert norm > 1e-2
    limits = {"nccl": 1e-3, "fsdp": 1e-3, "bf16": 5e-2, "fp16": 1e-2}
    gaps = {name: float((moved[name] - moved["plain"]).norm() / norm) for name in limits}
    assert all(gaps[name] < limit for name, limit in limits.items()), gaps


@pytest.mark.slow
@pytest.mark.skipif(torch.__version__ < "2.7", reason="FSDP of PyTorch 2.6 needs a GPU")
def test_sharded_training_resumes_and_equals_one_process(
    start, make_config, train, run, tools, weights, tmp_path
):
    from mmaction.registry import MODELS

    changes = dict(load_from=str(start), param_scheduler=None)
    sharded = make_config("sharded", train_dataloader=whole_batch(2), **changes)
    command = [tools / "dist_train.sh", sharded, 2, "--work-dir", tmp_path / "sharded"]
    command += ["--seed", 0, "--strategy", "fsdp"]
    first = run(*command, "--cfg-options", "train_cfg.max_epochs=1")
    single = make_config("whole", train_dataloader=whole_batch(1), **changes)
    train(
        [str(single), "--work-dir", str(tmp_path / "single"), "--seed", "0"]
        + ["--cfg-options", "train_cfg.max_epochs=2"]
    )
    finish(first)
    finish(run(*command, "--resume", "--cfg-options", "train_cfg.max_epochs=2"))

    reached = weights(tmp_path / "sharded" / "epoch_2.pth")
    expected = weights(tmp_path / "single" / "epoch_2.pth")
    torch.testing.assert_close(reached, expected, rtol=0, atol=1e-5)
    init_default_scope("mmaction")
    plain = MODELS.build(Config.fromfile(single).model)
    plain.load_state_dict(reached, strict=True)


@pytest.mark.slow
@pytest.mark.skipif(torch.__version__ < "2.7", reason="FSDP of PyTorch 2.6 needs a GPU")
@pytest.mark.parametrize(
    ("method", "added", "last"),
    [("lora", "lora_", "lora_b"), ("adapter", ".adapter.", "adapter.up_proj.weight")],
)
def test_what_is_added_by_two_processes_resumes_sharded(
    method, added, last, start, tiny_videos, make_config, run, tools, weights, tmp_path
):
    (tiny_videos.root / "classes.txt").write_text("red\ngreen\nblue\n")
    options = ["--config", make_config(method), "--data", tiny_videos.root, "--weights", start]
    options += ["--method", method, "--epochs", 2, "--workers", 0, "--work-dir", tmp_path / "whole"]
    finish(run(sys.executable, "-m", "mmvidformer", "finetune", *options, "--procs", 2))
    config = tmp_path / "whole" / "finetune" / "config.py"
    command = [sys.executable, tools / "train.py", config, "--procs", 2, "--strategy", "fsdp"]
    resumed = ["--resume", tmp_path / "whole" / "epoch_1.pth", "--work-dir", tmp_path / "rest"]
    finish(run(*command, *resumed))
    reached, expected = (weights(tmp_path / name / "epoch_2.pth") for name in ("rest", "whole"))
    torch.testing.assert_close(reached, expected, rtol=0, atol=1e-5)
    assert all(added in name or name.startswith("cls_head.") for name in expected)
    assert any(value.any() for name, value in expected.items() if name.endswith(last))


TRACKER = """
def note(*args, **kwargs):
    with open({file!r}, "a") as file:
        print(*map(str, args), *kwargs, file=file)

init = log = note
Image = len
finish = lambda: note("finish")
"""


@pytest.mark.slow
def test_two_processes_test_as_one(start, make_config, test, run, tools, tmp_path):
    """And one of them speaks to the tracker."""
    config, notes = make_config("tested"), tmp_path / "notes.txt"
    (tmp_path / "wandb.py").write_text(TRACKER.format(file=str(notes)))
    path = os.pathsep.join([str(Path(__file__).parents[2]), str(tmp_path)])
    words = [config, start, 2, "--work-dir", tmp_path / "pair", "--log", "wandb"]
    finish(run(tools / "dist_test.sh", *words, PYTHONPATH=path))
    test([str(config), str(start), "--work-dir", str(tmp_path / "single")])
    pair, single = (
        json.loads((tmp_path / name / "test_1x1_score.json").read_text())
        for name in ("pair", "single")
    )
    assert pair == single
    lines = notes.read_text().splitlines()
    assert sorted(line.split()[0] for line in lines[1:-1]) == [
        "{'confusion':",
        "{'errors':",
        "{'test/acc/top1':",
    ]
    assert lines[0].startswith("project config id") and lines[-1] == "finish"


@pytest.mark.slow
def test_a_wrong_setup_is_reported_once(tiny_videos, make_config, run, tools, tmp_path):
    """Launchers kill all processes when the first one ends."""
    wrong = tmp_path / "wrong.txt"
    wrong.write_text("train_0.mp4 9\n")
    config = make_config("wrong", train_dataloader=dict(dataset=dict(ann_file=str(wrong))))
    process = run(tools / "dist_train.sh", config, 2, "--work-dir", tmp_path / "work")
    printed = process.communicate(timeout=600)[0]
    assert process.returncode == 2
    assert printed.count("error: found before the start:\n- ") == 1
    assert printed.count("wrong.txt, line 1: label must be in 0 to 2") == 1
