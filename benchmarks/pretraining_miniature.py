"""Compare masked pretraining on small clips with training from nothing.

python -m benchmarks.pretraining_miniature --pretrain 240 --finetune 40 [--videos A.mp4 B.mp4]

A small transformer learns from a few labeled clips: the direction of a generated object, or, with
--videos, the motion of the camera in windows of real videos. Their test windows are others of the
same videos, and those of --test-video, if it is given. One run pretrains on all clips without
labels and then fine-tunes; the other trains from random weights for the processor time of both.
Each seed draws other clips. The table shows accuracy on test clips in percent, mean of the seeds
and half of the 95% interval (Student's t).
"""

import json
import math
import sys
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.attention import read_arch
from benchmarks.camera_windows import cut_windows
from benchmarks.outputs import parse_with_results, with_suffixes
from lab.papers.summary import interval
from lab.synthetic.directions import DirectionsSpec
from lab.synthetic.render import Look
from mmvidformer.models import VideoTransformer
from mmvidformer.models.fast.training import optimize_for_training
from mmvidformer.models.masked import MaskedPretraining

FRAMES, SIZE, BATCH = 8, 32, 16
WARMUP = 0.1  # share of the time


def draw(args: Namespace, seed: int) -> dict[str, tuple[Tensor, Tensor]]:
    """Draw clips (N, 3, T, H, W), normalized, and their classes: to train, and of each test."""
    if not args.videos:
        look = Look(size=SIZE, frames=FRAMES, speed=3.0, texture=0.0, colors="plain")
        spec = DirectionsSpec(train=args.train, val=0, test=args.test, seed=seed, look=look)
        drawn = {}
        for split in ("train", "test"):
            clips = spec.clips(split)
            drawn[split] = stack([spec.draw(clip) for clip in clips], [clip.verb for clip in clips])
        return drawn
    sets = {"train": (args.videos, args.train, seed), "test": (args.videos, args.test, seed + 1000)}
    if args.test_video:
        sets["another video"] = ([args.test_video], args.test, seed)
    windows = {}
    for name, (paths, count, number) in sets.items():
        by_video = [cut_windows(path, -(-count // len(paths)), number, SIZE) for path in paths]
        mixed = list(chain.from_iterable(zip(*by_video, strict=True)))[:count]
        frames, labels = [window.frames for window in mixed], [window.label for window in mixed]
        windows[name] = stack(frames, labels)
    return windows


def stack(frames: list[np.ndarray], labels: list[int]) -> tuple[Tensor, Tensor]:
    """Normalize clips of frames (T, H, W, 3) with values of 0 to 255."""
    pixels = torch.from_numpy(np.stack(frames)).float()
    return (pixels.permute(0, 4, 1, 2, 3) - 127.5) / 127.5, torch.tensor(labels)


def train(model: nn.Module, loss: Callable, count: int, seconds: float, lr: float) -> int:
    """Train with AdamW for some processor time; warm-up and cosine follow it. Returns the steps."""
    optimize_for_training(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr, betas=(0.9, 0.95), weight_decay=0.05)
    start, steps = time.process_time(), 0
    while (share := (time.process_time() - start) / seconds) < 1:
        factor = min(share / WARMUP, (1 + math.cos(math.pi * share)) / 2)
        optimizer.param_groups[0]["lr"] = lr * factor
        optimizer.zero_grad()
        loss(torch.randint(count, (BATCH,))).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        steps += 1
    return steps


def run(seed: int, args: Namespace) -> list[dict]:
    """Train both ways with each number of labels."""
    sets = draw(args, seed)
    clips, labels = sets.pop("train")
    torch.manual_seed(seed)
    sizes = dict(clip_len=FRAMES, img_size=SIZE, stem=dict(tubelet=(2, 8, 8)), pool="mean")
    backbone = VideoTransformer(args.arch, **sizes, block=[dict(pattern="joint")])
    first = {name: value.clone() for name, value in backbone.state_dict().items()}
    # VideoMAE's decoder has a third of the encoder's blocks.
    masked = MaskedPretraining(backbone, args.ratio, dict(depth=max(1, args.arch["depth"] // 3)))

    def pixels(index: Tensor) -> Tensor:
        return masked.loss(clips[index], *masked.draw_places(clips[index]))

    steps = train(masked, pixels, len(clips), args.pretrain, args.pretrain_lr)
    some = torch.arange(min(64, len(clips)))
    print(f"seed {seed}: {steps} steps of pretraining, loss {pixels(some):.3f}")
    pretrained = {name: value.clone() for name, value in backbone.state_dict().items()}
    starts = {
        "from nothing": (first, args.pretrain + args.finetune),
        "pretrained": (pretrained, args.finetune),
    }
    rows = []
    for count in args.labels:
        for name, (state, seconds) in starts.items():
            torch.manual_seed(seed)
            backbone.load_state_dict(state)
            model = nn.Sequential(backbone, nn.Linear(backbone.embed_dims, int(labels.max()) + 1))

            def loss(index: Tensor, model: nn.Module = model) -> Tensor:
                return F.cross_entropy(model(clips[index]), labels[index])

            steps = train(model, loss, count, seconds, args.lr)
            row = dict(seed=seed, labels=count, start=name, steps=steps)
            with torch.no_grad():
                for which, (test, truth) in sets.items():
                    predicted = torch.cat([model(part).argmax(dim=1) for part in test.split(64)])
                    row[which] = (predicted == truth).float().mean().item()
            rows.append(row)
            print(rows[-1], flush=True)
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    """Train, and print and save a table."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--arch", type=read_arch, default="96,4,4", help="width, depth, heads")
    parser.add_argument("--pretrain", type=float, default=240, help="processor seconds")
    parser.add_argument("--finetune", type=float, default=40, help="processor seconds")
    parser.add_argument("--labels", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--videos", type=Path, nargs="+", help="of still cameras")
    parser.add_argument("--test-video", type=Path, help="another one, for a second test")
    parser.add_argument("--train", type=int, default=1024, help="clips without labels")
    parser.add_argument("--test", type=int, default=400, help="test clips")
    parser.add_argument("--ratio", type=float, default=0.75, help="share that is masked")
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--pretrain-lr", type=float, default=1e-3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="json file")
    args = parse_with_results(parser, argv, with_suffixes(""))
    torch.set_num_threads(1)
    rows = []
    for seed in range(args.seeds):
        rows += run(seed, args)
    if args.out:
        args.out.write_text(json.dumps(rows, indent=1) + "\n")
    starts = ("from nothing", "pretrained")
    print("| test | labels | from nothing | pretrained |\n|---|---|---|---|")
    for which in [name for name in rows[0] if name in ("test", "another video")]:
        for count in args.labels:
            cells = []
            for start in starts:
                chosen = [row for row in rows if (row["labels"], row["start"]) == (count, start)]
                cells.append(interval([row[which] for row in chosen]))
            print(f"| {which} | {count} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
