import torch
from torch import nn

from mmvidformer.layers import TransformerBlock

GRAPHS = 4  # of a block: with and without gradients, for two sizes of the input


def compile_blocks(model: nn.Module, **options: object) -> None:
    """Compile each block of the encoders of a model for itself, in place.

    Blocks of one shape share a graph, so this takes less time than to compile a whole model. It
    raises ``torch._dynamo.config.cache_size_limit`` of the process, the most graphs of a function.

    Args:
        model: Any module; what is no block runs as before.
        **options: Arguments of ``torch.compile``.

    Raises:
        ValueError: If the model has no blocks.
    """
    blocks = [part for part in model.modules() if isinstance(part, TransformerBlock)]
    if not blocks:
        raise ValueError(f"{type(model).__name__} has no TransformerBlock to compile")
    # They differ in their rate of stochastic depth, and only 8 graphs are made by default.
    config = torch._dynamo.config
    config.cache_size_limit = max(config.cache_size_limit, GRAPHS * len(blocks))
    for block in blocks:
        block.compile(**options)
