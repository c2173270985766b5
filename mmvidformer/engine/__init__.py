"""Launching, resuming, mixed precision, sharding and multi-view testing."""

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
from mmvidformer.engine.precision import (
    Bf16OptimWrapper,
    add_amp_argument,
    use_amp,
    use_amp_in_test,
)
from mmvidformer.engine.resume import latest_checkpoint
from mmvidformer.engine.shards import merge_shards
from mmvidformer.engine.views import get_views, limit_views, may_limit_views, parse_views, set_views

__all__ = [
    "BlockFSDPStrategy",
    "Bf16OptimWrapper",
    "ShardedRunner",
    "add_amp_argument",
    "add_shared_arguments",
    "build_runner",
    "get_views",
    "join_cpu_group",
    "latest_checkpoint",
    "launched",
    "limit_views",
    "load_config",
    "may_limit_views",
    "merge_shared_arguments",
    "merge_shards",
    "parse_views",
    "set_video_backend",
    "set_views",
    "use_amp",
    "use_amp_in_test",
    "use_fsdp",
]
