"""All that is wrong is listed, by the tools and by the hook of other runs."""

import logging
import sys
from types import SimpleNamespace

import pytest
import torch
from mmengine.config import Config
from mmengine.runner import EpochBasedTrainLoop

from mmvidformer.engine.loading import WrongWeights
from mmvidformer.engine.preflight import WrongSetup, check_run
from mmvidformer.engine.preflight.hook import PreflightHook
from tests.engine.preflight.setups import config, error


def test_wrapped_datasets_are_checked(tmp_path):
    cfg = config(tmp_path, "a.mp4 9\n")
    inner = cfg.train_dataloader.dataset
    cfg.train_dataloader.dataset = dict(type="RepeatDataset", times=2, dataset=inner)
    assert "label must be in 0 to 1" in error(cfg)


def test_all_errors_are_listed_with_a_hint(tmp_path):
    cfg = config(tmp_path, "a.mp4 9\nx.mp4 0\n")
    with pytest.raises(WrongSetup) as caught:
        check_run(cfg, ("train",), "--no-preflight skips the checks")
    lines = str(caught.value).splitlines()
    assert lines[0] == "2 problems found before the start"
    assert [line[:2] for line in lines[1:3]] == ["- ", "- "]
    assert lines[3] == "--no-preflight skips the checks"


def runner(cfg: Config, training: bool = True, resume: bool = False) -> SimpleNamespace:
    """What the hook needs of a runner."""
    loop = (
        EpochBasedTrainLoop.__new__(EpochBasedTrainLoop)
        if training
        else dict(type="EpochBasedTrainLoop")
    )
    return SimpleNamespace(
        cfg=cfg, _train_loop=loop, _resume=resume, _load_from="a.pth", logger=logging.getLogger("x")
    )


def test_the_hook_checks_the_data_of_each_loop(tmp_path, caplog):
    cfg = config(tmp_path, "a.mp4 0\na.mp4 0\n")
    other = tmp_path / "test"
    other.mkdir()
    cfg.test_dataloader = config(other, "a.mp4 9\n").train_dataloader
    PreflightHook().before_train(runner(cfg))
    assert "line 2: " in caplog.text and "with the same label" in caplog.text
    with pytest.raises(WrongSetup, match="got 9.*\n.*default_hooks.preflight=None"):
        PreflightHook().before_test(runner(cfg))
    hook = PreflightHook()
    hook.data = False
    hook.before_test(runner(cfg))
    cfg.test_dataloader = cfg.train_dataloader
    cfg.load_from = "weights to start training from, which is over"
    PreflightHook().before_test(runner(cfg))


def test_the_hook_compares_loaded_weights(tmp_path, weights, caplog):
    cfg, hook = config(tmp_path), PreflightHook()
    loaded = {"state_dict": dict(weights)}
    hook.after_load_checkpoint(runner(cfg), loaded)
    assert caplog.text.count("\n") == 1
    assert "a.pth: 2 of another shape (cls_head.fc_cls.weight (5, 16)" in caplog.text
    assert loaded["state_dict"].keys() == {k for k in weights if not k.startswith("cls_head.")}
    for kind in (dict(training=False), dict(resume=True)):
        with pytest.raises(WrongWeights, match="a.pth does not fit .* 2 of another shape"):
            hook.after_load_checkpoint(runner(cfg, **kind), {"state_dict": dict(weights)})
    with pytest.raises(WrongWeights, match="a.pth does not fit"):
        hook.after_load_checkpoint(runner(cfg), {"state_dict": {"a": torch.zeros(1)}})
    hook.weights = False
    hook.after_load_checkpoint(runner(cfg, training=False), loaded)


def test_the_hook_lets_features_do_without_the_head(tmp_path, weights):
    cfg = config(tmp_path)
    cfg.model.cls_head = dict(type="FeatureHead")
    PreflightHook().after_load_checkpoint(runner(cfg, training=False), {"state_dict": weights})


def test_checks_and_tools_are_light_to_import(run):
    code = """if True:
        import sys
        import mmvidformer.engine.launch
        import mmvidformer.engine.preflight
        heavy = ["mmengine.runner", "mmaction.models", "mmaction.datasets", "transformers", "timm"]
        heavy += ["torch.distributed.fsdp", "torchvision", "sklearn", "matplotlib", "decord"]
        print("loaded:", [name for name in heavy if name in sys.modules])
    """
    assert "loaded: []" in run(sys.executable, "-c", code).communicate(timeout=120)[0]
