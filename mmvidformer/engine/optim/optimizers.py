from collections.abc import Iterable

from timm.optim import create_optimizer_v2
from torch import Tensor
from torch.optim import Optimizer

from mmvidformer.registry import OPTIMIZERS


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
        ValueError: If there is no such optimizer.
    """
    return create_optimizer_v2([*params], name, **options)
