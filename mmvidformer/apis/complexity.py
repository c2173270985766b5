"""Parameters and multiply-accumulates of a config's model."""

from dataclasses import dataclass

import torch
from mmengine.config import Config
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from mmvidformer.catalog import MODELS
from mmvidformer.config import clip_shape, is_recurrent
from mmvidformer.config.building import building
from mmvidformer.errors import UserError


@dataclass(frozen=True)
class Complexity:
    """Size of a model.

    Args:
        parameters: Number of learned parameters, classifier included.
        macs: Multiply-accumulates of one view in matrix multiplications, convolutions and
            attention. Norms, softmax and activations are not counted.
        shape: Shape (C, T, H, W) of the view.
    """

    parameters: int
    macs: int
    shape: tuple[int, int, int, int]


def count(cfg: Config, shape: tuple[int, int, int, int] | None = None) -> Complexity:
    """Count one forward pass on the meta device, without computing it.

    Args:
        cfg: Recognition config of this package.
        shape: Shape (C, T, H, W) of the view. Default: the one that the backbone is built for.

    Raises:
        UserError: If the model is recurrent and ``shape`` is None, since its cost depends on the
            length of the clip.
    """
    recurrent = is_recurrent(cfg)
    if recurrent and shape is None:
        raise UserError(f"{cfg.model.type} is recurrent and has no view of one size to count")
    with building(cfg), torch.device("meta"):
        shape = shape or clip_shape(cfg)
        if recurrent:
            model: nn.Module = MODELS.build(cfg.model)
            model.forward = lambda clip: model.extract_feat(clip.transpose(1, 2), stage="head")
        else:
            parts = (MODELS.build(cfg.model[part]) for part in ("backbone", "cls_head"))
            model = nn.Sequential(*parts)
        model.eval().requires_grad_(False)
        clip = torch.empty(1, *shape)
    parameters = sum(p.numel() for p in model.parameters())
    return Complexity(parameters, count_macs(model, clip), shape)


def count_macs(module: nn.Module, *inputs: Tensor) -> int:
    """Count the multiply-accumulates of one call (see ``Complexity``)."""
    # Before PyTorch 2.15 the counter does not know fused attention on a CPU.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        module(*inputs)
    return counter.get_total_flops() // 2
