"""Export a recogniser: python tools/export.py CONFIG [CHECKPOINT] --out model.onnx or model.pt2.

A recogniser of clips becomes a graph from one view of each clip to logits; a recurrent one a graph
of one frame, with the state as inputs and outputs. The batch is free, the other sizes are fixed.
The file is loaded again and compared with the model; above 1e-4 it is removed, and the exit status
is not 0. ONNX needs the extra 'export' (onnx, onnxruntime, onnxscript).
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from mmengine.config import DictAction

from mmvidformer.config import clip_shape, frame_shape, is_recurrent, load_config
from mmvidformer.engine.launch import run_tool
from mmvidformer.engine.loading import load_recognizer
from mmvidformer.export import ExportError, export, make_graph


def main(argv: Sequence[str] | None = None) -> int:
    """Export as the command line says, and give the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config", help="a config file, or the name of a shipped config")
    parser.add_argument(
        "checkpoint", nargs="?", help="checkpoint file or address; default: initial weights"
    )
    parser.add_argument("--out", type=Path, required=True, help="file to write, .onnx or .pt2")
    parser.add_argument(
        "--shape",
        type=int,
        nargs="+",
        metavar="N",
        help="T H W of the clips, or H W of the frames of a stream; default: the config's",
    )
    parser.add_argument(
        "--pixels",
        choices=["uint8", "float32"],
        help="input are pixels of 0 to 255, which the graph normalises; default: normalised input",
    )
    parser.add_argument(
        "--ahead",
        type=int,
        help="streams that anticipate: steps to look ahead; default: the head's logged_time",
    )
    parser.add_argument(
        "--cfg-options", nargs="+", action=DictAction, help="settings to change, as key=value"
    )
    args = parser.parse_args(argv)
    cfg = load_config(args.config, args.cfg_options)
    stream = is_recurrent(cfg)
    if args.shape and len(args.shape) != (2 if stream else 3):
        parser.error(f"--shape of this model is {'H W' if stream else 'T H W'}, got {args.shape}")
    size = (3, *args.shape) if args.shape else (frame_shape if stream else clip_shape)(cfg)
    torch.manual_seed(0)
    graph = make_graph(load_recognizer(cfg, args.checkpoint), size, args.pixels, args.ahead)
    try:
        report = export(graph, args.out)
    except ExportError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"inputs: {json.dumps(report.inputs)}")
    print(f"outputs: {', '.join(report.outputs)}")
    print(f"{report.path}: largest difference from the model {report.difference:.1e}")
    return 0


if __name__ == "__main__":
    sys.exit(run_tool(main))
