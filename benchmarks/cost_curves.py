"""Draw the cost of joint and divided attention (TimeSformer's figure 3).

python -m benchmarks.cost_curves --out costs.png [--csv costs.csv]

The costs are the multiply-accumulates of one view of TimeSformer-B, counted without running it.
"""

import csv
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from mmengine.config import Config
from tqdm import tqdm

from benchmarks.outputs import parse_with_results
from benchmarks.plots import draw_costs
from mmvidformer.apis.complexity import count

SCHEMES = ("joint_space_time", "divided_space_time")
CROPS = (224, 336, 448, 560, 672)  # pixels, of 8 frames
FRAMES = (8, 32, 64, 96)  # of 224 x 224 pixels
AXES = {
    "crop": "side of the crop in pixels (8 frames)",
    "frames": "frames (224 x 224 pixels)",
}


def count_timesformer(attention: str, clip_len: int, img_size: int) -> int:
    """Count the multiply-accumulates of one view of TimeSformer-B with 400 classes.

    Args:
        attention: Key of ``models.timesformer.SCHEMES``.
        clip_len: Number of frames.
        img_size: Side of the crop in pixels.
    """
    backbone = dict(
        type="mmvidformer.TimeSformer",
        scheme=attention,
        clip_len=clip_len,
        img_size=img_size,
    )
    head = dict(type="TimeSformerHead", num_classes=400, in_channels=768)
    cfg = Config({"model": {"backbone": backbone, "cls_head": head}})
    return count(cfg, (3, clip_len, img_size, img_size)).macs


def count_curves() -> dict[str, dict[str, dict[int, int]]]:
    """Count both panels of the figure.

    Returns:
        For ``'crop'`` and ``'frames'``, the multiply-accumulates of each scheme by size.
    """
    curves: dict[str, dict[str, dict[int, int]]] = {"crop": {}, "frames": {}}
    for scheme in tqdm(SCHEMES, unit="scheme", disable=None):
        curves["crop"][scheme] = {size: count_timesformer(scheme, 8, size) for size in CROPS}
        curves["frames"][scheme] = {n: count_timesformer(scheme, n, 224) for n in FRAMES}
    return curves


def main(argv: Sequence[str] | None = None) -> None:
    """Count and draw."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="image file (.png, .pdf, .svg)")
    parser.add_argument("--csv", type=Path, help="csv file to write the numbers to")
    args = parse_with_results(
        parser, argv, lambda args: [file for file in (args.out, args.csv) if file]
    )
    curves = count_curves()
    tera: dict[str, dict[str, dict[int, float]]] = {}
    for axis, schemes in curves.items():
        panel = tera.setdefault(AXES[axis], {})
        for scheme, costs in schemes.items():
            name = scheme.replace("_space_time", "").capitalize()
            panel[name] = {size: macs / 1e12 for size, macs in costs.items()}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    draw_costs(tera).savefig(args.out)
    if args.csv:
        with open(args.csv, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["axis", "attention", "size", "G MACs of one view"])
            for axis, schemes in curves.items():
                for scheme, costs in schemes.items():
                    for size, macs in costs.items():
                        writer.writerow([axis, scheme, size, f"{macs / 1e9:.2f}"])
    print(f"{args.out}" + (f", {args.csv}" if args.csv else ""))


if __name__ == "__main__":
    main()
