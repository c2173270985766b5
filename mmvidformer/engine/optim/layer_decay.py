"""Learning rates that decay from the head to the first layers."""

from mmengine.optim import DefaultOptimWrapperConstructor
from torch import nn

from mmvidformer.registry import OPTIM_WRAPPER_CONSTRUCTORS


@OPTIM_WRAPPER_CONSTRUCTORS.register_module()
class LayerDecayOptimWrapperConstructor(DefaultOptimWrapperConstructor):
    """MMEngine's constructor, with learning rates multiplied by a power of ``layer_decay``.

    For ViViT, TimeSformer and feature fixation. MMAction2's constructor with layer decay supports
    other classes only. With L blocks (both encoders of ViViT's model 2 count, one after the other),
    block l of 1 to L gets ``layer_decay ** (L + 1 - l)``. Embedding, positions and class token are
    layer 0; the last norm and the head keep the rate, as in BEiT. What lies between two encoders
    (norm of the first, positions and class token of the second) belongs to the last block of the
    first.

    The other keys of ``paramwise_cfg`` work as in MMEngine, and their factors are multiplied.

    Args:
        paramwise_cfg: MMEngine's keys, and ``layer_decay`` in (0, 1].

    Raises:
        ValueError: If ``layer_decay`` is missing or out of range.
        TypeError: If the model's backbone has no encoder of blocks.
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


def _encoder_depths(model: nn.Module) -> tuple[int, int]:
    """Count the blocks of the backbone's encoder and temporal encoder (0 if it has none)."""
    backbone = getattr(model, "backbone", None)
    encoders = [getattr(backbone, name, None) for name in ("encoder", "temporal_encoder")]
    if not hasattr(encoders[0], "blocks"):
        raise TypeError(
            "layer decay needs a backbone with an encoder of blocks (ViViT, TimeSformer, "
            f"FeatureFixationTransformer), got {type(backbone).__name__}"
        )
    return tuple(0 if encoder is None else len(encoder.blocks) for encoder in encoders)


def _layer_of(name: str, depths: tuple[int, int]) -> int:
    """Return the layer of a recognizer's parameter, from 0 (embedding) to L + 1 (head)."""
    parts = name.split(".")
    if parts[:2] == ["backbone", "embed"]:
        return 0
    if parts[0] != "backbone" or parts[1] not in ("encoder", "temporal_encoder"):
        return sum(depths) + 1
    before = depths[0] if parts[1] == "temporal_encoder" else 0
    if parts[2] == "blocks":
        return before + int(parts[3]) + 1
    if parts[2] == "norm":
        return depths[0] if parts[1] == "encoder" and depths[1] else sum(depths) + 1
    return before  # positions and class token
