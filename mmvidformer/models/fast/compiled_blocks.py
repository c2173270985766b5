from inspect import signature

import torch
from torch import nn

from mmvidformer.errors import UserError
from mmvidformer.layers import TransformerBlock

GRAPHS = 4  # of a block: with and without gradients, for two sizes of the input


def compile_blocks(model: nn.Module, **options: object) -> None:
    """Compile each block of the encoders of a model for itself, in place.

    Blocks of one shape share a graph, so this takes less time than to compile a whole model. Where
    ``torch.compile`` has no ``recompile_limit`` (PyTorch 2.6), that of the process is raised.

    Args:
        model: Any module; what is no block runs as before.
        **options: Arguments of ``torch.compile``.

    Raises:
        UserError: If the model has no blocks.
    """
    blocks = [part for part in model.modules() if isinstance(part, TransformerBlock)]
    if not blocks:
        raise UserError(f"{type(model).__name__} has no TransformerBlock to compile")
    # They differ in their rate of stochastic depth, and only 8 graphs are made by default.
    limit, config = GRAPHS * len(blocks), torch._dynamo.config
    if "recompile_limit" in signature(torch.compile).parameters:
        options = {"recompile_limit": limit, **options}
    else:
        config.cache_size_limit = max(config.cache_size_limit, limit)
    for block in blocks:
        block.compile(**options)
