from collections.abc import Iterable

from mmengine.optim import DefaultOptimWrapperConstructor
from timm.optim import create_optimizer_v2
from torch import Tensor, nn
from torch.optim import Optimizer

from mmvidformer.errors import UserError
from mmvidformer.models.stages import find_stages
from mmvidformer.models.video_transformer import VideoTransformer
from mmvidformer.registry import OPTIM_WRAPPER_CONSTRUCTORS, OPTIMIZERS


@OPTIMIZERS.register_module(name="TimmOptimizer")
def timm_optimizer(
    params: Iterable[Tensor] | Iterable[dict], name: str, **options: object
) -> Optimizer:
    """Build one of timm's optimizers.

    Args:
        params: Parameters or parameter groups.
        name: Name in ``timm.optim.list_optimizers()``, such as ``'lamb'``; ``'lookahead_'`` before
            it wraps it in Lookahead (k = 6, alpha = 0.5), whose checkpoints hold the fast weights.
        **options: Arguments of the optimizer, such as ``lr``, ``weight_decay``, ``betas``, ``eps``.

    Raises:
        UserError: If there is no such optimizer.
    """
    return create_optimizer_v2([*params], name, **options)


@OPTIM_WRAPPER_CONSTRUCTORS.register_module()
class LayerDecayOptimWrapperConstructor(DefaultOptimWrapperConstructor):
    """MMEngine's constructor, with learning rates multiplied by a power of ``layer_decay``.

    For ``VideoTransformer`` and its presets, which MMAction2's constructor does not support. With L
    blocks (those of all encoders count, one after the other), block l of 1 to L gets
    ``layer_decay ** (L + 1 - l)``. Embedding, positions and class token are layer 0; the last norm
    and the head keep the rate, as in BEiT. What lies between two encoders belongs to the last block
    of the first. Factors by other keys of ``paramwise_cfg`` are multiplied.

    Args:
        paramwise_cfg: MMEngine's keys, and ``layer_decay`` in (0, 1].

    Raises:
        UserError: If ``layer_decay`` is missing or out of range.
        TypeError: If the backbone is not a ``VideoTransformer``.
    """

    def add_params(self, params: list[dict], module: nn.Module, prefix: str = "", **kwargs) -> None:
        """Append a group for each parameter of ``module``, then scale the learning rates."""
        super().add_params(params, module, prefix=prefix, **kwargs)
        if prefix:  # MMEngine calls this method again for each submodule
            return
        decay = self.paramwise_cfg.get("layer_decay")
        if decay is None or not 0 < decay <= 1:
            raise UserError(f"paramwise_cfg.layer_decay must be in (0, 1], got {decay}")
        backbone = getattr(module, "backbone", None)
        if not isinstance(backbone, VideoTransformer):
            name = type(backbone).__name__
            raise TypeError(f"layer decay needs a VideoTransformer as the backbone, got {name}")
        stages = find_stages(backbone)
        depth = len(stages) - 1
        layers = {id(p): i for i, stage in enumerate(stages) for p in stage.parameters()}
        for group in params:
            layer = layers.get(id(group["params"][0]), depth)  # the head is as deep as the norm
            group["lr"] = group.get("lr", self.base_lr) * decay ** (depth - layer)
