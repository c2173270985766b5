"""Export a recognizer: mmvidformer export CONFIG [CHECKPOINT] --out model.onnx or model.pt2.

With --triton DIR it becomes two models of a repository of NVIDIA's Triton server: one reads videos
and answers with rows, the other one is the ONNX file.

A recognizer becomes a graph from one view of each clip to logits; with HORST, or --shape H W of a
causal transformer, a graph of one frame with the state as inputs and outputs. The batch size is
free, other sizes are fixed. The file is loaded again and compared with the model; if they differ by
more than 1e-4, nothing is written and the exit status is 1. The file's metadata names classes,
inputs, outputs, and the transforms of the test pipeline. ONNX needs onnx, onnxscript and
onnxruntime.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mmvidformer.engine.arguments import check_outputs
from mmvidformer.engine.model_options import CHECKPOINT, ClassOptions, ConfigOptions, ForceOptions
from mmvidformer.engine.options import argument, flag, option, parse_options
from mmvidformer.errors import UserError


@dataclass(frozen=True)
class ExportOptions(ForceOptions, ClassOptions, ConfigOptions):
    """A model, and its file."""

    checkpoint: str | None = argument(CHECKPOINT, nargs="?")
    out: Path | None = option("file to write, .onnx or .pt2", type=Path, metavar="FILE")
    triton: Path | None = option(
        "model repository of Triton, into which it writes CONFIG and CONFIG_clips",
        type=Path,
        metavar="DIR",
    )
    shape: Sequence[int] | None = option(
        "T H W of the clips, or H W of the frames of a stream (default: those of the config; "
        "HORST: H W)",
        type=int,
        nargs="+",
        metavar="N",
    )
    pixels: str | None = option(
        "inputs are pixels from 0 to 255, which the graph normalizes (default: normalized)",
        choices=["uint8", "float32"],
    )
    int8: bool = flag("linear layers of an ONNX file multiply in 8 bits; outputs may differ by 0.1")
    check: Sequence[str] = option(
        "with --int8: videos; nothing is written if more than a tenth of the answers change",
        (),
        nargs="+",
        metavar="VIDEO",
    )
    ahead: int | None = option("steps to look ahead, for anticipation", type=int)

    def _check(self) -> None:
        if (self.out is None) is (self.triton is None):
            raise UserError("name --out FILE, or --triton DIR")
        if self.triton and (self.pixels or self.int8 or self.ahead or self.force):
            raise UserError("--triton takes no --pixels, --int8, --ahead and --force")
        if self.check and not self.int8:
            raise UserError("--check is for --int8; other files are compared to 1e-4")
        if self.shape and len(self.shape) not in (2, 3):
            raise UserError(f"--shape must be T H W or H W, got {self.shape}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit status."""
    options = parse_options(ExportOptions, argv, __doc__)
    if out := options.out:
        paths = out, out.with_name(f"{out.name}.data")  # of large weights
        check_outputs(vars(options), [("--out", path) for path in paths], "out")
    import torch

    from mmvidformer.apis.factory import PUBLISHED, find_model
    from mmvidformer.apis.names import class_names, class_tasks, known_names
    from mmvidformer.apis.pipeline import VideoPipeline, inference_transforms, normalize
    from mmvidformer.apis.saved_config import KEY, saved_config
    from mmvidformer.config import config_name, type_name, view_shape
    from mmvidformer.engine.loading import load_recognizer
    from mmvidformer.export import ExportError, export, make_card, make_graph
    from mmvidformer.export.triton import export_triton

    cfg, checkpoint = find_model(
        options.config, options.checkpoint or PUBLISHED, options.cfg_options
    )
    size = (3, *options.shape) if options.shape else view_shape(cfg)
    if not options.shape and type_name(cfg.model.get("neck")) == "Horst":
        size = (3, *size[2:])
    torch.manual_seed(0)  # of the inputs that are compared
    model = load_recognizer(cfg, checkpoint)
    pixels = "uint8" if options.triton else options.pixels
    graph = make_graph(model, size, pixels, options.ahead)
    names = class_names(class_tasks(cfg), options.classes, known_names(cfg, model))
    has_pipeline = cfg.get("test_dataloader") or cfg.get("val_dataloader")
    transforms = inference_transforms(cfg) if has_pipeline else []
    name = config_name(options.config)
    card = make_card(graph, name, transforms, names)
    pipeline = VideoPipeline(cfg) if options.check else None
    clips = []
    for video in options.check:
        views = pipeline.read(pipeline.open(video))["inputs"]
        if views.shape[1:] != graph.size:
            shape, taken = (
                " ".join(map(str, sides[1:])) for sides in (views.shape[1:], graph.size)
            )
            raise UserError(
                f"clips of {video} are {shape}, the file takes {taken}; set --shape {shape}"
            )
        clips.append(views.to(graph.dtype) if graph.dtype else normalize(model, views))
    try:
        if options.triton:
            saved = {KEY: saved_config(cfg, names)}
            difference = export_triton(graph, options.triton, name, card, saved)
        else:
            difference = export(graph, options.out, card, options.int8, clips)
    except ExportError as error:
        print(error, file=sys.stderr)
        return 1
    inputs = zip(graph.input_names, graph.inputs(batch=1)[0], strict=True)
    shapes = {}
    for name, example in inputs:
        free = ["boxes" if name == "boxes" else "batch"] if example.dim() else []
        shapes[name] = (*free, *example.shape[1:])
    print(f"inputs: {json.dumps(shapes)}")
    print(f"outputs: {', '.join(graph.output_names)}")
    print(f"{options.out or options.triton}: largest difference from the model {difference:.1e}")
    return 0
