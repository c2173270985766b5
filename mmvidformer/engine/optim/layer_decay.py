"""Learning rates that decay from the head to the first layers."""

from mmengine.optim import DefaultOptimWrapperConstructor
from torch import nn

from mmvidformer.registry import OPTIM_WRAPPER_CONSTRUCTORS


@OPTIM_WRAPPER_CONSTRUCTORS.register_module()
class LayerDecayOptimWrapperConstructor(DefaultOptimWrapperConstructor):
    """MMEngine's constructor, with learning rates multiplied by a power of ``layer_decay``.

    For ``VideoTransformer`` and its presets. MMAction2's constructor with layer decay supports
    other classes only. With L blocks (those of all encoders count, one after the other), block l
    of 1 to L gets ``layer_decay ** (L + 1 - l)``. Embedding, positions and class token are layer 0;
    the last norm and the head keep the rate, as in BEiT. What lies between two encoders (norm of
    the first, positions and class token of the second) belongs to the last block of the first.

    The other keys of ``paramwise_cfg`` work as in MMEngine, and their factors are multiplied.

    Args:
        paramwise_cfg: MMEngine's keys, and ``layer_decay`` in (0, 1].

    Raises:
        ValueError: If ``layer_decay`` is missing or out of range.
        TypeError: If the backbone has no encoders of blocks.
    """

    def add_params(self, params: list[dict], module: nn.Module, prefix: str = "", **kwargs) -> None:
        """Append a group for each parameter of ``module``, then scale the learning rates."""
        super().add_params(params, module, prefix=prefix, **kwargs)
        if prefix:  # MMEngine calls this method again for each submodule
            return
        decay = self.paramwise_cfg.get("layer_decay")
        if decay is None or not 0 < decay <= 1:
            raise ValueError(f"paramwise_cfg.layer_decay must be in (0, 1], got {decay}")
        depths = _encoder_depths(module)
        names = {id(parameter): name for name, parameter in module.named_parameters()}
        for group in params:
            layer = _layer_of(names[id(group["params"][0])], depths)
            scale = decay ** (sum(depths) + 1 - layer)
            group["lr"] = group.get("lr", self.base_lr) * scale


def _encoder_depths(model: nn.Module) -> list[int]:
    """Count the blocks of each encoder of the backbone.

    Raises:
        TypeError: If the backbone has no encoders of blocks.
    """
    backbone = getattr(model, "backbone", None)
    if not hasattr(backbone, "encoders"):
        raise TypeError(
            "layer decay needs a VideoTransformer (such as ViViT, TimeSformer, "
            f"FeatureFixationTransformer) as the backbone, got {type(backbone).__name__}"
        )
    return [len(encoder.blocks) for encoder in backbone.encoders]


def _layer_of(name: str, depths: list[int]) -> int:
    """Return the layer of a recognizer's parameter, from 0 (embedding) to L + 1 (head)."""
    part, *rest = name.removeprefix("backbone.").split(".")
    if not name.startswith("backbone.") or part not in ("embed", "encoders"):
        return sum(depths) + 1
    if part == "embed":
        return 0
    number, inside = int(rest[0]), rest[1]
    before = sum(depths[:number])
    if inside == "blocks":
        return before + int(rest[2]) + 1
    if inside == "norm":
        return before + depths[number] + (number == len(depths) - 1)
    return before  # positions and class token
