"""ONNX files whose linear layers multiply in 8 bits, by ONNX Runtime's quantizer."""

import logging
from pathlib import Path
from typing import Any

from mmvidformer.errors import UserError

SCOPES = "pkg.torch.onnx.name_scopes"  # where PyTorch writes the modules of a node


def round_to_int8(source: Path, target: Path) -> None:
    """Write a file of ``export`` with linear layers of 8 bits: weights once, inputs in each call.

    Weights have 7 bits, so that products do not overflow on processors without VNNI, and a scale
    for each output. Gates, the embedding, and heads but for their blocks stay in float32.

    Args:
        source: The file.
        target: File to write.

    Raises:
        UserError: If no encoder has such layers.
    """
    import onnx  # part of the extra 'export', as the next
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = onnx.load(source)
    del model.graph.value_info[:]  # PyTorch's shapes of what was folded, which are wrong
    # Stacks of matrices, as of a recurrence, have no kernel of 8 bits.
    weights = {tensor.name for tensor in model.graph.initializer if len(tensor.dims) == 2}
    layers = [
        node.name
        for node in model.graph.node
        if node.op_type == "MatMul" and node.input[1] in weights and is_linear_layer(node)
    ]
    if not layers:
        raise UserError("int8 is for a VideoTransformer; leave it out")
    logger = logging.getLogger()  # of the quantizer, which advises what is done here
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        quantize_dynamic(
            model,
            target,
            nodes_to_quantize=layers,
            per_channel=True,
            reduce_range=True,
            weight_type=QuantType.QInt8,
        )
    finally:
        logger.setLevel(level)


def is_linear_layer(node: Any) -> bool:
    """Return whether a node is of an encoder, or a block of a head, but not of gates.

    Gates belong to attention.
    """
    scopes = {entry.key: entry.value for entry in node.metadata_props}.get(SCOPES, "")
    in_block = ".encoders." in scopes or ".pooling.blocks." in scopes
    return in_block and ".fixation." not in scopes
