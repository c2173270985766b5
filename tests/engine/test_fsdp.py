"""How a model is sharded."""

import pytest
import torch
from mmengine.config import Config
from mmengine.model import BaseModel
from mmengine.registry import RUNNERS, STRATEGIES, DefaultScope
from torch import distributed, nn
from torch.distributed.fsdp import FullyShardedDataParallel

from mmvidformer.engine.fsdp import BlockFSDPStrategy, ShardedRunner, use_fsdp
from mmvidformer.layers import SubLayer, TransformerBlock


class OwnBlock(TransformerBlock):
    """A user's subclass."""


class Model(BaseModel):
    """Two blocks between two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        sublayers = (SubLayer(("space",)),)
        self.blocks = nn.ModuleList([TransformerBlock(8, 2, sublayers), OwnBlock(8, 2, sublayers)])
        self.ends = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])

    def forward(self, inputs: torch.Tensor, data_samples: None = None, mode: str = "tensor"):
        """Not called."""
        raise NotImplementedError


@pytest.fixture
def alone(monkeypatch):
    """A gloo group of this process only."""
    monkeypatch.setenv("LOCAL_RANK", "0")
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.mark.parametrize(
    "options, shards",
    [
        ({}, {"Model", "TransformerBlock", "OwnBlock"}),
        (dict(blocks=("OwnBlock",)), {"Model", "OwnBlock"}),
        (dict(blocks=("Linear",)), {"Model", "Linear"}),
    ],
)
def test_each_block_is_a_shard(alone, tmp_path, options, shards):
    cfg = dict(type="mmvidformer.BlockFSDPStrategy", work_dir=str(tmp_path), **options)
    strategy = STRATEGIES.build(cfg)
    assert type(strategy) is BlockFSDPStrategy
    names = set(Model().state_dict())
    strategy.prepare(Model())
    units = [m for m in strategy.model.modules() if isinstance(m, FullyShardedDataParallel)]
    assert {type(unit.module).__name__ for unit in units} == shards
    assert set(strategy.model_state_dict()) == names


@pytest.mark.parametrize("scope", ["mmengine", "mmaction", "mmvidformer"])
def test_a_config_names_runner_and_strategy(scope: str) -> None:
    cfg = Config(dict(launcher="pytorch", strategy=dict(sharded_checkpoints=True)))
    use_fsdp(cfg)
    assert cfg.strategy.sharded_checkpoints
    names = {RUNNERS: cfg.runner_type, STRATEGIES: cfg.strategy.type}
    with DefaultScope.overwrite_default_scope(scope):
        found = []
        for registry, name in names.items():
            with registry.switch_scope_and_registry(None) as scoped:
                found.append(scoped.get(name))
    assert found == [ShardedRunner, BlockFSDPStrategy]
