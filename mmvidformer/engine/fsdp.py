"""Fully sharded training, with a shard per transformer block.

Private names of MMEngine and PyTorch that sharding needs are imported here only, and this module is
imported only if a config asks for its runner or strategy.
"""

import copy
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from mmengine._strategy import FSDPStrategy
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.dist import barrier, get_world_size, is_main_process
from mmengine.optim import BaseOptimWrapper
from mmengine.runner import FlexibleRunner
from mmengine.utils import apply_to
from torch import nn
from torch.distributed._shard.sharded_tensor import ShardedTensor
from torch.distributed.fsdp import (
    FullyShardedDataParallel,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    StateDictType,
)
from torch.distributed.fsdp.wrap import lambda_auto_wrap_policy

from mmvidformer.engine.checkpointing.shards import NOTE, PARTS, SIZE, mark_complete, merge_shards
from mmvidformer.registry import RUNNERS, STRATEGIES


@STRATEGIES.register_module()
class BlockFSDPStrategy(FSDPStrategy):
    """MMEngine's FSDP strategy, set up for transformers.

    It also fixes three faults of MMEngine 0.10.7: training without a GPU fails, resuming fails (the
    arguments of PyTorch's ``optim_state_dict_to_load`` are in the wrong order), and gradients are
    clipped by the norm of a rank's own shard instead of the whole model's.

    Args:
        blocks: Names of the classes to shard; subclasses are included.
        model_wrapper: Arguments of ``MMFullyShardedDataParallel`` that override the defaults set
            here, such as ``mixed_precision=dict(param_dtype='bfloat16')``.
        sharded_checkpoints: Whether a checkpoint is a folder with a file per rank
            (``engine.checkpointing.shards``) instead of a single file that loads into a plain
            model. Both kinds load and resume with either setting and on any number of ranks.
        **kwargs: Arguments of MMEngine's ``FSDPStrategy``.
    """

    def __init__(
        self,
        *,
        blocks: Sequence[str] = ("TransformerBlock",),
        model_wrapper: dict | None = None,
        sharded_checkpoints: bool = False,
        **kwargs,
    ) -> None:
        super().__init__(state_dict_cfg="full", **kwargs)
        self.sharded_checkpoints = sharded_checkpoints
        on_cpu = get_device() == "cpu"
        self.model_wrapper = dict(
            type="MMFullyShardedDataParallel",
            device_id=torch.device("cpu") if on_cpu else int(os.environ["LOCAL_RANK"]),
            auto_wrap_policy=partial(
                lambda_auto_wrap_policy,
                lambda_fn=lambda m: any(base.__name__ in blocks for base in type(m).__mro__),
            ),
            **(model_wrapper or {}),
        )

    def build_optim_wrapper(
        self, optim_wrapper: BaseOptimWrapper | dict, model: nn.Module | None = None
    ) -> BaseOptimWrapper:
        """Build the optimizer wrapper, which clips by the norm over all shards."""
        built = super().build_optim_wrapper(optim_wrapper, model)
        if getattr(built, "clip_func", None) is nn.utils.clip_grad_norm_:
            built.clip_func = lambda params, **kwargs: model.clip_grad_norm_(**kwargs)
        return built

    def save_checkpoint(self, filename: str, **kwargs) -> None:
        """Save a checkpoint as one file, or as a folder with a file per rank."""
        if not self.sharded_checkpoints:
            super().save_checkpoint(filename, **kwargs)
            return
        if is_main_process():
            (Path(filename) / NOTE).unlink(missing_ok=True)
        barrier()
        full, self.state_dict_type = self.state_dict_type, StateDictType.SHARDED_STATE_DICT
        with FullyShardedDataParallel.state_dict_type(
            self.model,
            self.state_dict_type,
            ShardedStateDictConfig(offload_to_cpu=True),
            ShardedOptimStateDictConfig(offload_to_cpu=True),
        ):
            super().save_checkpoint(filename, **kwargs)
        self.state_dict_type = full
        barrier()
        if is_main_process():
            mark_complete(filename, get_world_size())

    def model_state_dict(self) -> dict:
        """Return the state of the model, in full or the shards of this rank."""
        return _to_plain(super().model_state_dict())

    def optim_state_dict(self) -> dict:
        """Return the state of the optimizer, in full or the shards of this rank.

        PyTorch gathers the states of a parameter one after the other into the same buffer, and
        without a GPU does not copy it: all would equal the last one (AdamW's first moment the
        second). On a CPU they are therefore gathered one name at a time.
        """
        if get_device() != "cpu":
            return _to_plain(super().optim_state_dict())
        local = self.optim_wrapper.state_dict()
        names = {name for state in local["state"].values() for name in state}
        gathered: dict = {}
        for name in sorted(names) or [None]:
            part = {key: {name: s[name]} for key, s in local["state"].items() if name in s}
            full = FullyShardedDataParallel.optim_state_dict(
                self.model, self.optim_wrapper, optim_state_dict={**local, "state": part}
            )
            for key, state in copy.deepcopy(_to_plain(full)).get("state", {}).items():
                gathered.setdefault(key, {}).update(state)
        return {**full, "state": gathered} if full else full

    def load_checkpoint(self, filename: str, **kwargs) -> dict:
        """Load a checkpoint of either kind."""
        if not Path(filename).is_dir():
            return super().load_checkpoint(filename, **kwargs)
        self.logger.info(f"Load checkpoint from the shards in {filename}")
        checkpoint = merge_shards(filename)
        if kwargs.get("callback") is not None:
            kwargs["callback"](checkpoint)
        self.load_model_state_dict(checkpoint.pop("state_dict"), strict=kwargs.get("strict", False))
        return checkpoint

    def load_optim_state_dict(self, state_dict: dict) -> None:
        """Load the full state of the optimizer into the shards."""
        shard = FullyShardedDataParallel.optim_state_dict_to_load(
            model=self.model, optim=self.optim_wrapper.optimizer, optim_state_dict=state_dict
        )
        self.optim_wrapper.load_state_dict(shard)


