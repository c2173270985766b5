"""timm's optimizers under the names that configs use."""

from collections.abc import Iterable, Mapping

from timm.optim.adabelief import AdaBelief
from timm.optim.lookahead import Lookahead as TimmLookahead
from torch import Tensor

from mmvidformer.registry import OPTIMIZERS

OPTIMIZERS.register_module(module=AdaBelief)


@OPTIMIZERS.register_module()
class Lookahead(TimmLookahead):
    """timm's Lookahead, built from the config of the optimizer that it wraps.

    Zhang et al., "Lookahead Optimizer: k steps forward, 1 step back" (2019). timm initializes the
    slow weights from the fast ones at step k. Checkpoints hold the fast weights.

    Args:
        params: Parameters or parameter groups.
        base: Config of the wrapped optimizer.
        lr: Learning rate. Default: that of ``base``.
        weight_decay: Weight decay. Default: that of ``base``. Set both here and not in ``base``,
            since MMEngine scales them here for parameter groups.
        k: Number of steps between two updates of the slow weights. The paper uses 5, timm 6.
        alpha: Step size of the slow weights towards the fast ones, in [0, 1].

    Raises:
        ValueError: If ``k`` or ``alpha`` is out of range.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict],
        base: Mapping,
        lr: float | None = None,
        weight_decay: float | None = None,
        k: int = 6,
        alpha: float = 0.5,
    ) -> None:
        given = {"lr": lr, "weight_decay": weight_decay}
        given = {name: value for name, value in given.items() if value is not None}
        optimizer = OPTIMIZERS.build({**base, **given, "params": params})
        super().__init__(optimizer, alpha=alpha, k=k)
