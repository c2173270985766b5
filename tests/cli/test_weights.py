"""Weights that do not fit the model, given to the tools and to other runners."""

import re
import shutil
import sys

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope
from mmengine.runner import Runner
from safetensors.torch import save_file

from mmvidformer.engine.checkpointing.settings import CannotContinue
from mmvidformer.engine.errors import run_tool
from mmvidformer.engine.loading import WrongWeights
from mmvidformer.registry import MODELS


@pytest.fixture(scope="module")
def state(make_config) -> dict:
    """Weights of the tiny model with five classes."""
    cfg = Config.fromfile(make_config("five", model=dict(cls_head=dict(num_classes=5))))
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope("mmaction"):
        return MODELS.build(cfg.model).state_dict()


@pytest.fixture
def other(state, tmp_path) -> dict[str, str]:
    """Files whose weights do not fit, by what is wrong with them."""
    deeper = {name.replace("blocks.1.", "blocks.2."): value for name, value in state.items()}
    torch.save({"state_dict": state}, tmp_path / "classes.pth")
    torch.save({"state_dict": deeper}, tmp_path / "deeper.pth")
    save_file({"vivit.encoder.layer.0.weight": torch.zeros(2)}, tmp_path / "foreign.safetensors")
    return {path.stem: str(path) for path in tmp_path.iterdir()}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("classes", r"2 of another shape \(cls_head.fc_cls.weight \(5, 16\) instead of \(3, 16\)"),
        (
            "deeper",
            r"\d+ missing \(backbone.*blocks.1.*, \.\.\.\); \d+ unexpected \(.*blocks.2",
        ),
        ("foreign", "1 unexpected .*; none of the model's names is in it"),
    ],
)
def test_testing_refuses_them(other, test, make_config, tmp_path, name, message, capsys):
    work_dir = tmp_path / "work"
    arguments = [str(make_config("tested")), other[name], "--work-dir", str(work_dir)]
    with pytest.raises(
        WrongWeights, match=f"{name}.* does not fit the model of the config: .*{message}"
    ):
        test(arguments)
    assert run_tool(lambda: test(arguments)) == 2
    assert "top-1" not in capsys.readouterr().out


def test_weights_from_an_address_are_refused_when_they_are_loaded(
    other, test, make_config, tmp_path, monkeypatch
):
    hub = (
        tmp_path / "hub" / "checkpoints" / "localhost"
    )  # a file that is there is not downloaded again
    hub.mkdir(parents=True)
    shutil.copy(other["deeper"], hub)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    address = "https://localhost/deeper.pth"
    config = make_config(
        "address", default_hooks=dict(preflight=dict(type="mmvidformer.PreflightHook"))
    )
    with pytest.raises(WrongWeights, match=f"{address} does not fit"):
        test([str(config), address, "--work-dir", str(tmp_path / "work")])
    assert not list((tmp_path / "work").glob("*.json"))


@pytest.mark.parametrize("ema", [False, True])
def test_training_starts_with_a_new_head_of_another_size(
    other, state, train, make_config, weights, tmp_path, ema
):
    hooks = [dict(type="EMAHook", momentum=0.5)] if ema else []
    changes = dict(load_from=other["classes"], train_cfg=dict(max_epochs=1), custom_hooks=hooks)
    changes["optim_wrapper"] = dict(optimizer=dict(lr=0.0, weight_decay=0.0))
    work_dir = tmp_path / "work"
    train([str(make_config("start", **changes)), "--work-dir", str(work_dir), "--no-validate"])
    trained = weights(work_dir / "epoch_1.pth")
    assert trained["cls_head.fc_cls.weight"].shape == (3, 16)
    for name in set(state) - {"cls_head.fc_cls.weight", "cls_head.fc_cls.bias"}:
        assert torch.equal(trained[name], state[name]), name
    (log,) = work_dir.glob("*/*.log")
    lines = [line for line in log.read_text().splitlines() if "keeps its initial weights" in line]
    assert len(lines) == 1 and "classes.pth: 2 of another shape (cls_head" in lines[0]
    assert "size mismatch" not in log.read_text()


