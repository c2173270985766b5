"""Several processes against one: losses, weights and checkpoints."""

from pathlib import Path

import pytest
import torch
from mmaction.structures import ActionDataSample
from mmengine.model import MMDistributedDataParallel
from mmengine.optim import OptimWrapper, build_optim_wrapper
from mmengine.registry import init_default_scope
from mmengine.runner import Runner
from torch import distributed, nn
from torch.distributed.tensor import DTensor
from torch.utils.data import Dataset

from mmvidformer.engine.checkpointing.resume import latest_checkpoint
from mmvidformer.engine.fsdp import ShardedRunner, shard_model, shard_optimizer
from mmvidformer.registry import MODELS

STEPS, BATCH = 3, 4
fsdp = pytest.mark.skipif(torch.__version__ < "2.7", reason="FSDP of PyTorch 2.6 needs a GPU")


def recognizer(**options: object) -> nn.Module:
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
            **options,
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
    added = dict(lora=dict(lora=dict(rank=2)), adapter=dict(adapter=0.5))
    options = [dict(**added[name], frozen_stages=2) for name in added if name in kind]
    model = recognizer(with_cp="with_cp" in kind, **(options[0] if options else {}))
    if kind == "ddp_compiled":
        model.backbone.compile(fullgraph=True, backend="aot_eager")
    if kind.startswith("ddp"):
        model = MMDistributedDataParallel(model, device_ids=None, broadcast_buffers=False)
    if not kind.startswith("fsdp"):
        wrapper = build_optim_wrapper(model, wrapper_config(accumulate))
        wrapper.initialize_count_status(model, 0, STEPS * accumulate)
        losses = step_through(model, wrapper, accumulate=accumulate)
        model = model.module if kind.startswith("ddp") else model
        return dict(losses=losses, weights=weights(model))
    model, wrapper = sharded(accumulate, model)
    if kind == "fsdp_compiled":
        for block in model.backbone.encoders[0].blocks:  # each is gathered by itself
            block.compile(fullgraph=True, backend="aot_eager")
    losses = step_through(model, wrapper, accumulate=accumulate)
    return dict(losses=losses, weights=weights(model))


def sharded(
    accumulate: int = 1, model: nn.Module | None = None, **options: object
) -> tuple[nn.Module, OptimWrapper]:
    model = shard_model(model or recognizer(), **options)
    wrapper = build_optim_wrapper(model, wrapper_config(accumulate))
    shard_optimizer(wrapper.optimizer)
    wrapper.initialize_count_status(model, 0, STEPS * accumulate)
    return model, wrapper


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
        pytest.param(2, "fsdp", 1, marks=fsdp),
        pytest.param(2, "fsdp_with_cp", 2, marks=fsdp),
        pytest.param(4, "ddp", 1, marks=pytest.mark.slow),
        pytest.param(4, "fsdp", 1, marks=[fsdp, pytest.mark.slow]),
        pytest.param(2, "ddp_compiled", 1, marks=pytest.mark.slow),
        pytest.param(2, "fsdp_compiled", 1, marks=[fsdp, pytest.mark.slow]),
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


@pytest.mark.parametrize("added", ["lora", "adapter"])
@pytest.mark.parametrize("way", ["ddp", pytest.param("fsdp", marks=fsdp)])
def test_what_is_added_is_that_of_one_process(in_processes, way, added) -> None:
    alone = train(f"single_{added}")
    reached = in_processes(2, train, f"{way}_{added}")[0]
    assert reached["losses"] == pytest.approx(alone["losses"], abs=1e-5)
    torch.testing.assert_close(reached["weights"], alone["weights"], rtol=0, atol=1e-5)


