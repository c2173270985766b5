"""Checkpoints of ViViT as scenic writes them, from models of HuggingFace."""

import msgpack
import numpy as np
import pytest
import transformers
from torch import nn


def flax(model: nn.Module) -> dict[str, np.ndarray]:
    """Weights of HuggingFace's ViViT under the names of scenic."""
    if transformers.__version__ < "5":
        pytest.skip("transformers 5 has other names")
    state = {name.removeprefix("vivit."): v.numpy() for name, v in model.state_dict().items()}
    out = {"cls": state["embeddings.cls_token"]}
    out["Transformer/posembed_input/pos_embedding"] = state["embeddings.position_embeddings"]
    kernel = state["embeddings.patch_embeddings.projection.weight"]
    out["embedding/kernel"] = kernel.transpose(2, 3, 4, 1, 0)
    out["embedding/bias"] = state["embeddings.patch_embeddings.projection.bias"]

    def norm(source: str, target: str) -> None:
        out[f"Transformer/{target}/scale"] = state[f"{source}.weight"]
        out[f"Transformer/{target}/bias"] = state[f"{source}.bias"]

    def dense(source: str, target: str, inner: tuple = (), outer: tuple = ()) -> None:
        weight, bias = state[f"{source}.weight"].T, state[f"{source}.bias"]
        rows, columns = inner or weight.shape[:1], outer or weight.shape[1:]
        out[f"{target}/kernel"] = weight.reshape(*rows, *columns)
        out[f"{target}/bias"] = bias.reshape(columns)

    norm("layernorm", "encoder_norm")
    dense("classifier", "output_projection")
    for i in range(2):
        block, target = f"layers.{i}", f"encoderblock_{i}"
        norm(f"{block}.layernorm_before", f"{target}/LayerNorm_0")
        norm(f"{block}.layernorm_after", f"{target}/LayerNorm_1")
        attention = f"Transformer/{target}/MultiHeadDotProductAttention_0"
        for ours, theirs in (("q", "query"), ("k", "key"), ("v", "value")):
            dense(f"{block}.attention.{ours}_proj", f"{attention}/{theirs}", outer=(2, 8))
        dense(f"{block}.attention.o_proj", f"{attention}/out", inner=(2, 8))
        dense(f"{block}.mlp.fc1", f"Transformer/{target}/MlpBlock_0/Dense_0")
        dense(f"{block}.mlp.fc2", f"Transformer/{target}/MlpBlock_0/Dense_1")
    return out


def packed(arrays: dict[str, np.ndarray]) -> bytes:
    """As flax.serialization writes a train state."""
    tree: dict = {}
    for name, array in arrays.items():
        *parents, leaf = ("optimizer/target/" + name).split("/")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        value = np.ascontiguousarray(array)
        content = msgpack.packb((value.shape, value.dtype.name, value.tobytes()))
        node[leaf] = msgpack.ExtType(1, content)
    return msgpack.packb(tree)
