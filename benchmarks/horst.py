"""Measure a HORST layer on a clip against a straightforward form with the same weights.

python -m benchmarks.horst [--batch 8 --steps 14 --channels 512 --size 8 14 --order 8 --training]

The straightforward form projects the keys and values of all remembered states at each time step, as
the official code does. The outputs of both, and of the streamed form, are compared; the exit status
is 1 if they differ. --out PATH writes PATH.csv.
"""

import argparse
import csv
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.outputs import parse_with_results, with_suffixes
from mmvidformer.models.horst.layer import HorstLayer
from mmvidformer.models.horst.statt import Entry, States

TOLERANCE = 1e-4
COLUMNS = ("form", "s", "times faster", "largest difference")


def straightforward(layer: HorstLayer, clip: Tensor) -> Tensor:
    """Return the output y of a layer for a clip (B, T, C, H, W), one time step after the other."""
    queue: list[dict[str, Tensor]] = []
    outputs = []
    for frame in clip.unbind(1):
        x = layer.pool(frame)
        e = layer.encode(x)
        q = layer.query(e)
        blank = {part: torch.zeros_like(e) for part in "eqh"}
        entries = [
            layer.attend.remember(
                *(
                    part.norm(part.conv(torch.cat([maps[p] for p in part.parts], dim=1)))
                    for part in (layer.key, layer.value)
                )
            )
            for maps in queue or [blank]
        ]
        h = layer.readout.state(e, layer.attend(q, ring(entries)))
        outputs.append(layer.readout(x, e, h))
        queue = [*queue, {"e": e, "q": q, "h": h}][-layer.order :]
    return torch.stack(outputs, dim=1)


def ring(entries: Sequence[Entry]) -> States:
    """Return the states of a layer that has as many slots as there are entries, oldest first."""
    key, value, gate = (
        None if parts[0] is None else torch.stack(parts, dim=1)
        for parts in zip(*entries, strict=True)
    )
    count = torch.full((key.shape[0],), len(entries), device=key.device)
    return States(count, key, value, gate)


def streamed(layer: HorstLayer, clip: Tensor) -> Tensor:
    """Return the output y of a layer for a clip (B, T, C, H, W), frame by frame with a state."""
    state, outputs = None, []
    for frame in clip.unbind(1):
        output, state = layer.step(frame, state)
        outputs.append(output.y)
    return torch.stack(outputs, dim=1)


FORMS = {
    "straightforward": straightforward,
    "streamed": streamed,
    "clip": lambda layer, clip: layer(clip)[0].y,
}


def measure(run: Callable[[], Tensor], repeat: int, device: torch.device) -> tuple[float, Tensor]:
    """Return the shortest time in seconds of ``repeat`` runs after a warmup, and the output."""
    times = []
    for _ in range(repeat + 1):
        start = time.perf_counter()
        output = run()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times[1:]), output


def parse_args(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=14, help="frames per clip")
    parser.add_argument("--channels", type=int, default=512)
    parser.add_argument("--size", type=int, nargs=2, default=[8, 14], help="height and width")
    parser.add_argument("--order", type=int, default=8, help="number of remembered states S")
    parser.add_argument("--training", action="store_true", help="with the backward pass")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"))
    parser.add_argument("--out", type=Path, help="path of the table, without suffix")
    return parse_with_results(parser, argv, with_suffixes(".csv"))


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and return the exit status."""
    args = parse_args(argv)
    torch.backends.cudnn.allow_tf32 = False  # the forms must compute the same
    torch.manual_seed(0)
    layer = HorstLayer(args.channels, args.channels, order=args.order).eval().to(args.device)
    shape = (args.batch, args.steps, args.channels, *args.size)
    clip = torch.randn(shape, device=args.device)
    worst, first, expected, rows = 0.0, None, None, [COLUMNS]

    def run(form: Callable[[HorstLayer, Tensor], Tensor]) -> Tensor:
        output = form(layer, clip)
        if args.training:
            layer.zero_grad()
            output.square().mean().backward()
        return output.detach()

    for name, form in FORMS.items():
        with torch.set_grad_enabled(args.training):
            seconds, output = measure(partial(run, form), args.repeat, args.device)
        if first is None:
            first, expected = seconds, output
        difference = (output - expected).abs().max().item()
        worst = max(worst, difference)
        ratio = first / seconds
        rows.append((name, f"{seconds:.6f}", f"{ratio:.2f}", f"{difference:.1e}"))
        print(f"{name:15} {seconds:8.3f} s {ratio:6.2f} x   largest difference {difference:.1e}")
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        with open(f"{args.out}.csv", "w", newline="") as file:
            csv.writer(file).writerows(rows)
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
