"""Draw the cost of joint and divided attention (TimeSformer's figure 3).

python tools/visualizations/cost_curves.py --out costs.png [--csv costs.csv]

Counted, not measured: multiply-accumulates of one view of TimeSformer-B, without running it.
"""

import csv
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from mmvidformer.analysis.cost_curves import count_curves
from mmvidformer.visualization import draw_costs

AXES = {
    "crop": "side of the crop in pixels (8 frames)",
    "frames": "frames (224 x 224 pixels)",
}


def main(argv: Sequence[str] | None = None) -> None:
    """Count, draw and write."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the picture (.png, .pdf, .svg)")
    parser.add_argument("--csv", type=Path, help="also write the numbers to this file")
    args = parser.parse_args(argv)
    curves = count_curves()
    tera = {
        AXES[axis]: {
            scheme.replace("_space_time", "").capitalize(): {
                size: macs / 1e12 for size, macs in costs.items()
            }
            for scheme, costs in schemes.items()
        }
        for axis, schemes in curves.items()
    }
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
