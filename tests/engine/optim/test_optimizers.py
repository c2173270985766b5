"""AdaBelief and Lookahead from a config, and HORST's schedule."""

import copy
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.optim import OptimWrapper, build_optim_wrapper
from mmengine.registry import PARAM_SCHEDULERS, DefaultScope
from timm.optim.adabelief import AdaBelief
from timm.optim.lookahead import Lookahead
from torch import nn

from mmvidformer.config import config_folder

SCHEDULE = "_base_/schedules/horst_50e.py"


def recipe() -> Config:
    return Config.fromfile(Path(config_folder()) / SCHEDULE)


def wrapper(model: nn.Module, **changes: object) -> OptimWrapper:
    cfg = copy.deepcopy(recipe().optim_wrapper)
    cfg.optimizer.update(changes)
    with DefaultScope.overwrite_default_scope("mmaction"):
        return build_optim_wrapper(model, cfg)


def test_recipe_of_the_paper() -> None:
    built = wrapper(nn.Linear(2, 1))
    assert type(built.optimizer) is Lookahead
    assert type(built.optimizer._base_optimizer) is AdaBelief
    (group,) = built.param_groups
    values = {"lr": 2e-3, "weight_decay": 1e-3, "betas": (0.9, 0.999), "eps": 1e-16}
    values |= {"decoupled_decay": True, "rectify": True, "lookahead_k": 6, "lookahead_alpha": 0.5}
    assert {name: group[name] for name in values} == values


def test_rates_of_groups_reach_the_base() -> None:
    cfg = recipe().optim_wrapper
    cfg.paramwise_cfg = {"bias_lr_mult": 0.5, "bias_decay_mult": 0.0}
    with DefaultScope.overwrite_default_scope("mmaction"):
        groups = build_optim_wrapper(nn.Linear(2, 1), cfg).param_groups
    weight, bias = groups[:2]
    assert (weight["lr"], weight["weight_decay"]) == (2e-3, 1e-3)
    assert (bias["lr"], bias["weight_decay"]) == (1e-3, 0.0)


def test_resumes_from_a_saved_state() -> None:
    torch.manual_seed(0)
    data = torch.randn(8, 3)
    models = [nn.Linear(3, 1) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())

    def train(model: nn.Module, built: OptimWrapper, steps: int) -> None:
        for _ in range(steps):
            built.update_params(model(data).square().mean())

    built = [wrapper(model) for model in models]
    train(models[0], built[0], 14)
    train(models[1], built[1], 8)
    again = wrapper(models[1])
    again.load_state_dict(copy.deepcopy(built[1].state_dict()))
    train(models[1], again, 6)
    assert torch.equal(models[0].weight, models[1].weight)


def test_rate_is_flat_then_falls_to_zero() -> None:
    cfg, length = recipe(), 4
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    (settings,) = cfg.param_scheduler
    cls = PARAM_SCHEDULERS.get(settings.pop("type"))
    settings.pop("convert_to_iter_based")
    scheduler = cls.build_iter_from_epoch(optimizer=optimizer, epoch_length=length, **settings)
    rates = []
    for _ in range(cfg.train_cfg.max_epochs * length):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert rates[: 37 * length + 2] == [1.0] * (37 * length + 2)
    assert rates[37 * length + 2 + 25] == pytest.approx(0.5, abs=0.05)
    assert 0 <= rates[-1] < 0.01
    assert sorted(rates, reverse=True) == rates
