from torch import nn

FUSED = ("Adam", "AdamW", "SGD")
WAYS_TO_STEP = {"fused", "foreach", "differentiable"}  # of which a config may choose one


def use_fused(optim_wrapper: object, model: nn.Module) -> bool:
    """Let PyTorch's optimizers update all weights on a GPU in few kernels (``fused=True``).

    Nothing changes where a weight is elsewhere or of integers, which such kernels refuse, for other
    optimizers, and if the config says how to step (``fused``, ``foreach``, ``differentiable``).

    Args:
        optim_wrapper: Config of an optimizer wrapper, whose ``optimizer`` is changed; others, such
            as None and built ones, stay.
        model: The model, on its device.

    Returns:
        Whether ``optim_wrapper`` was changed.
    """
    optimizer = optim_wrapper.get("optimizer") if isinstance(optim_wrapper, dict) else None
    if not isinstance(optimizer, dict) or optimizer.get("type") not in FUSED:
        return False
    weights = list(model.parameters())
    fits = all(weight.is_cuda and weight.is_floating_point() for weight in weights)
    if not (weights and fits) or WAYS_TO_STEP & optimizer.keys():
        return False
    optimizer["fused"] = True
    return True
