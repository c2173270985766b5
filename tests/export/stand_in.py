"""ONNX files of a card alone, for tests of what is around them: a real export takes 3 s."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from mmvidformer.export import write
from mmvidformer.export.card import KEY
from mmvidformer.export.graphs import ClipGraph


def stand_in_for_onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exports write no operators, and in place of ONNX Runtime the graph answers."""
    onnxruntime = pytest.importorskip("onnxruntime")

    written: list[tuple[ClipGraph, str]] = []

    def write_card(program: object, graph: ClipGraph, out: Path, card: str) -> None:
        out.write_text(str(len(written)))
        written.append((graph, card))

    class Session:
        def __init__(self, path: str | Path, **options: object) -> None:
            self.graph, self.card = written[int(Path(path).read_text())]

        def get_inputs(self) -> list[SimpleNamespace]:
            kind = "uint8" if self.graph.dtype == torch.uint8 else "float"
            return [SimpleNamespace(name=x, type=f"tensor({kind})") for x in self.graph.input_names]

        def get_modelmeta(self) -> SimpleNamespace:
            return SimpleNamespace(custom_metadata_map={KEY: self.card})

        @torch.no_grad()
        def run(
            self, names: Sequence[str] | None, inputs: Mapping[str, np.ndarray]
        ) -> list[np.ndarray]:
            outputs = self.graph(*(torch.from_numpy(array) for array in inputs.values()))
            found = dict(zip(self.graph.output_names, outputs, strict=True))
            return [found[name].numpy() for name in names or found]

    writer = write_card, *write.WRITERS[".onnx"][1:]
    monkeypatch.setitem(write.WRITERS, ".onnx", writer)
    monkeypatch.setattr(onnxruntime, "InferenceSession", Session)
    monkeypatch.setattr(torch.export, "export", lambda graph, *args, **kwargs: graph)