class Clips(Dataset):
    """The clips of all steps."""

    metainfo: dict = {}

    def __len__(self) -> int:
        return STEPS * BATCH

    def __getitem__(self, index: int) -> dict:
        whole = batch(index // BATCH)
        return {key: values[index % BATCH] for key, values in whole.items()}


def run(folder: Path, optimizer: str = "SGD", resume: str = "") -> dict:
    """Train with a runner, sharded if there are several processes, and return the weights."""
    processes = distributed.get_world_size() if distributed.is_initialized() else 1
    # Biases of keys have no gradient but rounding errors, which AdamW would scale up.
    options = dict(SGD=dict(lr=0.1, momentum=0.9), AdamW=dict(lr=0.01, eps=1e-3))[optimizer]
    runner = (ShardedRunner if processes > 1 else Runner)(
        model=recognizer(),
        work_dir=str(folder),
        experiment_name=f"{folder.name}{processes}{resume[-5:]}",
        train_dataloader=dict(
            dataset=Clips(),
            batch_size=BATCH // processes,
            num_workers=0,
            sampler=dict(type="DefaultSampler", shuffle=False),
            collate_fn=dict(type="pseudo_collate"),
        ),
        train_cfg=dict(by_epoch=False, max_iters=STEPS),
        optim_wrapper=dict(optimizer=dict(type=optimizer, **options), clip_grad=dict(max_norm=0.5)),
        default_hooks=dict(
            checkpoint=dict(type="mmvidformer.AtomicCheckpointHook", by_epoch=False, interval=1)
        ),
        load_from=resume or None,
        resume=bool(resume),
        launcher="none",
        randomness=dict(seed=0),
        default_scope="mmaction",
        log_level="WARNING",
    )
    runner.train()
    norms, _ = runner.message_hub.get_scalar("train/grad_norm").data
    return dict(weights=weights(runner.model), norms=norms.tolist())


def weights(model: nn.Module) -> dict[str, torch.Tensor]:
    return {
        name: p.full_tensor().detach() if isinstance(p, DTensor) else p.detach()
        for name, p in model.named_parameters()
    }


@fsdp
@pytest.mark.parametrize("optimizer", ["AdamW", pytest.param("SGD", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "first, second", [(2, 1), (1, 2), pytest.param(4, 2, marks=pytest.mark.slow)]
)
def test_a_sharded_checkpoint_is_an_ordinary_one(in_processes, tmp_path, first, second, optimizer):
    """It equals that of one process, and any number of processes resumes it."""
    alone = run(tmp_path / "alone", optimizer)

    def start(count: int, folder: str, *args: object) -> dict:
        path = tmp_path / folder
        return run(path, *args) if count == 1 else in_processes(count, run, path, *args)[0]

    whole = start(first, "first", optimizer)
    path = tmp_path / "first" / "iter_2.pth"
    assert latest_checkpoint(path.parent) == str(path.with_stem("iter_3"))
    files = path, tmp_path / "alone" / "iter_2.pth"
    saved, expected = (torch.load(file, weights_only=True) for file in files)
    assert saved["meta"]["iter"] == 2
    for key in ("state_dict", "optimizer"):
        torch.testing.assert_close(saved[key], expected[key], rtol=1e-4, atol=1e-6)

    rest = start(second, "second", optimizer, str(path))
    for reached in (whole, rest):
        torch.testing.assert_close(reached["weights"], alone["weights"], rtol=0, atol=1e-5)
    assert whole["norms"] == pytest.approx(alone["norms"], abs=1e-5)
    assert rest["norms"][-1:] == pytest.approx(alone["norms"][-1:], abs=1e-5)


def train_in_bfloat16() -> dict:
    model, wrapper = sharded(param_dtype="bfloat16")
    losses = step_through(model, wrapper)
    return dict(losses=losses, weights=weights(model))


@fsdp
def test_sharded_training_in_bfloat16_keeps_float32_weights(alone, in_processes):
    reached = in_processes(2, train_in_bfloat16)[0]
    assert {tensor.dtype for tensor in reached["weights"].values()} == {torch.float32}
    assert reached["losses"] == pytest.approx(alone["losses"], abs=5e-2)
    assert reached["losses"] != pytest.approx(alone["losses"], abs=1e-5)
