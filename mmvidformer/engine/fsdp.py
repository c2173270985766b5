from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from mmengine.device import get_device
from mmengine.dist import get_world_size, is_main_process
from mmengine.optim import OptimWrapper
from mmengine.utils import apply_to
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer

from mmvidformer.engine.quiet import QuietRunner
from mmvidformer.registry import RUNNERS


def shard_model(
    model: nn.Module,
    blocks: Sequence[str] = ("TransformerBlock",),
    param_dtype: str | None = None,
    reshard_after_forward: bool = True,
) -> nn.Module:
    """Shard the parameters of a model over all processes, in place, and return it.

    ``state_dict``, which all processes must call, gives complete weights on the CPU of the main
    process, and their shapes (on the meta device) elsewhere. Complete weights load as usual.

    Args:
        model: Model on the device of this process, with the same weights in all processes.
        blocks: Names of the classes of which each module is gathered at once; subclasses are
            included. The rest of the model is gathered as a whole.
        param_dtype: Type in which to compute and to gather weights, such as ``'bfloat16'``; by
            default that of the weights, which stay as they are.
        reshard_after_forward: Whether to free gathered weights between the forward and the backward
            pass of a block, which costs communication.
    """
    mesh = init_device_mesh(torch.device(get_device()).type, (get_world_size(),))
    dtype = param_dtype and getattr(torch, param_dtype)
    # Blocks also get tables of positions and counts of tokens, which keep their precision.
    inner = MixedPrecisionPolicy(dtype, torch.float32, cast_forward_inputs=False)
    outer = MixedPrecisionPolicy(dtype, torch.float32, output_dtype=torch.float32)
    for module in list(model.modules()):
        if any(base.__name__ in blocks for base in type(module).__mro__):
            settings = dict(mesh=mesh, reshard_after_forward=reshard_after_forward)
            fully_shard(module, mp_policy=inner, **settings)
            if dtype is not None:
                module.register_forward_pre_hook(partial(_cast_tokens, dtype))
    fully_shard(model, mesh=mesh, mp_policy=outer)
    for module in model.modules():
        module.register_load_state_dict_pre_hook(_shard_weights)
    model.register_state_dict_post_hook(lambda _, state, *__: state.update(_complete(state)))
    return model


def shard_optimizer(optimizer: Optimizer) -> None:
    """Let an optimizer save and load its state as a model of ``shard_model`` does."""
    optimizer.register_load_state_dict_pre_hook(_shard_state)
    optimizer.register_state_dict_post_hook(lambda _, state: _complete(state))


def _cast_tokens(dtype: torch.dtype, block: nn.Module, inputs: tuple) -> tuple:
    tokens, *context = inputs
    return (tokens.to(dtype), *context)


def _shard_weights(module: nn.Module, state: dict, prefix: str, *_: object) -> None:
    for name, param in module.named_parameters(recurse=False):
        if prefix + name in state:
            state[prefix + name] = _like(param, state[prefix + name])


def _shard_state(optimizer: Optimizer, saved: dict) -> dict:
    params = [param for group in optimizer.param_groups for param in group["params"]]
    sharded = {}
    for number, state in saved["state"].items():
        param = params[number]
        sharded[number] = {name: _like(param, value) for name, value in state.items()}
    return {**saved, "state": sharded}


def _like(param: Tensor, value: Any) -> Any:
    """Shard a complete tensor if a parameter of its size is sharded."""
    if not isinstance(param, DTensor) or getattr(value, "shape", None) != param.shape:
        return value
    return distribute_tensor(value.to(param.device), param.device_mesh, param.placements)


def _complete(tree: dict) -> dict:
    def gather(tensor: DTensor) -> Tensor:
        return tensor.full_tensor().to("cpu" if is_main_process() else "meta")

    return apply_to(tree, lambda leaf: isinstance(leaf, DTensor), gather)


@RUNNERS.register_module()
class ShardedRunner(QuietRunner):
    """MMEngine's runner with a sharded model, and with the same checkpoints.

    ``cfg.fsdp`` holds the arguments of ``shard_model``. Sharded parameters are ``DTensor``s.
    """

    def wrap_model(self, model_wrapper_cfg: dict | None, model: nn.Module) -> nn.Module:
        """Initialize the model and shard it; ``model_wrapper_cfg`` is not used."""
        self.model = model.to(get_device())
        super()._init_model_weights()
        return shard_model(self.model, **(self.cfg.get("fsdp") or {}))

    def _init_model_weights(self) -> None:
        """Do nothing: weights are initialized before they are sharded."""

    def build_optim_wrapper(self, optim_wrapper: dict | OptimWrapper) -> OptimWrapper:
        """Build the optimizer wrapper."""
        built = super().build_optim_wrapper(optim_wrapper)
        shard_optimizer(built.optimizer)
        return built

    def save_checkpoint(self, *args, **kwargs) -> None:
        """Save a checkpoint; all processes take part in gathering it."""
        if not is_main_process():
            self.model.state_dict()
            if kwargs.get("save_optimizer", True):
                self.optim_wrapper.state_dict()
        super().save_checkpoint(*args, **kwargs)
