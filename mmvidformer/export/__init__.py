"""Recognisers as graphs for other run times: torch.export and ONNX."""

from mmvidformer.export.graphs import ClipGraph, Pixels, StreamGraph, make_graph
from mmvidformer.export.sizes import clip_size, frame_size
from mmvidformer.export.write import ExportError, Report, export

__all__ = [
    "ClipGraph",
    "ExportError",
    "Pixels",
    "Report",
    "StreamGraph",
    "clip_size",
    "export",
    "frame_size",
    "make_graph",
]
