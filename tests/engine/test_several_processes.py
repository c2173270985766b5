"""Several processes against one: losses, weights and checkpoints."""

from pathlib import Path

import pytest
import torch
from mmaction.structures import ActionDataSample
from mmengine.model import MMDistributedDataParallel
from mmengine.optim import build_optim_wrapper
from mmengine.registry import init_default_scope
from torch import distributed, nn

from mmvidformer.engine.checkpointing.resume import latest_checkpoint
from mmvidformer.engine.checkpointing.shards import merge_shards
from mmvidformer.engine.fsdp import BlockFSDPStrategy
from mmvidformer.engine.optim.compile import compile_parts
from mmvidformer.registry import MODELS

STEPS, BATCH = 3, 4


def recognizer(with_cp: bool = False) -> nn.Module:
    init_default_scope("mmaction")
    torch.manual_seed(0)
    arch = dict(embed_dims=16, depth=2, num_heads=2)
    cfg = dict(
        type="Recognizer3D",
        backbone=dict(
            type="mmvidformer.TimeSformer",
            arch=arch,
            img_size=16,
            clip_len=2,
            drop_path_rate=0.0,
            with_cp=with_cp,
        ),
        cls_head=dict(type="TimeSformerHead", num_classes=3, in_channels=16, dropout_ratio=0.0),
        data_preprocessor=dict(type="ActionDataPreprocessor", format_shape="NCTHW"),
    )
    model = MODELS.build(cfg)
    model.init_weights()  # once: the strategy would do it after the next lines
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def clips(step: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(step)
    return torch.randn(BATCH, 1, 3, 2, 16, 16, generator=generator)


def batch(step: int, part: int = 0, parts: int = 1) -> dict:
    """The share of one process, or of one step of accumulation."""
    samples = [ActionDataSample().set_gt_label((step + i) % 3) for i in range(BATCH)]
    return dict(inputs=list(clips(step)[part::parts]), data_samples=samples[part::parts])


def wrapper_config(accumulate: int = 1) -> dict:
    optimizer = dict(type="SGD", lr=0.1, momentum=0.9)
    return dict(
        type="OptimWrapper",
        optimizer=optimizer,
        accumulative_counts=accumulate,
        clip_grad=dict(max_norm=0.5),
    )


def step_through(model, wrapper, steps=range(STEPS), accumulate: int = 1) -> list[float]:
    """Train, and return the loss of each full batch, over processes and accumulation."""
    parts = distributed.get_world_size() if distributed.is_initialized() else 1
    rank = distributed.get_rank() if distributed.is_initialized() else 0
    losses = []
    for step in steps:
        loss = torch.zeros(())
        for turn in range(accumulate):
            share = batch(step, rank + parts * turn, parts * accumulate)
            loss += model.train_step(share, wrapper)["loss"].detach() / accumulate
        if parts > 1:
            distributed.all_reduce(loss)
        losses.append(loss.item() / parts)
    return losses


def train(kind: str, accumulate: int = 1) -> dict:
    """Train on this process's share, and return losses and full weights."""
    model = recognizer(with_cp=kind == "fsdp_with_cp")
    if kind == "ddp_compiled":
        compile_parts(model, options=dict(backend="aot_eager"))
    if kind.startswith("ddp"):
        model = MMDistributedDataParallel(model, device_ids=None, broadcast_buffers=False)
    if not kind.startswith("fsdp"):
        wrapper = build_optim_wrapper(model, wrapper_config(accumulate))
        wrapper.initialize_count_status(model, 0, STEPS * accumulate)
        losses = step_through(model, wrapper, accumulate=accumulate)
        model = model.module if kind.startswith("ddp") else model
        return dict(losses=losses, weights=model.state_dict())
    strategy = sharded(accumulate, model)
    if kind == "fsdp_compiled":
        options = dict(backend="aot_eager")
        assert len(compile_parts(strategy.model.module, ["TransformerBlock"], options)) == 2
    losses = step_through(strategy.model, strategy.optim_wrapper, accumulate=accumulate)
    return dict(losses=losses, weights=strategy.model_state_dict())


def sharded(
    accumulate: int = 1, model: nn.Module | None = None, **options: object
) -> BlockFSDPStrategy:
    strategy = BlockFSDPStrategy(work_dir="unused", **options)
    strategy.prepare(
        model or recognizer(),
        optim_wrapper=wrapper_config(accumulate),
        dispatch_kwargs=dict(max_iters=STEPS * accumulate),
    )
    return strategy


@pytest.fixture(scope="module")
def alone() -> dict:
    """The result of one process with full batches."""
    return train("single")


@pytest.mark.parametrize(
    "processes, kind, accumulate",
    [
        (1, "single", 2),
        (2, "ddp", 1),
        (2, "ddp", 2),
        (2, "fsdp", 1),
        (2, "fsdp_with_cp", 2),
        pytest.param(4, "ddp", 1, marks=pytest.mark.slow),
        pytest.param(4, "fsdp", 1, marks=pytest.mark.slow),
        pytest.param(2, "ddp_compiled", 1, marks=pytest.mark.slow),
        pytest.param(2, "fsdp_compiled", 1, marks=pytest.mark.slow),
    ],
)
def test_losses_and_weights_are_those_of_one_process(
    alone, in_processes, processes, kind, accumulate
):
    if processes == 1:
        reached = train(kind, accumulate)
    else:
        reached = in_processes(processes, train, kind, accumulate)[0]
    assert reached["losses"] == pytest.approx(alone["losses"], abs=1e-5)
    assert max(alone["losses"]) - min(alone["losses"]) > 1e-2
    torch.testing.assert_close(reached["weights"], alone["weights"], rtol=0, atol=1e-5)


def save_after(steps: int, path: Path, sharded_checkpoints: bool) -> torch.Tensor:
    strategy = sharded(sharded_checkpoints=sharded_checkpoints)
    step_through(strategy.model, strategy.optim_wrapper, range(steps))
    strategy.save_checkpoint(str(path), extra_ckpt=dict(meta=dict(iter=steps, epoch=steps)))
    return strategy.model(clips(9)).detach()


def resume(path: Path, steps: range) -> dict:
    strategy = sharded()
    strategy.resume(str(path), map_location="cpu", resume_param_scheduler=False)
    losses = step_through(strategy.model, strategy.optim_wrapper, steps)
    return dict(losses=losses, weights=strategy.model_state_dict())


@pytest.mark.parametrize(
    "processes, in_shards",
    [(2, False), (2, True), pytest.param(4, True, marks=pytest.mark.slow)],
)
def test_a_sharded_checkpoint_is_an_ordinary_one(
    alone, in_processes, processes, in_shards, tmp_path
):
    path = tmp_path / "epoch_2.pth"
    scores = in_processes(processes, save_after, 2, path, in_shards)
    assert path.is_dir() == in_shards
    assert latest_checkpoint(tmp_path) == str(path)
    checkpoint = merge_shards(path) if in_shards else torch.load(path, weights_only=True)
    assert checkpoint["meta"]["epoch"] == 2
    plain = recognizer()
    plain.load_state_dict(checkpoint["state_dict"], strict=True)
    torch.testing.assert_close(plain(clips(9)), scores[0], rtol=0, atol=1e-6)

    # Two processes resume what any number of them saved.
    resumed = in_processes(2, resume, path, range(2, STEPS))[0]
    assert resumed["losses"] == pytest.approx(alone["losses"][2:], abs=1e-5)
    torch.testing.assert_close(resumed["weights"], alone["weights"], rtol=0, atol=1e-5)


def adam_moments(in_shards: bool) -> dict:
    """AdamW's full state by parameter name after two steps."""
    wrapper = dict(type="OptimWrapper", optimizer=dict(type="AdamW", lr=1e-3))
    if not distributed.is_initialized():
        model = recognizer()
        optim = build_optim_wrapper(model, wrapper)
        step_through(model, optim, range(2))
        names = [name for name, _ in model.named_parameters()]
        return {names[i]: state for i, state in optim.state_dict()["state"].items()}
    strategy = BlockFSDPStrategy(work_dir="unused", sharded_checkpoints=in_shards)
    strategy.prepare(recognizer(), optim_wrapper=wrapper, dispatch_kwargs=dict(max_iters=STEPS))
    step_through(strategy.model, strategy.optim_wrapper, range(2))
    strategy.save_checkpoint("saved.pth", extra_ckpt=dict(meta=dict(iter=2, epoch=2)))
    distributed.barrier()
    saved = merge_shards("saved.pth") if in_shards else torch.load("saved.pth", weights_only=True)
    return saved["optimizer"]["state"]


@pytest.mark.parametrize("in_shards", [False, True])
def test_each_state_of_the_optimizer_is_saved(in_processes, in_shards):
    saved = in_processes(2, adam_moments, in_shards)[0]
    expected = adam_moments(in_shards)
    assert saved.keys() == expected.keys()
    for name, state in expected.items():
        for kind in ("exp_avg", "exp_avg_sq"):
            torch.testing.assert_close(saved[name][kind], state[kind], rtol=1e-4, atol=1e-7)


def train_in_bfloat16() -> dict:
    strategy = sharded(model_wrapper=dict(mixed_precision=dict(param_dtype="bfloat16")))
    losses = step_through(strategy.model, strategy.optim_wrapper)
    return dict(losses=losses, weights=strategy.model_state_dict())


def test_sharded_training_in_bfloat16_keeps_float32_weights(alone, in_processes):
    reached = in_processes(2, train_in_bfloat16)[0]
    assert {tensor.dtype for tensor in reached["weights"].values()} == {torch.float32}
    assert reached["losses"] == pytest.approx(alone["losses"], abs=5e-2)
    assert reached["losses"] != pytest.approx(alone["losses"], abs=1e-5)
