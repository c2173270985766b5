"""Writing a graph to a file, and comparing the file with the model."""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram

from mmvidformer.errors import MissingPackage, UserError
from mmvidformer.export.card import FILE, KEY
from mmvidformer.export.graphs import ClipGraph, StreamGraph
from mmvidformer.export.int8 import round_to_int8
from mmvidformer.storage.atomic import write_together
from mmvidformer.tasks.changes import Change

Run = Callable[[Sequence[Tensor]], Sequence[Tensor]]

# Largest difference of an output from the model's, relative to its largest value or 1.
TOLERANCE = 1e-4
INT8_TOLERANCE = 0.1


class ExportError(RuntimeError):
    """The file would compute other values than the model."""


def export(
    graph: ClipGraph,
    out: str | Path,
    card: Mapping[str, Any] | None = None,
    int8: bool = False,
    clips: Sequence[Tensor] = (),
) -> float:
    """Write a graph of ``make_graph`` with a free batch size to a ``.onnx`` or ``.pt2`` file.

    The file is loaded again and compared with the model on two batch sizes, a stream for two
    steps more than it remembers. If that fails, nothing is written, and an old file is kept.

    Args:
        graph: What to write.
        out: File to write.
        card: Description of the graph for its users (``make_card``), which goes into the metadata.
        int8: Whether linear layers of an ONNX file multiply in 8 bits (``export.int8``).
        clips: Batches of clips, on which the answers of a file with ``int8`` are compared.

    Returns:
        Largest difference from the model, relative to the output's largest value or 1.

    Raises:
        UserError: If the file has another suffix, or PyTorch 2.6 is to write ``.onnx``.
        ImportError: If a package for ONNX is missing.
        ExportError: If an output differs by more than 1e-4, with ``int8`` by more than 0.1.
        TooInexact: If ``int8`` changes more than a tenth of the answers on ``clips``.
    """
    out = Path(out)
    if out.suffix not in WRITERS:
        raise UserError(f"the file must end in {' or '.join(WRITERS)}, got {out.name}")
    if int8 and out.suffix != ".onnx":
        raise UserError(f"int8 is for .onnx files, got {out.name}")
    write, load, packages = WRITERS[out.suffix]
    for package in packages:
        if find_spec(package) is None:
            raise MissingPackage(f"{out.suffix} needs {package}: pip install {package}")
    if out.suffix == ".onnx" and torch.__version__ < "2.7":  # onnxscript leaves its functions
        raise UserError(f".onnx needs PyTorch 2.7 or newer, this is {torch.__version__}")
    inputs = graph.inputs(batch=2)[0]
    batch = Dim("batch", max=2**31 - 1)  # PyTorch 2.6 refuses sizes without a limit
    sizes = {"boxes": Dim("boxes", max=2**31 - 1)}  # any number of them
    free: tuple = tuple(
        {0: sizes.get(name, batch)} if example.dim() else {}
        for name, example in zip(graph.input_names, inputs, strict=True)
    )
    if isinstance(graph, StreamGraph):  # *parts is one argument
        free = (*free[:2], free[2:])
    with torch.no_grad():
        # PyTorch 2.6 is strict otherwise, and then knows no properties of named tuples.
        program = torch.export.export(graph, inputs, dynamic_shapes=free, strict=False)
    with write_together(out.parent) as folder:  # ONNX has large weights in a second file
        part = folder / out.name
        write(program, graph, part, json.dumps(card or {}, ensure_ascii=False))
        difference = check_file(graph, load(part), out.name, TOLERANCE)
        if int8:
            rounded = part.with_name(f"int8_{part.name}")
            round_to_int8(part, rounded)
            run = load(rounded)
            difference = check_file(graph, run, out.name, INT8_TOLERANCE)
            compare_answers(graph, run, clips).check("int8")
            for path in (part, part.with_name(f"{part.name}.data")):
                path.unlink(missing_ok=True)
            rounded.rename(part)
    return difference


def check_file(graph: ClipGraph, run: Run, name: str, most: float) -> float:
    """Return how much a loaded file differs from the model; an ``ExportError`` if by more."""
    difference = compare(graph, run)
    if not difference <= most:
        raise ExportError(
            f"{name} would differ from the model by {difference:.1e}, more than {most:.0e}; it was "
            "not written"
        )
    return difference


@torch.no_grad()
def compare_answers(graph: ClipGraph, run: Run, clips: Sequence[Tensor]) -> Change:
    """Compare the answers of a loaded file with those of the model on batches of clips."""
    change = Change()
    for batch in clips:
        outputs = zip(graph.output_names, graph(batch), run([batch]), strict=True)
        for name, expected, written in outputs:
            has_classes = name not in graph.task.value_outputs
            change.add({name: expected}, {name: written}, has_classes)
    return change


@torch.no_grad()
def compare(graph: ClipGraph, run: Run) -> float:
    """Largest difference between a loaded file and the model; NaN if either gives NaN."""
    largest = torch.zeros(())
    for inputs in (*graph.inputs(1, graph.calls), *graph.inputs(3, graph.calls)):
        for expected, written in zip(graph(*inputs), run(inputs), strict=True):
            scale = expected.abs().max().float().clamp(min=1)
            difference = (expected - written.to(expected.device)).abs().max() / scale
            largest = torch.maximum(largest, difference.cpu())
    return largest.item()


def _write_pt2(program: ExportedProgram, graph: ClipGraph, out: Path, card: str) -> None:
    program.graph.eliminate_dead_code()  # PyTorch 2.6 notes types that were asked for
    content = io.BytesIO()  # on a full disk, its writer would end the process
    torch.export.save(program, content, extra_files={FILE: card})
    out.write_bytes(content.getbuffer())


def _load_pt2(out: Path) -> Run:
    module = torch.export.load(out).module()
    return lambda inputs: module(*inputs)


def _write_onnx(program: ExportedProgram, graph: ClipGraph, out: Path, card: str) -> None:
    written = torch.onnx.export(
        program,
        dynamo=True,
        input_names=list(graph.input_names),
        output_names=list(graph.output_names),
        verbose=False,
    )
    written.model.metadata_props[KEY] = card
    written.save(out)  # weights of more than 1.5 GiB go into a second file


def _load_onnx(out: Path) -> Run:
    import onnxruntime  # part of the extra 'export'

    session = onnxruntime.InferenceSession(out, providers=["CPUExecutionProvider"])

    def run(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        named = zip(session.get_inputs(), inputs, strict=True)
        arrays = session.run(None, {node.name: value.cpu().numpy() for node, value in named})
        return [torch.from_numpy(array) for array in arrays]

    return run


# Suffix: how to write and load the file, and the packages that this needs.
WRITERS = {
    ".onnx": (_write_onnx, _load_onnx, ("onnx", "onnxscript", "onnxruntime")),
    ".pt2": (_write_pt2, _load_pt2, ()),
}