@RUNNERS.register_module()
class ShardedRunner(FlexibleRunner):
    """MMEngine's runner with a strategy, which saves the right epoch in checkpoints.

    MMEngine 0.10.7 counts one too many in the checkpoint that it saves again after a validation,
    and a resumed run then skips an epoch.
    """

    _progress: dict[str, int] = {}

    def save_checkpoint(
        self, out_dir: str, filename: str, *args, meta: dict | None = None, **kwargs
    ) -> None:
        """Save a checkpoint with the epoch and the iteration of ``meta``, if given."""
        self._progress = {k: v for k, v in (meta or {}).items() if k in ("epoch", "iter")}
        super().save_checkpoint(out_dir, filename, *args, meta=meta, **kwargs)

    def call_hook(self, fn_name: str, **kwargs) -> None:
        """Call ``fn_name`` of all hooks."""
        if fn_name == "before_save_checkpoint":
            kwargs["checkpoint"]["meta"].update(self._progress)
        super().call_hook(fn_name, **kwargs)


def _to_plain(tree: dict) -> dict:
    """Replace sharded tensors by this rank's parts of them."""

    def local(tensor: ShardedTensor) -> dict:
        parts = [(list(s.metadata.shard_offsets), s.tensor.cpu()) for s in tensor.local_shards()]
        return {SIZE: list(tensor.size()), PARTS: parts}

    return apply_to(tree, lambda leaf: isinstance(leaf, ShardedTensor), local)


def use_fsdp(cfg: Config) -> None:
    """Switch ``cfg`` to fully sharded training. Its ``strategy`` may hold further arguments.

    Raises:
        ValueError: If the processes have no launcher.
    """
    if cfg.launcher == "none":
        raise ValueError("--strategy fsdp needs a launcher: start it with --procs")
    cfg.runner_type = "mmvidformer.ShardedRunner"
    cfg.strategy = {**(cfg.get("strategy") or {}), "type": "mmvidformer.BlockFSDPStrategy"}
