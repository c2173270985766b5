"""The attention weights of a block, as matrices; of any kernel, also where it never forms them."""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from mmvidformer.errors import UserError
from mmvidformer.layers import Kernel, TransformerBlock
from mmvidformer.models.fast.run_lengths import without_runs
from mmvidformer.sinks.figures import without_formulas


@torch.no_grad()
def attention_matrices(
    backbone: nn.Module, clip: Tensor, layer: int = -1
) -> list[tuple[str, Tensor]]:
    """Compute the attention weights of a block on a clip.

    Outputs of kernels are linear in the values for given queries and keys, so the weights are the
    output for one-hot values. Memory grows with the square of the tokens of a group.

    Args:
        backbone: A model of ``mmvidformer.layers`` in evaluation mode.
        clip: Normalized pixels (1, C, T, H, W).
        layer: Index of the block.

    Returns:
        For each call of a kernel in the block the name of the sub-layer and the weights (G, n, S,
        S') of its groups and heads, of keys for queries. There is a call for each pattern, and
        another for a class token that attends alone; one that joins the groups comes first in them.

    Raises:
        UserError: If the model has no such block.
    """
    backbone = without_runs(backbone)
    blocks = [module for module in backbone.modules() if isinstance(module, TransformerBlock)]
    if not -len(blocks) <= layer < len(blocks):
        name = type(backbone).__name__
        raise UserError(f"layer must be an index of the {len(blocks)} blocks of {name}: {layer}")
    calls: list[tuple[str, Kernel, Sequence]] = []

    def record(name: str, kernel: Kernel, inputs: tuple) -> None:
        calls.append((name, kernel, inputs))

    with ExitStack() as hooks:
        for name, sub in blocks[layer].sublayers.items():
            hooks.enter_context(sub.attn.kernel.register_forward_pre_hook(partial(record, name)))
        backbone(clip)
    matrices = []
    for name, kernel, (q, k, v, *mask) in calls:
        one_hot = torch.eye(v.shape[-2], dtype=v.dtype, device=v.device)  # (S', S')
        one_hot = one_hot.expand(*v.shape[:2], -1, -1)  # (G, n, S', S')
        matrices.append((name, kernel(q, k, one_hot, *mask)))
    return matrices


def draw_matrices(
    matrices: Sequence[tuple[str, Tensor]],
    group: int | None = None,
    head: int | None = None,
    title: str = "",
) -> Figure:
    """Draw a matrix for each sub-layer; brighter is larger, each with colors of its own.

    Args:
        matrices: What ``attention_matrices`` returned.
        group: Index of the group of tokens (default: the middle one).
        head: Index of the head (default: the mean of all heads).
        title: Title of the figure.

    Raises:
        UserError: If there is no such group or head.
    """
    figure = Figure(figsize=(4.6 * len(matrices), 4.4), dpi=110, layout="constrained")
    figure.suptitle(title, fontsize=10)
    panels = figure.subplots(1, len(matrices), squeeze=False)[0]
    for axes, (name, weights) in zip(panels, matrices, strict=True):
        groups, heads = weights.shape[:2]
        index = groups // 2 if group is None else group
        if not 0 <= index < groups:
            raise UserError(f"group must be from 0 to {groups - 1} in {name}, got {index}")
        if head is not None and not 0 <= head < heads:
            raise UserError(f"head must be from 0 to {heads - 1} in {name}, got {head}")
        of_heads = weights[index].float().cpu()  # (n, S, S')
        matrix = of_heads.mean(0) if head is None else of_heads[head]
        axes.set_title(f"{name}, group {index + 1} of {groups}", fontsize=10)
        axes.set(xlabel="key", ylabel="query")
        image = axes.imshow(matrix.numpy(), cmap="viridis", aspect="auto", interpolation="nearest")
        figure.colorbar(image, ax=axes, fraction=0.05, pad=0.02)
    return without_formulas(figure)
