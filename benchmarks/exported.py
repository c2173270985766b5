"""An exported file in ONNX Runtime and OpenVINO: python -m benchmarks.exported [CONFIG ...].

Exports models with initial weights, which take pixels of type uint8. Runs one clip in PyTorch (the
same graph), ONNX Runtime and OpenVINO, with one thread each. Prints the largest difference of an
output, relative to the largest value of the model's or 1, and the median of the CPU time.
OpenVINO runs in float32, and in what it chooses by itself. Needs openvino.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from mmvidformer import get_config
from mmvidformer.config import view_shape
from mmvidformer.engine.loading import load_recognizer
from mmvidformer.engine.tables import print_table
from mmvidformer.export import export, make_graph

Run = Callable[[], Sequence[np.ndarray]]


def load_model(config: str) -> tuple[Any, tuple[int, ...]]:
    """Return a model with initial weights, and the shape of its clips."""
    cfg = get_config(config)
    cfg.model.backbone.pop("init_from", None)
    return load_recognizer(cfg, None), view_shape(cfg)


def run_openvino(path: Path, clip: np.ndarray, precision: str | None) -> Run:
    """Return what runs a file on a clip by OpenVINO."""
    import openvino

    settings: dict[str, Any] = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}
    if precision:
        settings["INFERENCE_PRECISION_HINT"] = precision
    compiled = openvino.Core().compile_model(path, "CPU", settings)
    request = compiled.create_infer_request()
    return lambda: [*request.infer({0: clip}).values()]


def run_onnxruntime(path: Path, clip: np.ndarray) -> Run:
    """Return what runs a file on a clip by ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"clip": clip})


def median_ms(run: Run, count: int) -> float:
    """Median of the milliseconds of CPU time of a run, after a first one."""
    run()
    times = []
    for _ in range(count):
        began = time.process_time()
        run()
        times.append(1000 * (time.process_time() - began))
    return float(np.median(times))


def measure(config: str, count: int, folder: Path) -> list[tuple[str, ...]]:
    """Return the rows of a model."""
    model, size = load_model(config)
    graph, path = make_graph(model, size, "uint8"), folder / "model.onnx"
    export(graph, path)
    clip = torch.randint(256, (1, *size), dtype=torch.uint8)

    @torch.no_grad()
    def run_pytorch() -> Sequence[np.ndarray]:
        return [output.numpy() for output in graph(clip)]

    runs = {
        "PyTorch": run_pytorch,
        "ONNX Runtime": run_onnxruntime(path, clip.numpy()),
        "OpenVINO, float32": run_openvino(path, clip.numpy(), "f32"),
        "OpenVINO": run_openvino(path, clip.numpy(), None),
    }
    expected, rows = run_pytorch(), []
    for name, run in runs.items():
        pairs = zip(expected, run(), strict=True)
        largest = max(np.abs(a - b).max() / max(1, np.abs(a).max()) for a, b in pairs)
        rows.append((config, name, f"{largest:.1e}", f"{median_ms(run, count):.1f}"))
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("configs", nargs="*", default=["camera_motion", "vivit_fe_motion"])
    parser.add_argument("--count", type=int, default=9, help="runs after the first one")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with TemporaryDirectory() as folder:
        rows = [row for x in args.configs for row in measure(x, args.count, Path(folder))]
    print_table(("model", "runs in", "difference", "CPU ms"), rows)


if __name__ == "__main__":
    main()
