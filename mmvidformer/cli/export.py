"""Export a recognizer: mmvidformer export CONFIG [CHECKPOINT] --out model.onnx or model.pt2.

A recognizer becomes a graph from one view of each clip to logits; with HORST, or --shape H W of a
causal transformer, a graph of one frame with the state as inputs and outputs. The batch size is
free, other sizes are fixed. The file is loaded again and compared with the model; if they differ by
more than 1e-4, nothing is written and the exit status is 1. The file's metadata names classes,
inputs, outputs, and the transforms of the test pipeline. ONNX needs onnx, onnxscript and
onnxruntime.
"""

import json
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

import torch

from mmvidformer.apis.factory import PUBLISHED, find_model
from mmvidformer.apis.names import class_names, class_tasks, known_names
from mmvidformer.apis.pipeline import VideoPipeline, inference_transforms, normalize
from mmvidformer.config import config_name, type_name, view_shape
from mmvidformer.engine.arguments import (
    add_force_argument,
    add_model_arguments,
    check_outputs,
)
from mmvidformer.engine.loading import load_recognizer
from mmvidformer.engine.model_options import ClassOptions
from mmvidformer.engine.options import add_options
from mmvidformer.export import ExportError, export, make_card, make_graph


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit status."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    add_model_arguments(parser, checkpoint=None, device=False)
    add_options(parser, ClassOptions)
    parser.add_argument(
        "--out", type=Path, required=True, help="file to write, .onnx or .pt2", metavar="FILE"
    )
    parser.add_argument(
        "--shape",
        type=int,
        nargs="+",
        metavar="N",
        help="T H W of the clips, or H W of the frames of a stream (default: those of the config; "
        "HORST: H W)",
    )
    parser.add_argument(
        "--pixels",
        choices=["uint8", "float32"],
        help="inputs are pixels from 0 to 255, which the graph normalizes (default: normalized)",
    )
    parser.add_argument(
        "--int8",
        action="store_true",
        help="linear layers of an ONNX file multiply in 8 bits; outputs may differ by 0.1",
    )
    parser.add_argument(
        "--check",
        nargs="+",
        default=[],
        metavar="VIDEO",
        help="with --int8: videos; nothing is written if more than a tenth of the answers change",
    )
    parser.add_argument(
        "--ahead", type=int, help="steps to look ahead, for anticipation", metavar="N"
    )
    add_force_argument(parser)
    args = parser.parse_args(argv)
    paths = args.out, args.out.with_name(f"{args.out.name}.data")  # of large weights
    check_outputs(vars(args), [("--out", path) for path in paths], "out")
    cfg, checkpoint = find_model(args.config, args.checkpoint or PUBLISHED, args.cfg_options)
    if args.check and not args.int8:
        parser.error("--check is for --int8; other files are compared to 1e-4")
    if args.shape and len(args.shape) not in (2, 3):
        parser.error(f"--shape must be T H W or H W, got {args.shape}")
    size = (3, *args.shape) if args.shape else view_shape(cfg)
    if not args.shape and type_name(cfg.model.get("neck")) == "Horst":
        size = (3, *size[2:])
    torch.manual_seed(0)  # of the inputs that are compared
    model = load_recognizer(cfg, checkpoint)
    graph = make_graph(model, size, args.pixels, args.ahead)
    names = class_names(class_tasks(cfg), args.classes, known_names(cfg, model))
    has_pipeline = cfg.get("test_dataloader") or cfg.get("val_dataloader")
    transforms = inference_transforms(cfg) if has_pipeline else []
    card = make_card(graph, config_name(args.config), transforms, names)
    pipeline = VideoPipeline(cfg) if args.check else None
    clips = []
    for video in args.check:
        views = pipeline.read(pipeline.open(video))["inputs"]
        if views.shape[1:] != graph.size:
            shape, taken = (
                " ".join(map(str, sides[1:])) for sides in (views.shape[1:], graph.size)
            )
            parser.error(
                f"clips of {video} are {shape}, the file takes {taken}; set --shape {shape}"
            )
        clips.append(views.to(graph.dtype) if graph.dtype else normalize(model, views))
    try:
        difference = export(graph, args.out, card, args.int8, clips)
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
    print(f"{args.out}: largest difference from the model {difference:.1e}")
    return 0
