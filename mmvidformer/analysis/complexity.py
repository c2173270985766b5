"""Parameters and multiply-accumulates of a config's model."""

from dataclasses import dataclass
from functools import partial

import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from mmvidformer.config import clip_shape, is_recurrent
from mmvidformer.registry import MODELS


@dataclass(frozen=True)
class Complexity:
    """Size of a model.

    Args:
        parameters: Learned numbers, the classifier included.
        macs: Multiply-accumulates of one view: matrix products, convolutions and attention;
            norms, softmax and activations are not counted.
        shape: The view, (C, T, H, W).
    """

    parameters: int
    macs: int
    shape: tuple[int, int, int, int]


def count(cfg: Config, shape: tuple[int, int, int, int] | None = None) -> Complexity:
    """Count one forward pass, without computing it.

    Args:
        cfg: A recognition config of this package.
        shape: View (C, T, H, W); default: what the backbone is made for.

    Returns:
        The counts.

    Raises:
        ValueError: If the model is recurrent and no ``shape`` is given: frames go through a net,
            its maps through layers whose cost depends on the length of the clip.
    """
    if is_recurrent(cfg) and shape is None:
        raise ValueError(
            f"{cfg.model.neck.type} goes from frame to frame, and has no view of one size to count"
        )
    with DefaultScope.overwrite_default_scope("mmaction"), torch.device("meta"):
        shape = shape or clip_shape(cfg)
        if is_recurrent(cfg):
            model: nn.Module = MODELS.build(cfg.model)
            model.forward = partial(_logits, model)
        else:
            parts = (MODELS.build(cfg.model[part]) for part in ("backbone", "cls_head"))
            model = nn.Sequential(*parts)
        model.eval().requires_grad_(False)
        clip = torch.empty(1, *shape)
    parameters = sum(p.numel() for p in model.parameters())
    return Complexity(parameters, count_products(model, clip), shape)


def _logits(model: nn.Module, clip: Tensor) -> object:
    """Scores of a recurrent recogniser for one clip (1, C, T, H, W)."""
    return model.extract_feat(clip.transpose(1, 2), stage="head")[0]


def count_products(module: nn.Module, *inputs: Tensor) -> int:
    """Multiply-accumulates of one call (see ``Complexity``); the meta device computes nothing."""
    with FlopCounterMode(display=False) as counter:
        module(*inputs)
    return counter.get_total_flops() // 2
