"""Inference time of a config's model in every form, and of the same model elsewhere, in one run.

python -m benchmarks.side_by_side timesformer_b_k400 vivit_st_k400 [--rounds 5] [--out TABLE.csv]

Forms: plain, optimized, in 8 bits, with still parts computed once, and both. Elsewhere: MMAction2's
and HuggingFace's model with the same weights, and HuggingFace's in ONNX Runtime, in float32 and in
8 bits by its own ``quantize_dynamic``. Those that compute the same must give the same logits
(1e-4). All take turns on one clip of noise, a share of whose 16 x 16 places stands still.

"CPU s" is the median over the rounds, of all threads. "faster" is the median of how many times less
than the optimized model of the same round. "error" is the norm of the difference from the logits of
the plain model relative to their norm; weights are random.
"""

import csv
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch
from mmengine.config import Config
from torch import Tensor, nn

from benchmarks.baselines import OPTIMIZED, OURS, Entry, build_entries
from benchmarks.compare import Settings, check_equal, take_turns
from benchmarks.inexact import TOLERANCE, still_clip
from benchmarks.models import machine
from benchmarks.onnx_models import OnnxModel, export_onnx, round_to_int8
from benchmarks.outputs import parse_with_results, with_suffixes
from benchmarks.versions import versions
from mmvidformer.config import clip_shape, config_name, load_config
from mmvidformer.models.fast.inference import optimize_for_inference
from mmvidformer.models.fast.int8 import bytes_of_weights

COLUMNS = ("config", "still", "model", "CPU s", "s", "faster", "weights MiB", "error")
PEER = "HuggingFace"


def build_models(model: Mapping, clip: Tensor, folder: Path, threads: int) -> Iterator[Entry]:
    """Build all models of a config; those that cannot have run lengths are left out.

    Args:
        model: ``model`` of the config.
        clip: A clip (1, 3, T, H, W), for the exported ones.
        folder: Folder for their files.
        threads: Number of their threads.
    """
    built = {entry.name: entry for entry in build_entries(model) if entry.comparable}
    yield from (built[OURS], built[OPTIMIZED])
    for name, int8, runs in (
        ("int8", True, False),
        ("run lengths", False, True),
        ("int8, run lengths", True, True),
    ):
        fast = optimize_for_inference(built[OPTIMIZED].module, share_weights=True, int8=int8)
        try:
            fast.backbone.static = TOLERANCE if runs else None
        except ValueError as error:
            print(f"{name}: {error}")
            continue
        yield Entry(f"mmvidformer {name}", fast, built[OURS].layout, comparable=False)
    peers = [entry for name, entry in built.items() if name not in (OURS, OPTIMIZED)]
    yield from peers
    for peer in peers:
        if peer.name == PEER:
            path = export_onnx(peer.module, peer.layout(clip), folder / "float32.onnx")
            rounded = round_to_int8(path, folder / "int8.onnx")
            name = f"{PEER}, ONNX Runtime"
            yield Entry(name, OnnxModel(path, threads), peer.layout)
            yield Entry(f"{name} int8", OnnxModel(rounded, threads), peer.layout, comparable=False)


def measure(model: Mapping, share: float, settings: Settings) -> list[list[str]]:
    """Measure the models of a config on a clip with a share of still places.

    Returns:
        Rows of ``COLUMNS``, without the first two.

    Raises:
        UserError: If logits differ that should be the same.
    """
    torch.manual_seed(0)
    _, frames, side, _ = clip_shape(Config({"model": dict(model)}))
    clip = still_clip(frames, side, share)
    with TemporaryDirectory() as folder:
        entries = list(build_models(model, clip, Path(folder), settings.threads))
        check_equal(entries, clip)
        calls = {}
        for entry in entries:
            calls[entry.name] = partial(entry.module.eval(), entry.layout(clip))
        with torch.inference_mode():
            logits = {name: call() for name, call in calls.items()}
            times = take_turns(calls, settings)
        rows = []
        for entry in entries:
            seconds, cpu_seconds = zip(*times[entry.name], strict=True)
            ratios = [
                optimized[1] / cpu
                for optimized, cpu in zip(times[OPTIMIZED], cpu_seconds, strict=True)
            ]
            error = (logits[entry.name] - logits[OURS]).norm() / logits[OURS].norm()
            row = [entry.name, f"{median(cpu_seconds):.3f}", f"{median(seconds):.3f}"]
            row += [f"{median(ratios):.2f}", f"{weight_bytes(entry.module) / 2**20:.0f}"]
            rows.append([*row, f"{error:.1e}"])
    return rows


def weight_bytes(module: nn.Module) -> int:
    """Return the bytes of the weights of a model, or of its file."""
    return module.bytes if isinstance(module, OnnxModel) else bytes_of_weights(module)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("configs", nargs="+", help="config files, or names of shipped configs")
    parser.add_argument(
        "--still", type=float, nargs="+", default=[0.5], help="shares of still places (0.5)"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds (default 5)")
    parser.add_argument("--out", type=Path, help="csv file")
    args = parse_with_results(parser, argv, with_suffixes(""))
    torch.set_num_threads(args.threads)
    settings = Settings(threads=args.threads, repeats=args.rounds)
    print(f"{machine('cpu', args.threads)}; {versions()}")
    rows = []
    for name in args.configs:
        for share in args.still:
            print(f"{config_name(name)}, {share:.0%} still", flush=True)
            for row in measure(load_config(name).model, share, settings):
                rows.append([config_name(name), f"{share:g}", *row])
                print("  ".join(row), flush=True)
            if args.out:  # after each one, in case this process is stopped
                with open(args.out, "w", newline="", encoding="utf-8") as file:
                    csv.writer(file).writerows([COLUMNS, *rows])


if __name__ == "__main__":
    main()
