"""Optimizers that update all weights of a GPU in few kernels, on a device of shapes alone."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from mmengine.config import Config, ConfigDict
from mmengine.optim import OptimWrapper, build_optim_wrapper
from mmengine.registry import DefaultScope
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.optim import Optimizer

from mmvidformer.engine import launch
from mmvidformer.engine.optim.fused import use_fused
from mmvidformer.engine.quiet import QuietRunner


def on_gpu() -> nn.Module:
    model = nn.Linear(2, 1, device="meta")
    with (
        FakeTensorMode(),
        torch.device("cuda"),
    ):  # random numbers would need a driver in PyTorch 2.6
        model.weight, model.bias = (nn.Parameter(torch.empty(size)) for size in ((1, 2), (1,)))
    return model


def build_optimizer(model: nn.Module, **optimizer: object) -> Optimizer:
    wrapper = ConfigDict(type="OptimWrapper", optimizer=dict(lr=0.1, **optimizer))
    use_fused(wrapper, model)
    with DefaultScope.overwrite_default_scope("mmaction"):
        return build_optim_wrapper(model, wrapper).optimizer


@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD"])
def test_optimizers_of_a_gpu_are_fused(name: str) -> None:
    assert build_optimizer(on_gpu(), type=name).defaults["fused"] is True
    assert not build_optimizer(nn.Linear(2, 1), type=name).defaults["fused"]


def add_weight_of_cpu(model: nn.Module) -> None:
    model.cpu_weight = nn.Parameter(torch.ones(1))


def add_complex_weight(model: nn.Module) -> None:
    with FakeTensorMode(), torch.device("cuda"):
        model.complex_weight = nn.Parameter(torch.ones(1, dtype=torch.complex64))


@pytest.mark.parametrize("change", [add_weight_of_cpu, add_complex_weight])
def test_models_with_other_weights_stay(change: Callable[[nn.Module], None]) -> None:
    model = on_gpu()
    change(model)
    assert not build_optimizer(model, type="AdamW").defaults["fused"]


@pytest.mark.parametrize("option", [{"foreach": True}, {"fused": False}, {"differentiable": True}])
def test_the_config_decides_first(option: dict) -> None:
    defaults = build_optimizer(on_gpu(), type="AdamW", **option).defaults
    assert not defaults["fused"] and option.items() <= defaults.items()


def test_other_optimizers_and_wrappers_stay() -> None:
    assert "fused" not in build_optimizer(on_gpu(), type="RMSprop").defaults
    built = OptimWrapper(torch.optim.SGD(nn.Linear(2, 1).parameters(), lr=0.1))
    several = dict(constructor="Several", backbone=dict(optimizer=dict(type="SGD")))
    for wrapper in (None, built, several):
        use_fused(wrapper, on_gpu())
    assert several == dict(constructor="Several", backbone=dict(optimizer=dict(type="SGD")))


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_the_config_of_a_run_says_how_it_steps(
    device: str, toy: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapper = dict(optimizer=dict(type="SGD", lr=0.1))
    cfg = Config(dict(launcher="none", optim_wrapper=wrapper))
    runner = toy(optim_wrapper=ConfigDict(wrapper), cfg=cfg)
    model = on_gpu() if device == "cuda" else nn.Linear(2, 1)
    monkeypatch.setattr(launch, "apply_policy", lambda runner: None)
    monkeypatch.setattr(launch, "use_fused", lambda wrapper, _: use_fused(wrapper, model))
    monkeypatch.setattr(QuietRunner, "from_cfg", lambda cfg: runner)
    launch.build_runner(cfg)
    (saved,) = Path(runner.work_dir).glob("*.py")
    for said in (runner.optim_wrapper, Config.fromfile(saved).optim_wrapper):
        assert said.optimizer.get("fused", False) is (device == "cuda")
