"""What each pass of ``models.fast`` saves: multiplications, kept tensors, operators, time.

python -m benchmarks.passes [--before FOLDER] [--rounds 3] [--out reports/benchmark/passes.csv]

A row is a pass on a model that it is for, of random weights, on one thread: the plain model, and
the same with the pass. A step of training is a forward and a backward pass. Times are the least of
all rounds, in which the two take turns; the processes of the rounds take turns, too.

FOLDER is a checkout of an earlier commit, f0cd46cb, whose layers had the savings of training
inside. Its rows have "before" as the way.
"""

import csv
import json
import os
import subprocess
import sys
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from mmvidformer.models import TimeSformer, ViViT

ONE_PROCESS = "one-process"
ROOT = Path(__file__).resolve().parents[1]
COLUMNS = ("pass", "way", "GFLOP", "kept MiB", "operators", "ms")
VIEWS = {"view", "_unsafe_view", "t", "transpose", "permute", "expand", "unsqueeze", "squeeze"}
VIEWS |= {"select", "slice", "split", "split_with_sizes", "unbind", "detach", "alias", "as_strided"}
ARCH = dict(embed_dims=192, depth=4, num_heads=3)
SIZE = dict(arch=ARCH, img_size=112, clip_len=8)


class Case(NamedTuple):
    """A pass on a model: what runs without and with it."""

    name: str
    plain: Callable[[], Any]
    fast: Callable[[], Any]
    counted: bool = True  # compiled graphs hide their operators


def fast_part(module: str, function: str) -> Callable | None:
    """Return a function of ``models.fast``; None of a commit that has no such pass."""
    for room in ("models.fast", "models"):
        try:
            return getattr(import_module(f"mmvidformer.{room}.{module}"), function)
        except (ImportError, AttributeError):
            continue
    return None


def unchanged(model: nn.Module) -> None:
    """Change nothing."""


def build(model_type: type = TimeSformer, **options: Any) -> nn.Module:
    """Build a model; the same each time."""
    torch.manual_seed(0)
    return model_type(**{**SIZE, **options})


def training(make: Callable[[], nn.Module], change: Callable, clip: Tensor) -> list[Callable]:
    """Return steps of the plain model and of one that a pass changed."""

    def step(model: nn.Module) -> None:
        torch.manual_seed(1)
        model.zero_grad()
        model(clip).square().sum().backward()

    plain, fast = make().train(), make().train()
    change(fast)
    return [lambda: step(plain), lambda: step(fast)]


def inference(plain: nn.Module, fast: nn.Module, clip: Tensor) -> list[Callable]:
    """Return forward passes of two models."""

    @torch.no_grad()
    def run(model: nn.Module) -> None:
        model(clip)

    return [lambda: run(plain.eval()), lambda: run(fast)]


def list_cases() -> Iterator[Case]:
    """Yield the cases that this commit has."""
    clips = torch.randn(4, 3, 8, 112, 112)
    deep = dict(drop_path_rate=0.2, drop_path_rule="clip")
    in_training = {
        "folded_fc": ("fold_fc", deep),
        "kept_rows": ("compute_kept_rows", deep),
        "prefix_only": ("compute_prefix_only", deep),
        "regrouped_once": ("regroup_once", deep),
        "training": ("optimize_for_training", deep),
    }
    for module, (function, options) in in_training.items():
        # Before, the first three were inside; so they are in what is measured as plain.
        change = fast_part(module, function) or unchanged
        yield Case(module, *training(partial(build, **options), change, clips))
    recompute = fast_part("recompute", "recompute")
    for what in ("activations", True):
        if recompute:
            steps = training(build, partial(recompute, what=what), clips)
        else:
            steps = training(partial(build, with_cp=what), unchanged, clips)
        yield Case(f"recompute, {what}", *steps)
    gather = fast_part("recompute", "copy_again") or unchanged
    sparse = dict(scheme="sparse_local_global")
    yield Case("copy_again", *training(partial(build, **sparse), gather, clips[:1]))
    onednn = fast_part("onednn", "multiply_in_onednn") or fast_part("cpu", "optimize_for_training")
    yield Case("onednn", *training(build, onednn, clips))
    drop = lambda model: setattr(model, "token_keep", 0.5)  # noqa: E731
    yield Case("token_dropping, 0.5", *training(build, drop, clips))
    optimize = fast_part("inference", "optimize_for_inference")
    model, clip = build(), clips[:1]
    optimized = optimize(model)
    yield Case("inference", *inference(model, optimized, clip))
    yield Case("int8", *inference(optimized, optimize(model, int8=True), clip))
    joint = build(ViViT, scheme="spacetime", positions="space", stem=dict(tubelet=(2, 16, 16)))
    still = build(ViViT, scheme="spacetime", positions="space", stem=dict(tubelet=(2, 16, 16)))
    still.eval().static = 0.1
    standing = clip[:, :, :1].repeat(1, 1, 8, 1, 1)
    standing[..., :16] = clip[..., :16]  # six of seven columns stand still
    yield Case("run_lengths, 6/7 still", *inference(joint, still, standing))
    compiled = build()
    (fast_part("compiled_blocks", "compile_blocks") or fast_part("compiling", "compile_blocks"))(
        compiled
    )
    yield Case("compiled_blocks", *inference(build(), compiled.eval(), clip), counted=False)
    yield shared_frames(build(ViViT, scheme="factorized_encoder", stem=dict(tubelet=(2, 16, 16))))


