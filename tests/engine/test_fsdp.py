"""How a model is sharded."""

import pytest
import torch
from mmengine.model import BaseModel
from mmengine.registry import RUNNERS, DefaultScope
from torch import distributed, nn
from torch.distributed.fsdp import FSDPModule

from mmvidformer.engine.fsdp import ShardedRunner, shard_model
from mmvidformer.layers import TransformerBlock
from mmvidformer.layers.rotary import RotaryEmbedding
from mmvidformer.models import VideoTransformer


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


@pytest.mark.skipif(torch.__version__ < "2.7", reason="FSDP of PyTorch 2.6 needs a GPU")
def test_tables_of_positions_keep_their_precision(alone, monkeypatch) -> None:
    """As under autocast; in bfloat16, places above 256 would be rounded."""
    seen, turn = set(), RotaryEmbedding._turn

    def spy(self, x, cos, sin):
        seen.add((x.dtype, cos.dtype))
        return turn(self, x, cos, sin)

    monkeypatch.setattr(RotaryEmbedding, "_turn", spy)
    arch = dict(embed_dims=16, depth=2, num_heads=2)
    options = dict(img_size=32, clip_len=4, positions="none", rope="vjepa2", pool="none")
    model = VideoTransformer(arch, **options)
    clips = torch.randn(1, 3, 4, 32, 32)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        expected = model(clips)
    assert seen == {(torch.bfloat16, torch.float32)}
    sharded = shard_model(model, param_dtype="bfloat16")
    with torch.no_grad():
        reached = sharded(clips)
    assert seen == {(torch.bfloat16, torch.float32)}
    torch.testing.assert_close(reached, expected, rtol=0.05, atol=0.05)
