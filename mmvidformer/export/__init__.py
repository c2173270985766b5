"""Recognisers as graphs for other run times: torch.export and ONNX."""

from mmvidformer.export.graphs import ClipGraph, Pixels, StreamGraph, make_graph
from mmvidformer.export.write import ExportError, Report, export

__all__ = [
    "ClipGraph",
    "ExportError",
    "Pixels",
    "Report",
    "StreamGraph",
    "export",
    "make_graph",
]
