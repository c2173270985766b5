"""Fully sharded training, a shard for each transformer block."""

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
from mmengine.runner._flexible_runner import FlexibleRunner
from torch import Tensor, nn
from torch.distributed.fsdp import (
    FullyShardedDataParallel,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    StateDictType,
)
from torch.distributed.fsdp.wrap import lambda_auto_wrap_policy

from mmvidformer.engine.checkpointing.shards import (
    mark_complete,
    mark_incomplete,
    merge_shards,
    to_plain,
)


class BlockFSDPStrategy(FSDPStrategy):
    """MMEngine's FSDP strategy, repaired and set up for transformers.

    Repairs of MMEngine 0.10.7: training without a GPU, resuming (its arguments to PyTorch's
    ``optim_state_dict_to_load`` are in the wrong order), and clipping gradients by the norm of
    the whole model, where it takes the norm of the process's own shard.

    Args:
        blocks: Names of the classes to shard apart; a subclass counts.
        model_wrapper: Arguments of ``MMFullyShardedDataParallel``, over the defaults made here;
            such as ``mixed_precision=dict(param_dtype='bfloat16')``.
        activation_checkpointing: Whether to keep only the inputs of these blocks in the forward
            pass and compute the rest anew in the backward pass. Takes the place of ``with_cp`` in a
            model's config.
        sharded_checkpoints: Whether a checkpoint is a folder to which each process writes its shard
            (``engine.shards``), or one file that loads into a plain model. Both kinds load and
            resume whatever this says, on any number of processes.
        **kwargs: As ``mmengine._strategy.FSDPStrategy``.
    """

    def __init__(
        self,
        *,
        blocks: Sequence[str] = ("TransformerBlock",),
        model_wrapper: dict | None = None,
        activation_checkpointing: bool = False,
        sharded_checkpoints: bool = False,
        **kwargs,
    ) -> None:
        names = frozenset(blocks)
        check = dict(check_fn=partial(_is_one_of, names=names))
        super().__init__(
            state_dict_cfg="full",
            activation_checkpointing=check if activation_checkpointing else None,
            **kwargs,
        )
        self.sharded_checkpoints = sharded_checkpoints
        on_cpu = get_device() == "cpu"
        self.model_wrapper = dict(
            type="MMFullyShardedDataParallel",
            device_id=torch.device("cpu") if on_cpu else int(os.environ["LOCAL_RANK"]),
            auto_wrap_policy=partial(
                lambda_auto_wrap_policy, lambda_fn=lambda module: _is_one_of(module, names)
            ),
            **(model_wrapper or {}),
        )

    def build_optim_wrapper(
        self, optim_wrapper: BaseOptimWrapper | dict, model: nn.Module | None = None
    ) -> BaseOptimWrapper:
        """Build the optimiser wrapper, clipping by the norm over all shards."""
        built = super().build_optim_wrapper(optim_wrapper, model)
        if getattr(built, "clip_func", None) is nn.utils.clip_grad_norm_:
            built.clip_func = partial(_clip_all_shards, model)
        return built

    def save_checkpoint(self, filename: str, **kwargs) -> None:
        """Save a checkpoint: a file, or a folder with a file of each process."""
        if not self.sharded_checkpoints:
            super().save_checkpoint(filename, **kwargs)
            return
        if is_main_process():
            mark_incomplete(filename)
        barrier()
        whole, self.state_dict_type = self.state_dict_type, StateDictType.SHARDED_STATE_DICT
        try:
            with FullyShardedDataParallel.state_dict_type(
                self.model,
                self.state_dict_type,
                ShardedStateDictConfig(offload_to_cpu=True),
                ShardedOptimStateDictConfig(offload_to_cpu=True),
            ):
                super().save_checkpoint(filename, **kwargs)
        finally:
            self.state_dict_type = whole
        barrier()
        if is_main_process():
            mark_complete(filename, get_world_size())

    def model_state_dict(self) -> dict:
        """The model's state, whole or what this process holds of it."""
        return to_plain(super().model_state_dict())

    def optim_state_dict(self) -> dict:
        """The optimiser's state, as the model's.

        PyTorch gathers a parameter's states one after the other into one buffer, and without a
        GPU takes no copy of it: all would be the last one (AdamW's first moment the second). There
        they are gathered one name at a time.
        """
        if get_device() != "cpu":
            return to_plain(super().optim_state_dict())
        local = self.optim_wrapper.state_dict()
        names = {name for state in local["state"].values() for name in state}
        gathered: dict = {}
        for name in sorted(names) or [None]:
            part = {
                key: {name: state[name]} for key, state in local["state"].items() if name in state
            }
            whole = FullyShardedDataParallel.optim_state_dict(
                self.model, self.optim_wrapper, optim_state_dict={**local, "state": part}
            )
            whole = copy.deepcopy(to_plain(whole))
            for key, state in whole.get("state", {}).items():
                gathered.setdefault(key, {}).update(state)
        return {**whole, "state": gathered} if whole else whole

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
        """Load the optimiser's whole state, as saved, into the shards."""
        shard = FullyShardedDataParallel.optim_state_dict_to_load(
            model=self.model, optim=self.optim_wrapper.optimizer, optim_state_dict=state_dict
        )
        self.optim_wrapper.load_state_dict(shard)


class ShardedRunner(FlexibleRunner):
    """MMEngine's runner with a strategy, repaired to note a checkpoint's epoch right.

    MMEngine 0.10.7 counts one too many in the checkpoint that it writes again after validation,
    and a resumed run then skips an epoch.
    """

    _progress: dict[str, int] = {}

    def save_checkpoint(
        self, out_dir: str, filename: str, *args, meta: dict | None = None, **kwargs
    ) -> None:
        """Save a checkpoint; the epoch and iteration of ``meta`` hold where given."""
        self._progress = {k: v for k, v in (meta or {}).items() if k in ("epoch", "iter")}
        super().save_checkpoint(out_dir, filename, *args, meta=meta, **kwargs)

    def call_hook(self, fn_name: str, **kwargs) -> None:
        """Call ``fn_name`` of all hooks."""
        if fn_name == "before_save_checkpoint":
            kwargs["checkpoint"]["meta"].update(self._progress)
        super().call_hook(fn_name, **kwargs)


def use_fsdp(cfg: Config) -> None:
    """Switch ``cfg`` to fully sharded training; its ``strategy`` may hold arguments for it.

    Raises:
        ValueError: If the processes have no launcher.
    """
    if cfg.launcher == "none":
        raise ValueError("--strategy fsdp needs a launcher: start it with tools/dist_train.sh")
    cfg.runner_type = "mmvidformer.engine.fsdp.ShardedRunner"
    cfg.strategy = {
        **(cfg.get("strategy") or {}),
        "type": "mmvidformer.engine.fsdp.BlockFSDPStrategy",
    }


def _is_one_of(module: nn.Module, names: frozenset[str]) -> bool:
    return any(base.__name__ in names for base in type(module).__mro__)


def _clip_all_shards(
    model: FullyShardedDataParallel, params: list[Tensor], **kwargs: float
) -> Tensor:
    return model.clip_grad_norm_(**kwargs)
