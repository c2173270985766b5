"""Streams of exported files: python -m benchmarks.long_streams CONFIG --out streams.csv.

Exports a recurrent config with random weights to ONNX, as a graph of one frame, and runs random
frames through it, on one thread. After 1000 frames, 10000 frames and so on, a row has the memory
of the process, the processor time of a frame, and the largest difference of the logits from those
that PyTorch computes for the whole clip of the last frames, of which there are --clip. The last row
has the processor time of a window of --window frames, as another exported file, which is that of a
frame if each is answered by a window.
"""

import csv
import tempfile
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from benchmarks.outputs import parse_with_results, with_suffixes
from benchmarks.stream import resident
from mmvidformer.config import load_config, view_shape
from mmvidformer.config.building import building
from mmvidformer.engine.model_options import ConfigOptions
from mmvidformer.engine.options import add_options
from mmvidformer.export import export, make_graph
from mmvidformer.registry import MODELS

COLUMNS = ("frames", "rss_mib", "cpu_ms", "difference")
FIRST = 1000  # frames of the first row


def open_session(path: Path) -> Any:
    """Open an ONNX file on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    providers = ["CPUExecutionProvider"]
    return onnxruntime.InferenceSession(path, options, providers=providers)


def start_of(session: Any) -> dict[str, np.ndarray]:
    """State before the first frame: zeros."""
    state = {}
    for node in session.get_inputs()[1:]:
        shape = [1, *node.shape[1:]] if node.shape else []
        state[node.name] = np.zeros(shape, np.int64 if node.name == "count" else np.float32)
    return state


def draw(number: int, size: Sequence[int]) -> np.ndarray:
    """Frame (1, 3, H, W) of a number."""
    return np.random.default_rng(number).standard_normal((1, *size), np.float32)


def measure(session: Any, size: Sequence[int], frames: int) -> Iterator[tuple[dict, Tensor]]:
    """Run frames; after each power of ten return a row without its difference, and the logits."""
    outputs = [node.name for node in session.get_outputs()]
    state, due, before, spent = start_of(session), FIRST, 0, 0.0
    for number in tqdm(range(1, frames + 1), unit="frame", disable=None):
        frame = draw(number, size)
        start = time.process_time()
        values = session.run(outputs, {"frame": frame, **state})
        spent += time.process_time() - start
        found = dict(zip(outputs, values, strict=True))
        state = {name: found[f"next_{name}"] for name in state}
        if number == due:
            row = number, resident(), 1000 * spent / (number - before)
            yield dict(zip(COLUMNS, row, strict=False)), torch.from_numpy(found[outputs[0]])
            due, before, spent = 10 * due, number, 0.0


@torch.no_grad()
def whole(model: Any, last: int, count: int, size: Sequence[int]) -> Tensor:
    """Logits of the clip of some frames, of which the last one has a number."""
    frames = [draw(number, size) for number in range(max(last - count, 0) + 1, last + 1)]
    clip = torch.from_numpy(np.stack(frames, axis=2))
    return model.cls_head(model.extract_feat(clip[:, None])[0])


def time_window(path: Path, size: Sequence[int]) -> float:
    """Processor time of a clip, in milliseconds; the least of five."""
    session, clip = open_session(path), np.zeros((1, *size), np.float32)
    times = []
    for _ in range(6):
        start = time.process_time()
        session.run(None, {"clip": clip})
        times.append(1000 * (time.process_time() - start))
    return min(times[1:])


def parse_args(argv: Sequence[str] | None = None) -> Namespace:
    """Parse the command line."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    add_options(parser, ConfigOptions)
    parser.add_argument("--out", type=Path, required=True, help="table (.csv)")
    parser.add_argument("--frames", type=int, default=100_000, help="default: 100000")
    parser.add_argument("--clip", type=int, default=64, help="frames that are compared (64)")
    parser.add_argument("--window", type=int, default=32, help="frames of a window (32)")
    parser.add_argument("--size", type=int, nargs=2, metavar=("H", "W"), help="of a frame")
    parser.add_argument("--kernel", help="kernel over time, which keeps all of the past")
    return parse_with_results(parser, argv, with_suffixes(""))


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    args = parse_args(argv)
    torch.manual_seed(0)
    cfg = load_config(args.config, args.cfg_options)
    if args.kernel:
        time_layer = dict(pattern="causal_time", kernel=args.kernel)
        cfg.model.backbone.block = [time_layer, dict(pattern="space")]
    with building(cfg):
        model = MODELS.build(cfg.model).eval()
    for parameter in model.parameters():
        if not parameter.any():  # such as the weights of a head
            nn.init.normal_(parameter, std=0.1)
    size = args.size or view_shape(cfg)[2:]
    with tempfile.TemporaryDirectory() as folder:
        stream, window = Path(folder, "stream.onnx"), Path(folder, "window.onnx")
        export(make_graph(model, (3, *size)), stream)
        export(make_graph(model, (3, args.window, *size)), window)
        measured = list(measure(open_session(stream), (3, *size), args.frames))
        of_window = time_window(window, (3, args.window, *size))
    rows = []
    print("  ".join(f"{name:>10}" for name in COLUMNS))
    for row, logits in measured:
        expected = whole(model, row["frames"], args.clip, (3, *size))
        rows.append(row | {"difference": (logits - expected).abs().max().item()})
        print("  ".join(f"{rows[-1][name]:10.4g}" for name in COLUMNS))
    ratio = of_window / rows[-1]["cpu_ms"]
    print(f"a window of {args.window} frames: {of_window:.2f} ms, {ratio:.1f} times a frame")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with open(args.out, "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
