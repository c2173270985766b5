"""How a model is sharded."""

import pytest
import torch
from mmengine.model import BaseModel
from mmengine.registry import RUNNERS, DefaultScope
from torch import distributed, nn
from torch.distributed.fsdp import FSDPModule

from mmvidformer.engine.fsdp import ShardedRunner, shard_model
from mmvidformer.layers import TransformerBlock


class OwnBlock(TransformerBlock):
    """A user's subclass."""


class Model(BaseModel):
    """Two blocks between two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        tiny = dict(arch=dict(embed_dims=8, depth=1, num_heads=2), block=[dict(pattern="space")])
        self.blocks = nn.ModuleList([TransformerBlock(tiny), OwnBlock(tiny)])
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
def test_each_block_is_a_shard(alone, options, shards):
    names = set(Model().state_dict())
    model = shard_model(Model(), **options)
    units = [m for m in model.modules() if isinstance(m, FSDPModule)]
    assert {type(unit).__name__.removeprefix("FSDP") for unit in units} == shards
    assert set(model.state_dict()) == names


@pytest.mark.parametrize("scope", ["mmengine", "mmaction", "mmvidformer"])
def test_a_config_names_the_runner(scope: str) -> None:
    with DefaultScope.overwrite_default_scope(scope):
        with RUNNERS.switch_scope_and_registry(None) as scoped:
            assert scoped.get("mmvidformer.ShardedRunner") is ShardedRunner
