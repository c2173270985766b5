"""What a user of an exported file must know: its classes, its inputs, and how to make them."""

import inspect
import json
from collections.abc import Mapping, Sequence
from typing import Any

from mmvidformer.catalog import TRANSFORMS
from mmvidformer.export.graphs import ClipGraph

KEY = "mmvidformer"  # of the card in the metadata of an ONNX file
FILE = "mmvidformer.json"  # the card in a .pt2 file


def make_card(
    graph: ClipGraph,
    config: str,
    transforms: Sequence[Mapping[str, Any]],
    names: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """Describe an exported graph in plain data, which ``export`` writes into the file.

    Args:
        graph: Result of ``make_graph``.
        config: Name of the config.
        transforms: The test pipeline as a config has it; for a stream, the part that it applies.
        names: Class names by task.

    Returns:
        ``config``; ``inputs`` and ``outputs`` by name; ``normalize``; and ``transforms``, with all
        arguments. docs/export.md describes them.
    """
    preprocessor = graph.model.data_preprocessor
    inputs: dict[str, dict[str, Any]] = {}
    for name, example in zip(graph.input_names, graph.inputs(batch=1)[0], strict=True):
        dtype = str(example.dtype).removeprefix("torch.")
        shape = [None, *example.shape[1:]] if example.dim() else []
        inputs[name] = {"shape": shape, "dtype": dtype}
    values = "RGB, 0 to 255" if graph.dtype else "RGB, 0 to 255, then normalize"
    inputs[graph.input_names[0]]["values"] = values
    mean, std = (getattr(preprocessor, name, None) for name in ("mean", "std"))
    return {
        "config": config,
        "inputs": inputs,
        "outputs": graph.task.describe_outputs(graph.model.cls_head, names),
        "normalize": {
            "by": "the graph" if graph.dtype else "you",
            "flip_channels": bool(preprocessor.to_rgb),
            "mean": [0.0] * 3 if mean is None else mean.flatten().tolist(),
            "std": [1.0] * 3 if std is None else std.flatten().tolist(),
        },
        "transforms": [with_defaults(transform) for transform in transforms],
    }


def with_defaults(transform: Mapping[str, Any]) -> dict[str, Any]:
    """Copy the config of a transform, with the defaults of its class, as plain data."""
    transform_class = transform["type"]
    if isinstance(transform_class, str):
        transform_class = TRANSFORMS.get(transform_class)
    parameters = inspect.signature(transform_class).parameters.values()
    arguments = {p.name: p.default for p in parameters if p.default is not p.empty}
    arguments |= {**transform, "type": transform_class.__name__}
    return json.loads(json.dumps(arguments, default=str))
