"""Attention rollout (Abnar & Zuidema, ACL 2020): how much of each input token reaches the output.

With A the attention weights of a layer, averaged over its heads, tokens are mixed by
``A' = A / 2 + I / 2``, and the product of the layers' A' is the share of each input token in each
output token. Linear layers, MLPs, norms of tokens and the size of the values are ignored.

The product itself is never computed. Its row for the pooled output is a gradient: the model's
forward pass is run a second time on a mass of one per token instead of features. Each attention
keeps the queries and keys of the first pass, everything else becomes the identity. That pass is
linear, so the gradient of the pooled mass with respect to a token's mass is the token's share.
Schemes, pooling and the two encoders of ViViT's model 2 need no special cases, and the memory is
that of the attention itself.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mmvidformer.errors import UserError
from mmvidformer.layers import Attention, Context, Encoder, LayerScale, Mlp, Stem, TransformerBlock
from mmvidformer.layers.tokens import Size
from mmvidformer.models.fast.run_lengths import without_runs


@dataclass(frozen=True)
class Rollout:
    """Shares of the input tokens in a backbone's output, and that output.

    Attributes:
        tokens: Shares of the tubelets (B, T, H, W), not negative. Without class token their sum
            is 1.
        cls: Share of the class tokens' initial value (B,), the rest to 1.
        features: Output of the backbone (B, D).
    """

    tokens: Tensor
    cls: Tensor
    features: Tensor


def rollout(backbone: nn.Module, clip: Tensor) -> Rollout:
    """Compute the shares of the input tokens in a backbone's pooled output.

    Args:
        backbone: A model of ``mmvidformer.layers`` that maps clips to features (B, D), such as
            ``ViViT`` or ``TimeSformer``, in evaluation mode.
        clip: Normalized pixels (B, C, T', H', W').

    Returns:
        The shares and the features, on the clip's device.

    Raises:
        UserError: If the model is in training mode, does not have one ``Stem`` and
            attention, or has a layer for which rollout is not defined: one that rollout does not
            know, or attention whose rows do not sum to 1.
    """
    backbone, name = without_runs(backbone), type(backbone).__name__
    if backbone.training:
        raise UserError(f"{name} is in training mode; call its eval() first")
    embeds = [m for m in backbone.modules() if isinstance(m, Stem)]
    if len(embeds) != 1 or not any(isinstance(m, Attention) for m in backbone.modules()):
        raise UserError(
            "rollout needs a model with one Stem and with Attention of "
            f"mmvidformer.layers; {name} has {len(embeds)} stems"
        )
    with torch.no_grad(), _recorded(backbone, embeds[0]) as seen:
        features = backbone(clip)
    mass = clip.new_ones(*seen[embeds[0]].shape[:4], 1, requires_grad=True)
    with torch.enable_grad(), _made_linear(backbone, seen, mass):
        pooled = backbone(clip)
        if not torch.allclose(pooled, torch.ones_like(pooled), atol=1e-3):
            raise UserError(
                f"{name} turns a mass of 1 into {pooled.flatten()[0]:.4f}: it has a layer that "
                "rollout does not know, or attention weights that do not sum to 1"
            )
        (share,) = torch.autograd.grad(pooled.sum(), mass)
    tokens = share[..., 0]
    return Rollout(tokens, 1 - tokens.sum(dim=(1, 2, 3)), features)


@contextmanager
def _recorded(backbone: nn.Module, embed: Stem) -> Iterator[dict]:
    """Record the inputs of each attention (tokens, context) and the embedding's output."""
    seen: dict[nn.Module, Tensor | tuple] = {}
    attentions = [module for module in backbone.modules() if isinstance(module, Attention)]

    def keep_inputs(module: nn.Module, inputs: tuple) -> None:
        seen[module] = inputs[:2]

    def keep_output(module: nn.Module, inputs: tuple, output: Tensor) -> None:
        seen[module] = output

    with ExitStack() as hooks:
        hooks.enter_context(embed.register_forward_hook(keep_output))
        for attn in attentions:
            hooks.enter_context(attn.register_forward_pre_hook(keep_inputs))
        yield seen


@contextmanager
def _made_linear(backbone: nn.Module, seen: dict, mass: Tensor) -> Iterator[None]:
    """Make the model's forward pass carry mass (B, T, H, W, 1) instead of features."""
    substitutes: dict[nn.Module, Callable] = {}
    attentions = nn.ModuleList(part for part in backbone.modules() if isinstance(part, Attention))
    within = {*attentions.modules()}  # whose norms shape the weights
    for module in backbone.modules():
        if module in within:
            continue
        if isinstance(module, Stem):
            substitutes[module] = lambda clip, *unused: mass
        elif isinstance(module, nn.LayerNorm | LayerScale):
            substitutes[module] = lambda x: x
        elif isinstance(module, Encoder):  # a change of width keeps the mass
            substitutes[module.proj] = lambda x: x
            substitutes[module.pos_embed] = _no_positions
        elif isinstance(module, Mlp):
            substitutes[module] = torch.zeros_like
        elif isinstance(module, TransformerBlock):
            # The residual has the weight of each attention that is added to it.
            weight = 1 / (1 + len(module.sublayers)) if module.parallel else 1 / 2
            for sub in module.sublayers.values():
                exchange = partial(_exchange, sub.attn, seen[sub.attn], weight)
                substitutes[sub.attn] = exchange
                if sub.fc is not None:
                    substitutes[sub.fc] = lambda x: x
    optimized = {module: vars(module).get("forward") for module in substitutes}
    try:
        for module, forward in substitutes.items():
            module.forward = forward  # on the instance, before the method of the class
        yield
    finally:
        for module in substitutes:
            vars(module).pop("forward", None)
            if optimized[module] is not None:
                module.forward = optimized[module]


def _no_positions(
    size: Size, like: Tensor, cls: Tensor | None = None, *unused: object
) -> tuple[list[Tensor], Tensor | None]:
    # An encoder's class token enters here, with a mass of one like each token.
    return [], None if cls is None else torch.ones_like(cls[..., :1])


def _exchange(
    attn: Attention,
    inputs: tuple[Tensor, Context],
    weight: float,
    mass: Tensor,
    context: Context,
    *unused: object,
) -> Tensor:
    """Update of an attention, ``weight * (A - I)``, on mass (B, P + T H W, 1).

    An optimized model computes that of the prefix alone in its last block.
    """
    seen = inputs[1]._replace(prefix_only=context.prefix_only)

    def exchange(mass: Tensor) -> Tensor:
        with torch.no_grad():
            q, k, v = attn.project(*inputs)
        out = attn.mix(q, k, _as_values(mass, v), seen)
        return weight * (out.mean(-1, keepdim=True) - mass[:, : out.shape[1]])

    # Queries and keys are projected again in the backward pass instead of being kept.
    return checkpoint(exchange, mass, use_reentrant=False)


def _as_values(mass: Tensor, values: Tensor) -> Tensor:
    """Repeat mass (..., 1) in every channel of values (..., n, d).

    The mean over the channels after the attention is then the mean over its heads, and the
    fused kernels, which want values as wide as keys, stay in use.
    """
    return mass[..., None].expand_as(values).contiguous()
