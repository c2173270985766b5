"""Processes whose batches have other numbers of lengths, against one process."""

import pytest
import torch
from mmengine.model import MMDistributedDataParallel
from mmengine.optim import OptimWrapper
from torch import distributed, nn
from torch.optim import SGD

from mmvidformer.engine.fsdp import shard_model
from tests.models.test_recognizer_lengths import FIXATION, LENGTHS, LINEAR, batch, build

HEAD = dict(LINEAR, type="mmvidformer.TokenMlpHead")


def train(model: nn.Module, part: slice = slice(None)) -> dict[str, torch.Tensor]:
    """Weights after two steps on a part of the batch."""
    wrapper = OptimWrapper(SGD(model.parameters(), lr=0.1))
    for _ in range(2):
        model.train_step({key: values[part] for key, values in batch().items()}, wrapper)
    return {n.removeprefix("module."): p.detach() for n, p in model.named_parameters()}


def train_share() -> dict[str, torch.Tensor]:
    first = 2 * distributed.get_rank()
    model = MMDistributedDataParallel(build(FIXATION, HEAD).train(), broadcast_buffers=False)
    return train(model, slice(first, first + 2))


def test_data_parallel_training(in_processes) -> None:
    assert LENGTHS == (6, 2, 4, 4)  # two lengths in one process, one in the other
    start = dict(build(FIXATION, HEAD).named_parameters())
    expected = train(build(FIXATION, HEAD).train())
    assert all(not torch.equal(start[name], value) for name, value in expected.items())
    for weights in in_processes(2, train_share):
        torch.testing.assert_close(weights, expected, atol=1e-5, rtol=1e-5)


def train_sharded() -> None:
    with pytest.raises(ValueError, match="cannot run in a fully sharded model; use DDP"):
        train(shard_model(build(FIXATION, HEAD)))


@pytest.mark.skipif(torch.__version__ < "2.7", reason="FSDP of PyTorch 2.6 needs a GPU")
def test_sharded_training_raises(in_processes) -> None:
    in_processes(1, train_sharded)
