"""A model repository for NVIDIA's Triton Inference Server."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from mmvidformer.errors import FileThere, UserError
from mmvidformer.export.graphs import ClipGraph
from mmvidformer.export.write import export
from mmvidformer.storage.atomic import write_together

MODEL = '''"""See mmvidformer.web.triton."""

from mmvidformer.web.triton import TritonPythonModel  # noqa: F401
'''
READER = """name: "{name}"
backend: "python"
max_batch_size: 0
input [
  {{ name: "video" data_type: TYPE_STRING dims: [ 1 ] }},
  {{ name: "options" data_type: TYPE_STRING dims: [ 1 ] optional: true }}
]
output [ {{ name: "rows" data_type: TYPE_STRING dims: [ -1 ] }} ]
instance_group [ {{ kind: KIND_CPU count: 1 }} ]
"""
CLIPS = """name: "{name}"
backend: "onnxruntime"
max_batch_size: 8
input [ {{ name: "clip" data_type: TYPE_UINT8 dims: {shape} }} ]
output [
{outputs}
]
dynamic_batching {{ max_queue_delay_microseconds: 10000 }}
"""


def export_triton(
    graph: ClipGraph,
    folder: str | Path,
    name: str,
    card: Mapping[str, Any],
    saved: Mapping[str, Any],
) -> float:
    """Write two models into a model repository: NAME reads videos, NAME_clips is the ONNX file.

    Args:
        graph: What to write, of clips of uint8.
        folder: The repository; other models in it stay.
        name: NAME, in which other signs than letters, digits and ``_.-`` become ``_``.
        card: Of ``make_card``.
        saved: The content of the ``config.json`` of a saved model.

    Returns:
        As ``export``, whose errors it raises.

    Raises:
        FileExistsError: If the repository has one of the models.
        UserError: If the model does not answer for windows of a video.
    """
    name, folder = re.sub(r"[^\w.-]", "_", name), Path(folder)
    clips = f"{name}_clips"
    if not graph.task.has_windows or type(graph) is not ClipGraph:
        raise UserError("Triton gets models that answer for videos and windows, with clips T H W")
    for model in (folder / name, folder / clips):
        if model.exists():
            raise FileThere(f"{model} exists already; name another folder")
    with torch.no_grad():
        outputs = zip(graph.output_names, graph(*graph.inputs(1)[0]), strict=True)
    described = []
    for output, values in outputs:
        labels = ' label_filename: "labels.txt"' if output == graph.task.output_name else ""
        dims = list(values.shape[1:])
        described.append(f'  {{ name: "{output}" data_type: TYPE_FP32 dims: {dims}{labels} }}')
    config = CLIPS.format(name=clips, shape=list(graph.size), outputs=",\n".join(described))
    classes = card["outputs"][graph.task.output_name]["classes"]
    texts = {
        f"{clips}/config.pbtxt": config,
        f"{clips}/labels.txt": "\n".join(classes),
        f"{name}/config.pbtxt": READER.format(name=name),
        f"{name}/1/model.py": MODEL,
        f"{name}/1/config.json": json.dumps({**saved, "size": graph.size}),
    }
    with write_together(folder) as parts:
        for model in (name, clips):
            (parts / model / "1").mkdir(parents=True)
        difference = export(graph, parts / clips / "1" / "model.onnx", card)
        for file, text in texts.items():
            (parts / file).write_text(text, encoding="utf-8")
        for model in (name, clips):
            (folder / model / "1").mkdir(parents=True)
    return difference