def test_training_refuses_few_weights_and_resuming_a_part(other, train, make_config, tmp_path):
    options = ["--work-dir", str(tmp_path / "work")]
    few = make_config("few", load_from=other["foreign"])
    with pytest.raises(WrongWeights, match="foreign.safetensors does not fit"):
        train([str(few), *options])
    with pytest.raises(CannotContinue, match="cannot be resumed: it has no state of the optimizer"):
        five = make_config("part", model=dict(cls_head=dict(num_classes=5)))
        train([str(five), *options, "--resume", other["classes"]])


def test_without_preflight_nothing_is_compared(other, test, make_config, tmp_path):
    config = make_config("loose")
    options = [
        "--work-dir",
        str(tmp_path / "work"),
        "--cfg-options",
        "default_hooks.preflight=None",
    ]
    test([str(config), other["classes"], *options])
    assert (tmp_path / "work" / "test_1x1_score.json").is_file()


@pytest.mark.parametrize("resume", [False, True])
def test_the_hook_guards_runners_that_other_tools_build(other, make_config, tmp_path, resume):
    hook = dict(preflight=dict(type="mmvidformer.PreflightHook"))
    cfg = Config.fromfile(make_config("plain", default_hooks=hook, load_from=other["deeper"]))
    cfg.work_dir, cfg.resume = str(tmp_path / "work"), resume
    cfg.custom_hooks = [dict(type="EMAHook")]
    runner = Runner.from_cfg(cfg)
    with pytest.raises(WrongWeights, match="deeper.pth does not fit .*blocks.1"):
        runner.train() if resume else runner.test()


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("test", ["gone", "{pth}"], "no shipped config named 'gone'"),
        ("test", ["x/gone.py", "{pth}"], "x/gone.py does not exist, and no shipped config named"),
        (
            "test",
            ["{pth}", "{config}"],
            r"classes.pth is no config \(.py, .json, .yaml, .yml\); a checkpoint stands after its",
        ),
        ("test", ["{config}", "{config}"], "tiny.py must be an npz, .* or PyTorch file"),
        ("test", ["{config}", "gone.pth"], "there is no checkpoint gone.pth"),
        (
            "test",
            ["{config}", "{pth}", "--cfg-options", "model.x.9=1", "model.type.x=1"],
            "model.x.9",
        ),
        (
            "test",
            ["{config}", "{pth}", "--amp", "--cfg-options", "test_cfg=None"],
            "tiny.py has no test_cfg",
        ),
        (
            "train",
            ["{config}", "--cfg-options", "model.backbone.x=1"],
            "no argument of ViViT named 'x'",
        ),
        ("train", ["{config}", "--cfg-options", "optim_wrapper.optimizer.x=1"], "keyword .*'x'"),
        ("train", ["{config}", "--cfg-options", "model.backbone.init_from=gone.pth"], "gone.pth"),
        ("train", ["{config}", "--strategy", "fsdp"], "needs a launcher"),
        ("demo", ["{config}", "{pth}", "gone.mp4"], "gone.mp4"),
        ("demo", ["{config}", "{pth}", "{pth}"], "does not fit the model"),
        ("export", ["camera_motion", "--out", "a.onnx"], "needs onnx: pip install onnx"),
        ("export", ["{config}", "--out", "a.pt2"], "no published checkpoint named 'tiny'"),
        ("finetune", ["--config", "{config}", "--data", "gone"], r"folder gone does not exist"),
    ],
)
def test_a_mistake_ends_in_one_message_and_status_2(
    tool, arguments, message, other, main_of, make_config, tmp_path, monkeypatch, capsys
):
    for name in ("onnx", "onnxruntime", "onnxscript"):  # the extra is not installed
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MMVIDFORMER_DEBUG", raising=False)
    files = dict(config=make_config("tiny"), pth=other["classes"])
    arguments = [text.format(**files) for text in arguments]
    assert run_tool(lambda: main_of(tool)(arguments)) == 2
    printed = capsys.readouterr().err.strip()
    error = printed[printed.rindex("error: ") :]
    assert len(error.splitlines()) <= 3 and "Traceback" not in printed
    assert re.search(message, error), error


def test_resuming_names_damaged_checkpoints(train, make_config, tmp_path, capsys):
    (tmp_path / "epoch_1.pth").write_bytes(b"cut off")
    arguments = [str(make_config("damaged")), "--work-dir", str(tmp_path), "--resume"]
    assert run_tool(lambda: train(arguments)) == 2
    assert re.search(r"error: .*\(epoch_1.pth\); remove them\n$", capsys.readouterr().err)
