"""Writing a graph to a file, and comparing what the file computes with the model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from mmvidformer.export.graphs import StreamGraph

# Largest difference of an output from the model's, over the output's largest number or 1.
TOLERANCE = 1e-4
# A protobuf file holds at most 2 GiB; what is larger has its weights beside it.
LARGEST_FILE = 2 * 1024**3 - 2**24

Run = Callable[[Sequence[Tensor]], Sequence[Tensor]]


class ExportError(RuntimeError):
    """What was written computes other numbers than the model."""


@dataclass(frozen=True)
class Report:
    """What was written.

    Args:
        path: The file.
        difference: Largest difference from the model, over the output's largest number or 1.
        inputs: Name of each input and its shape; the batch is 'batch'.
        outputs: Name of each output.
    """

    path: Path
    difference: float
    inputs: dict[str, tuple]
    outputs: tuple[str, ...]


def export(graph: nn.Module, out: str | Path) -> Report:
    """Write a graph with a free batch size, and check the file.

    The file is loaded again and compared with the model on batches of two sizes; a stream for two
    steps more than it remembers. A file that fails is removed.

    Args:
        graph: From ``make_graph``.
        out: File, ``.onnx`` or ``.pt2`` (``torch.export``).

    Returns:
        Where it lies, and how far it is from the model.

    Raises:
        ValueError: If the file has another ending.
        ExportError: If an output differs by more than 1e-4.
    """
    out = Path(out)
    if out.suffix not in WRITERS:
        raise ValueError(f"a file to export to ends with {' or '.join(WRITERS)}, got {out.name}")
    write, load = WRITERS[out.suffix]
    inputs = graph.example(2)
    with torch.no_grad():
        program = torch.export.export(graph, inputs, dynamic_shapes=_free_batch(graph, inputs))
    out.parent.mkdir(parents=True, exist_ok=True)
    write(program, graph, out)
    difference = compare(graph, load(out))
    if not difference <= TOLERANCE:
        for path in (out, *out.parent.glob(f"{out.name}.data")):
            path.unlink()
        raise ExportError(
            f"{out.name} differs from the model by {difference:.1e}, more than {TOLERANCE:.0e}; "
            "it was removed"
        )
    named = zip(graph.input_names, inputs, strict=True)
    shapes = {name: ("batch", *value.shape[1:]) for name, value in named}
    return Report(out, difference, shapes, tuple(graph.output_names))


@torch.no_grad()
def compare(graph: nn.Module, run: Run) -> float:
    """Largest difference of a loaded file from the model; not a number where either is not."""
    steps = 1
    if isinstance(graph, StreamGraph):
        steps = max(layer.order for layer in graph.neck.layers) + 2
    largest = torch.zeros(())
    for batch in (1, 3):
        for inputs in graph.rounds(batch, steps):
            expected = graph(*inputs)
            expected = expected if isinstance(expected, tuple) else (expected,)
            for ours, theirs in zip(expected, run(inputs), strict=True):
                scale = ours.abs().max().float().clamp(min=1)
                largest = torch.maximum(largest, (ours - theirs).abs().max() / scale)
    return largest.item()


def _free_batch(graph: nn.Module, inputs: Sequence[Tensor]) -> tuple:
    batch = Dim("batch")
    free = [{0: batch} for _ in inputs]
    if isinstance(graph, StreamGraph):  # its last argument takes the rest of the inputs
        return (*free[:2], tuple(free[2:]))
    return tuple(free)


def _write_pt2(program: ExportedProgram, graph: nn.Module, out: Path) -> None:
    torch.export.save(program, out)


def _load_pt2(out: Path) -> Run:
    module = torch.export.load(out).module()

    def run(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        found = module(*inputs)
        return found if isinstance(found, tuple) else (found,)

    return run


def _write_onnx(program: ExportedProgram, graph: nn.Module, out: Path) -> None:
    written = torch.onnx.export(
        program,
        dynamo=True,
        input_names=list(graph.input_names),
        output_names=list(graph.output_names),
        verbose=False,
    )
    size = sum(p.numel() * p.element_size() for p in graph.state_dict().values())
    written.save(out, external_data=size > LARGEST_FILE)


def _load_onnx(out: Path) -> Run:
    import onnxruntime  # of the extra 'export'

    session = onnxruntime.InferenceSession(out, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]

    def run(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        arrays = (value.numpy() for value in inputs)
        return [
            torch.from_numpy(x) for x in session.run(None, dict(zip(names, arrays, strict=True)))
        ]

    return run


WRITERS = {".onnx": (_write_onnx, _load_onnx), ".pt2": (_write_pt2, _load_pt2)}
