"""Rows of key maps for the layers of Flax checkpoints (scenic, Google's ViT)."""

from collections.abc import Mapping

import torch

from mmvidformer.convert.keymap import KEEP, Op, Rule

PREFIXES = ("optimizer/target/", "opt/target/", "params/")
# Other parts of a train state.
TRAIN_STATE = (
    r"(opt|optimizer|opt_state|model_state)(/.*)?",
    r"global_step|rng|accum_train_time|step",
)

TRANSPOSE = Op(lambda kernel: (kernel.T,))
# Convolution kernels (t, h, w, C, D), or (h, w, C, D) of single frames.
CONV = Op(lambda k: ((k if k.dim() == 5 else k[None]).permute(4, 3, 0, 1, 2),))
HEADS_IN = Op(lambda *kernels: (torch.cat([k.flatten(1).T for k in kernels]),))  # (D, n, d) each
HEADS_BIAS = Op(lambda *biases: (torch.cat([b.flatten() for b in biases]),))  # (n, d) each
HEADS_OUT = Op(lambda kernel: (kernel.flatten(0, 1).T,))  # (n, d, D)

LAYERS: dict[str, tuple[tuple[tuple[str, ...], str, Op], ...]] = {
    "norm": ((("scale",), "weight", KEEP), (("bias",), "bias", KEEP)),
    "dense": ((("kernel",), "weight", TRANSPOSE), (("bias",), "bias", KEEP)),
    "conv": ((("kernel",), "weight", CONV), (("bias",), "bias", KEEP)),
    "attention": (
        (("query/kernel", "key/kernel", "value/kernel"), "qkv.weight", HEADS_IN),
        (("query/bias", "key/bias", "value/bias"), "qkv.bias", HEADS_BIAS),
        (("out/kernel",), "proj.weight", HEADS_OUT),
        (("out/bias",), "proj.bias", KEEP),
    ),
}


def layer_rules(source: str, target: str, layer: str, optional: bool = False) -> list[Rule]:
    """Return the rows for one layer of a kind in ``LAYERS``, from a Flax tree to this package."""
    return [
        Rule(tuple(f"{source}/{part}" for part in parts), (f"{target}.{name}",), op, optional)
        for parts, name, op in LAYERS[layer]
    ]


def block_rules(
    source: str, target: str, sublayers: Mapping[str, tuple[str, str]], norm: str, mlp: str
) -> list[Rule]:
    """Return the rows for all blocks of an encoder, whose names have ``{i}``.

    Args:
        source: Path of a block in the Flax tree.
        target: Name of a block in this package.
        sublayers: Norm and attention in the source, by sub-layer.
        norm: Norm before the MLP in the source.
        mlp: MLP in the source.
    """
    parts = [(norm, "norm", "norm")]
    parts += [(f"{mlp}/Dense_{i}", f"mlp.fc{i + 1}", "dense") for i in range(2)]
    for name, (before, attention) in sublayers.items():
        parts.append((before, f"sublayers.{name}.norm", "norm"))
        parts.append((attention, f"sublayers.{name}.attn", "attention"))
    return [
        rule
        for theirs, ours, layer in parts
        for rule in layer_rules(f"{source}/{theirs}", f"{target}.{ours}", layer)
    ]
