"""CPU time of linear layers in 8 bits and of run lengths, against the optimized float32 model.

python -m benchmarks.inexact int8 runs training [--models timesformer vivit ...] [--rounds 3]

One thread, random weights of the right size, one clip. The models take turns; each figure is the
least CPU time of the rounds. Set ONEDNN_MAX_CPU_ISA=AVX2 to multiply as a processor without VNNI.

``int8``: time, bytes of the weights, and the error of the features. ``runs``: clips of noise, of
which a share of the places stands still, for joint attention without positions in time.
``training``: steps of four blocks of that model, with and without run lengths, on batches of four
such clips; the last batch has one of each share.
"""

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from mmvidformer.models import FeatureFixationTransformer, TimeSformer, ViViT
from mmvidformer.models.fast.inference import optimize_for_inference
from mmvidformer.models.fast.int8 import bytes_of_weights, input_bits
from mmvidformer.models.fast.run_lengths import find_runs, share_computed
from mmvidformer.models.fast.training import optimize_for_training

PATCHES, TUBELETS = dict(tubelet=(1, 16, 16)), dict(tubelet=(2, 16, 16))
MODELS: dict[str, tuple[type, dict[str, Any]]] = {
    "timesformer": (TimeSformer, dict(clip_len=8, stem=PATCHES)),
    "vivit_joint": (ViViT, dict(scheme="spacetime", clip_len=16, stem=TUBELETS)),
    "vivit_factorized": (ViViT, dict(clip_len=32, stem=TUBELETS)),
    "feature_fixation": (FeatureFixationTransformer, dict(clip_len=16)),
}
SHARES = (0.0, 0.5, 0.8, 0.9)  # of the places that stand still
TOLERANCE, NOISE = 0.1, 0.01  # of normalized pixels
TINY = dict(embed_dims=32, depth=1, num_heads=2)
FOUR_BLOCKS = dict(embed_dims=768, depth=4, num_heads=12)


def build(model_type: type, options: Mapping[str, Any], tiny: bool) -> nn.Module:
    """Build a model of random weights, optimized for inference."""
    torch.manual_seed(0)
    sizes = dict(arch=TINY, img_size=32) if tiny else {}
    return optimize_for_inference(model_type(**{**options, **sizes}))


def least_times(
    models: Mapping[str, Callable[[Tensor], Tensor]], clip: Tensor, rounds: int
) -> tuple[dict[str, float], dict[str, Tensor]]:
    """Return the least CPU seconds of each model or function of a clip, and its output."""
    times = {name: float("inf") for name in models}
    outputs = {name: model(clip) for name, model in models.items()}
    for _ in range(rounds):
        for name, model in models.items():
            start = time.process_time()
            model(clip)
            times[name] = min(times[name], time.process_time() - start)
    return times, outputs


def measure_int8(names: Sequence[str], rounds: int, tiny: bool = False) -> None:
    """Print a row for each model."""
    print(f"int8, {input_bits()} bits of inputs")
    for name in names:
        model_type, options = MODELS[name]
        model = build(model_type, options, tiny)
        side = 32 if tiny else 224
        clip = torch.randn(1, 3, options["clip_len"], side, side)
        rounded = optimize_for_inference(model, share_weights=True, int8=True)
        times, outputs = least_times({"float32": model, "int8": rounded}, clip, rounds)
        error = (outputs["int8"] - outputs["float32"]).norm() / outputs["float32"].norm()
        share = bytes_of_weights(rounded) / bytes_of_weights(model)
        faster = times["float32"] / times["int8"]
        seconds = f"{times['float32']:.2f} s, int8 {times['int8']:.2f} s"
        print(f"{name}: {seconds}, {faster:.2f} x; weights {share:.2f}; error {error:.1%}")


def still_clip(frames: int, side: int, share: float) -> Tensor:
    """Draw a clip of noise, a share of whose 16 x 16 places stand still but for a little noise."""
    clip = torch.randn(1, 3, 1, side, side).repeat(1, 1, frames, 1, 1)
    moving = torch.rand(side // 16, side // 16) >= share
    moving = moving.repeat_interleave(16, 0).repeat_interleave(16, 1)
    clip[..., moving] = torch.randn(1, 3, frames, int(moving.sum()))
    return clip + NOISE * torch.randn_like(clip)


def measure_runs(rounds: int, tiny: bool = False) -> None:
    """Print a row for each share of still places."""
    model_type, options = MODELS["vivit_joint"]
    model = build(model_type, {**options, "positions": "space"}, tiny)
    still, both = (
        optimize_for_inference(model, share_weights=True, int8=int8) for int8 in (False, True)
    )
    for part in (still, both):
        part.static = TOLERANCE
    for share in SHARES:
        clip = still_clip(options["clip_len"], 32 if tiny else 224, share)
        tokens = share_computed(find_runs(model, clip, TOLERANCE))
        models = {"float32": model, "runs": still, "int8 and runs": both}
        times, _ = least_times(models, clip, rounds)
        cells = [f"{name} {seconds:.2f} s" for name, seconds in times.items()]
        faster = [f"{times['float32'] / times[name]:.2f} x" for name in ("runs", "int8 and runs")]
        print(f"{share:.0%} still, {tokens:.0%} of the tokens: {', '.join(cells + faster)}")


def measure_training(rounds: int, tiny: bool = False) -> None:
    """Print a row for each batch."""
    model_type, options = MODELS["vivit_joint"]
    sizes = dict(arch=TINY, img_size=32) if tiny else dict(arch=FOUR_BLOCKS)
    torch.manual_seed(0)
    model = model_type(**{**options, "positions": "space", **sizes}).train()
    optimize_for_training(model)

    def step(clips: Tensor, static: float | None) -> Tensor:
        model.static = static
        model.zero_grad()
        out = model(clips)
        out.square().mean().backward()
        return out.detach()

    steps = {"all": partial(step, static=None), "runs": partial(step, static=TOLERANCE)}
    side = 32 if tiny else 224
    for shares in (*([share] * 4 for share in SHARES), SHARES):
        clips = torch.cat([still_clip(options["clip_len"], side, share) for share in shares])
        tokens = share_computed(find_runs(model, clips, TOLERANCE))
        times, _ = least_times(steps, clips, rounds)
        still = ", ".join(f"{share:.0%}" for share in sorted({*shares}))
        faster = times["all"] / times["runs"]
        seconds = f"{times['all']:.2f} s, runs {times['runs']:.2f} s, {faster:.2f} x"
        print(f"training, {still} still, {tokens:.0%} of the tokens: {seconds}")


@torch.no_grad()
def measure_inference(args: Namespace) -> None:
    """Measure what is asked of int8 and run lengths."""
    if "int8" in args.what:
        measure_int8(args.models, args.rounds, args.tiny)
    if "runs" in args.what:
        measure_runs(args.rounds, args.tiny)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure what is asked."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="+", choices=["int8", "runs", "training"])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tiny", action="store_true", help="small models, to try it")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    measure_inference(args)
    if "training" in args.what:
        measure_training(args.rounds, args.tiny)


if __name__ == "__main__":
    main()
