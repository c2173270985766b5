"""timm's optimisers under the names that configs give."""

from collections.abc import Iterable, Mapping

from timm.optim.adabelief import AdaBelief
from timm.optim.lookahead import Lookahead as TimmLookahead
from torch import Tensor

from mmvidformer.registry import OPTIMIZERS

OPTIMIZERS.register_module(module=AdaBelief)


@OPTIMIZERS.register_module()
class Lookahead(TimmLookahead):
    """Lookahead around another optimiser: every k steps the weights go back by a part.

    Zhang et al. 2019. timm's, which takes the slow weights first at step k, from the fast ones;
    weights in between, and so those of a checkpoint, are the fast ones.

    Args:
        params: Parameters or groups of them.
        base: Config of the optimiser around which it goes.
        lr: Its learning rate; default: its own.
        weight_decay: Its weight decay; default: its own. Rate and decay stand here, and not in
            ``base``, where MMEngine multiplies them for groups of parameters.
        k: Steps between two updates of the slow weights; the paper's text says 5, timm 6.
        alpha: Part of the way from the slow weights to the fast ones.

    Raises:
        ValueError: If ``k`` is below 1 or ``alpha`` not between 0 and 1.
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
