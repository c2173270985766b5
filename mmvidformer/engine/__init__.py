"""Launching, checkpoints, interruption, mixed precision, sharding and multi-view testing."""

from mmvidformer.engine.atomic import AtomicBackend, write_atomically
from mmvidformer.engine.bad_videos import BadVideoHook, use_bad_video_policy
from mmvidformer.engine.checkpoint_hook import AtomicCheckpointHook
from mmvidformer.engine.compile import CompileHook, compile_parts
from mmvidformer.engine.data_root import DataRootHook
from mmvidformer.engine.decoding import set_video_backend
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
from mmvidformer.engine.precision import (
    Bf16OptimWrapper,
    add_amp_argument,
    use_amp,
    use_amp_in_test,
)
from mmvidformer.engine.preemption import PreemptionHook
from mmvidformer.engine.preflight import PreflightHook, WrongSetup, check_or_exit
from mmvidformer.engine.recognizer import config_scope, load_recognizer
from mmvidformer.engine.resume import latest_checkpoint
from mmvidformer.engine.shards import merge_shards
from mmvidformer.engine.train_loop import ResumableSampler, ResumableTrainLoop
from mmvidformer.engine.views import (
    dataset_pipelines,
    get_views,
    limit_views,
    may_limit_views,
    parse_views,
    set_views,
)

__all__ = [
    "AtomicBackend",
    "AtomicCheckpointHook",
    "BadVideoHook",
    "BlockFSDPStrategy",
    "Bf16OptimWrapper",
    "CompileHook",
    "DataRootHook",
    "NonFiniteLossHook",
    "PreemptionHook",
    "PreflightHook",
    "ResumableSampler",
    "ResumableTrainLoop",
    "ShardedRunner",
    "WrongSetup",
    "add_amp_argument",
    "add_shared_arguments",
    "build_runner",
    "check_or_exit",
    "compile_parts",
    "config_scope",
    "dataset_pipelines",
    "get_views",
    "join_cpu_group",
    "latest_checkpoint",
    "launched",
    "limit_views",
    "load_config",
    "load_recognizer",
    "may_limit_views",
    "merge_shared_arguments",
    "merge_shards",
    "parse_views",
    "set_video_backend",
    "set_views",
    "use_amp",
    "use_amp_in_test",
    "use_bad_video_policy",
    "use_fsdp",
    "write_atomically",
]
