"""Launching, resuming, mixed precision, sharding and multi-view testing."""

from mmvidformer.engine.bad_videos import BadVideoHook, use_bad_video_policy
from mmvidformer.engine.fsdp import BlockFSDPStrategy, ShardedRunner, use_fsdp
from mmvidformer.engine.launch import (
    add_shared_arguments,
    build_runner,
    join_cpu_group,
    launched,
    load_config,
    merge_shared_arguments,
)
from mmvidformer.engine.precision import Bf16OptimWrapper, use_amp
from mmvidformer.engine.preflight import PreflightHook, WrongSetup, check_or_exit
from mmvidformer.engine.resume import latest_checkpoint
from mmvidformer.engine.views import get_views, parse_views, set_views

__all__ = [
    "BadVideoHook",
    "BlockFSDPStrategy",
    "Bf16OptimWrapper",
    "PreflightHook",
    "ShardedRunner",
    "WrongSetup",
    "add_shared_arguments",
    "build_runner",
    "check_or_exit",
    "get_views",
    "join_cpu_group",
    "latest_checkpoint",
    "launched",
    "load_config",
    "merge_shared_arguments",
    "parse_views",
    "set_views",
    "use_amp",
    "use_bad_video_policy",
    "use_fsdp",
]