def shared_frames(backbone: nn.Module) -> Case:
    """Return windows of 8 frames, each 2 after the one before."""
    encode = fast_part("single_frames", "encode_frames")
    after = fast_part("single_frames", "forward_frames")
    backbone.eval()
    video = torch.randn(1, 3, 16, 112, 112)
    starts = range(0, 10, 2)

    @torch.no_grad()
    def alone() -> None:
        for start in starts:
            backbone(video[:, :, start : start + 8])

    @torch.no_grad()
    def shared() -> None:
        features = encode(backbone, video)
        for start in starts:
            after(backbone, features[:, :, start // 2 : start // 2 + 4])

    return Case("shared_frames", alone, shared)


class Operators(TorchDispatchMode):
    """Counts operators; those that compute, or with views."""

    def __init__(self, views: bool = False) -> None:
        super().__init__()
        self.count, self.views = 0, views

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Count and run."""
        self.count += self.views or func.overloadpacket.__name__ not in VIEWS
        return func(*args, **(kwargs or {}))


def count_onednn(input_shape: Any, weight_shape: Any, *args: Any, **kwargs: Any) -> int:
    """Return the operations of a linear layer in oneDNN."""
    rows = torch.Size(input_shape).numel()
    return 2 * rows * weight_shape[0]


def counts_of(run: Callable[[], Any]) -> dict[str, str]:
    """Count operations, bytes that are kept for the backward pass, and operators."""
    mapping = {torch.ops.mkldnn._linear_pointwise: count_onednn}
    with FlopCounterMode(display=False, custom_mapping=mapping) as flops:
        run()
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        run()
    with Operators() as operators:
        run()
    mebibytes = sum(kept.values()) / 2**20
    gigas = flops.get_total_flops() / 1e9
    return {
        "GFLOP": f"{gigas:.2f}",
        "kept MiB": f"{mebibytes:.0f}" if kept else "",
        "operators": str(operators.count),
    }


def measure(counted: bool) -> Iterator[dict[str, str]]:
    """Yield the rows of this process."""
    for case in list_cases():
        ways = {"plain": case.plain, "pass": case.fast}
        least = dict.fromkeys(ways, float("inf"))
        for run in ways.values():
            run()
        for _ in range(5):
            for way, run in ways.items():
                start = time.perf_counter()
                run()
                least[way] = min(least[way], time.perf_counter() - start)
        for way, run in ways.items():
            counts = counts_of(run) if counted and case.counted else {}
            yield {"pass": case.name, "way": way, "ms": f"{least[way] * 1000:.1f}", **counts}


def run_tree(tree: Path, counted: bool) -> list[dict[str, str]]:
    """Measure a checkout in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, ONE_PROCESS, *(["counted"] if counted else [])]
    output = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(output.stdout.splitlines()[-1])


def main(argv: list[str] | None = None) -> None:
    """Measure, print and write."""
    from benchmarks.outputs import parse_with_results, with_suffixes  # not of the other checkout

    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="checkout of an earlier commit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    args = parse_with_results(parser, argv, with_suffixes(""))
    trees = {"": ROOT, "before: ": args.before} if args.before else {"": ROOT}
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for number in range(args.rounds):
        for label, tree in trees.items():
            for row in run_tree(tree, counted=number == 0):
                row["way"] = label + row["way"]
                known = rows.setdefault((row["pass"], row["way"]), row)
                known["ms"] = min(known["ms"], row["ms"], key=float)
    names = [*dict.fromkeys(name for name, _ in rows)]
    table = sorted(rows.values(), key=lambda row: names.index(row["pass"]))
    for row in table:
        print(", ".join(f"{name} {row.get(name, '')}" for name in COLUMNS))
    if args.out:
        with open(args.out, "w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(table)


if __name__ == "__main__":
    if sys.argv[1:2] == [ONE_PROCESS]:
        torch.set_num_threads(1)
        print(json.dumps(list(measure("counted" in sys.argv))))
    else:
        main()
