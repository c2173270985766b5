"""Recognizers as graphs for other runtimes: torch.export and ONNX."""

from mmvidformer.export.card import make_card
from mmvidformer.export.graphs import ClipGraph, StreamGraph, make_graph
from mmvidformer.export.write import ExportError, export
