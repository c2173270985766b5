"""V-JEPA 2 on a CPU beside ONNX Runtime and OpenVINO: python -m benchmarks.cpu_rivals --out X.csv.

    python -m benchmarks.cpu_rivals --depth 4 --frames 8 --side 128 --out rivals.csv

The encoder of V-JEPA 2-L with random weights, of ``--depth`` blocks, and the four blocks of its
attentive pooling run one clip on one thread: here in float32, bfloat16 and int8, in ONNX Runtime in
float32 and in its own dynamic int8, in OpenVINO, if it is installed, in float32 and bfloat16. All
take turns, ``--repeat`` times. A row has the median of the processor time of a call, its quartiles,
and the cosine of the outputs with those of float32 here. All others run the same exported graph.
ONNX Runtime has no bfloat16 on a CPU.
"""

import csv
import importlib.util
import os
import statistics
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.onnx_models import OnnxModel, export_onnx, round_to_int8
from benchmarks.outputs import parse_with_results
from mmvidformer import create_model
from mmvidformer.models.fast.inference import optimize_for_inference

COLUMNS = ("runtime", "precision", "cpu_ms", "low", "high", "cosine")
Run = Callable[[Tensor], Tensor]


def openvino_runs(path: Path) -> dict[tuple[str, str], Run]:
    """Compile the graph by OpenVINO, in float32 and bfloat16."""
    import openvino

    core, runs = openvino.Core(), {}
    for name in ("f32", "bf16"):
        hints = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": name}
        compiled = core.compile_model(str(path), "CPU", hints)
        runs["OpenVINO", name] = lambda clip, model=compiled: torch.from_numpy(
            np.array(model(clip.numpy())[0])
        )
    return runs


def make_runs(model: torch.nn.Module, clip: Tensor, folder: Path) -> dict[tuple[str, str], Run]:
    """All that take turns, by runtime and precision."""
    runs: dict[tuple[str, str], Run] = {}
    fast = optimize_for_inference(model)
    runs["here", "float32"] = fast

    def in_bfloat16(clip: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return fast(clip).float()

    runs["here", "bfloat16"] = in_bfloat16
    runs["here", "int8"] = optimize_for_inference(model, int8=True)
    path = export_onnx(model, clip, folder / "model.onnx")
    files = {
        "float32": path,
        "int8, dynamic": round_to_int8(path, folder / "dynamic.onnx"),
    }
    runs |= {("ONNX Runtime", name): OnnxModel(file, 1) for name, file in files.items()}
    if importlib.util.find_spec("openvino"):
        runs |= openvino_runs(path)
    return runs


@torch.no_grad()
def measure(runs: dict[tuple[str, str], Run], clip: Tensor, repeat: int) -> list[list[Any]]:
    """Rows of all runs, which take turns."""
    outputs = {name: run(clip) for name, run in runs.items()}  # and warm up
    times: dict[tuple[str, str], list[float]] = {name: [] for name in runs}
    for _ in range(repeat):
        for name, run in runs.items():
            start = time.process_time()
            run(clip)
            times[name].append(1000 * (time.process_time() - start))
    expected = outputs["here", "float32"].flatten()
    rows = []
    for name, values in times.items():
        low, median, high = statistics.quantiles(values, n=4)
        cosine = torch.cosine_similarity(outputs[name].flatten(), expected, dim=0)
        numbers = (round(value, 1) for value in (median, low, high))
        rows.append([*name, *numbers, f"{cosine:.5f}"])
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print and write the rows."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--depth", type=int, default=24, help="blocks (default: all 24)")
    parser.add_argument("--frames", type=int, default=16)
    parser.add_argument("--side", type=int, default=256, help="pixels")
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--out", type=Path, required=True)
    args = parse_with_results(parser, argv, lambda args: [args.out])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    arch = dict(embed_dims=1024, depth=args.depth, num_heads=16)
    sizes = dict(img_size=args.side, clip_len=args.frames, frozen_stages=-1)
    model = create_model("vjepa2_l_sthv2", num_classes=0, arch=arch, **sizes).eval()
    clip = torch.randn(1, 3, args.frames, args.side, args.side)
    with tempfile.TemporaryDirectory() as folder:
        before = os.getloadavg()[0]
        rows = measure(make_runs(model, clip, Path(folder)), clip, args.repeat)
    print(f"load of the machine: {before:.0f} before, {os.getloadavg()[0]:.0f} after")
    for row in rows:
        print(*row, sep="  ")
    with args.out.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([COLUMNS, *rows])


if __name__ == "__main__":
    main()
