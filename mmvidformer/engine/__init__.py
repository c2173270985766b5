"""Launching, checkpoints, interruption, mixed precision, sharding and multi-view testing."""

from mmvidformer.engine.atomic import AtomicBackend, write_atomically
from mmvidformer.engine.checkpoint_hook import AtomicCheckpointHook
from mmvidformer.engine.data_root import DataRootHook
from mmvidformer.engine.fsdp import BlockFSDPStrategy, ShardedRunner, use_fsdp
from mmvidformer.engine.launch import (
    add_shared_arguments,
    build_runner,
    join_cpu_group,
    launched,
    load_config,
    merge_shared_arguments,
)
from mmvidformer.engine.non_finite import NonFiniteLossHook
from mmvidformer.engine.precision import Bf16OptimWrapper, use_amp
from mmvidformer.engine.preemption import PreemptionHook
from mmvidformer.engine.resume import latest_checkpoint
from mmvidformer.engine.train_loop import ResumableSampler, ResumableTrainLoop
from mmvidformer.engine.views import get_views, parse_views, set_views

__all__ = [
    "AtomicBackend",
    "AtomicCheckpointHook",
    "BlockFSDPStrategy",
    "Bf16OptimWrapper",
    "DataRootHook",
    "NonFiniteLossHook",
    "PreemptionHook",
    "ResumableSampler",
    "ResumableTrainLoop",
    "ShardedRunner",
    "add_shared_arguments",
    "build_runner",
    "get_views",
    "join_cpu_group",
    "latest_checkpoint",
    "launched",
    "load_config",
    "merge_shared_arguments",
    "parse_views",
    "set_views",
    "use_amp",
    "use_fsdp",
    "write_atomically",
]
