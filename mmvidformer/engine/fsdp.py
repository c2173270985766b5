"""Fully sharded training, a shard for each transformer block."""

import os
from collections.abc import Sequence
from functools import partial

import torch
from mmengine._strategy import FSDPStrategy
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.optim import BaseOptimWrapper
from mmengine.runner._flexible_runner import FlexibleRunner
from torch import Tensor, nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp.wrap import lambda_auto_wrap_policy


class BlockFSDPStrategy(FSDPStrategy):
    """MMEngine's FSDP strategy, repaired and set up for transformers.

    Repairs of MMEngine 0.10.7: training without a GPU, resuming (its arguments to PyTorch's
    ``optim_state_dict_to_load`` are in the wrong order), and clipping gradients by the norm of
    the whole model, where it takes the norm of the process's own shard. Checkpoints are whole
    and load into a plain model.

    Args:
        blocks: Names of the classes to shard apart; a subclass counts.
        model_wrapper: Arguments of ``MMFullyShardedDataParallel``, over the defaults made here.
        **kwargs: As ``mmengine._strategy.FSDPStrategy``.
    """

    def __init__(
        self,
        *,
        blocks: Sequence[str] = ("TransformerBlock",),
        model_wrapper: dict | None = None,
        **kwargs,
    ) -> None:
        super().__init__(state_dict_cfg="full", **kwargs)
        on_cpu = get_device() == "cpu"
        names = frozenset(blocks)
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
    """Switch ``cfg`` to fully sharded training.

    Raises:
        ValueError: If the processes have no launcher.
    """
    if cfg.launcher == "none":
        raise ValueError("--strategy fsdp needs a launcher: start it with tools/dist_train.sh")
    cfg.runner_type = "mmvidformer.engine.ShardedRunner"
    cfg.strategy = dict(type="mmvidformer.engine.BlockFSDPStrategy")


def _is_one_of(module: nn.Module, names: frozenset[str]) -> bool:
    return any(base.__name__ in names for base in type(module).__mro__)


def _clip_all_shards(
    model: FullyShardedDataParallel, params: list[Tensor], **kwargs: float
) -> Tensor:
    return model.clip_grad_norm_(**kwargs)
