"""Compare what pretraining learns on real clips in a fixed processor time: pixels, or views.

    python -m benchmarks.pretraining_targets --lists NAME=LISTS ... --minutes 2.5 --out FILE

LISTS match the test lists of folds, as of ``benchmarks.chosen_tokens``. A transformer of 6 joint
blocks, 192 wide, sees 8 frames of 64 x 64 pixels of all clips without labels, 75% of the places
masked, 8 clips a step. Frozen tokens are read by logistic regression, fold by fold: their mean, or
their mean and the mean of their absolute changes in time.
"""

import json
import math
import time
from argparse import ArgumentParser
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn
from torch.nn.functional import interpolate

from benchmarks.chosen_tokens import read_folds
from benchmarks.outputs import parse_with_results, with_suffixes
from mmvidformer.finetune.tally import Tally
from mmvidformer.models import VideoTransformer
from mmvidformer.models.masked import MaskedPretraining
from mmvidformer.models.sigreg import SigRegPretraining
from mmvidformer.video.video import Video

FRAMES, SIDE, BATCH, RATE, WARMUP, MASKED = 8, 64, 8, 1e-3, 0.1, 0.75


def read_clip(path: str) -> Tensor:
    """Return pixels (3, T, H, W) from -1 to 1."""
    video = Video.open(path)
    numbers = [int((i + 0.5) * len(video) / FRAMES) for i in range(FRAMES)]
    frames = torch.from_numpy(np.stack(video.frames(numbers))).permute(0, 3, 1, 2).float()
    frames = interpolate(frames, (SIDE, SIDE), mode="bilinear", antialias=True)
    return frames.transpose(0, 1) / 127.5 - 1


def build(target: str, seed: int) -> Any:
    """Build the model of a target; the backbones of a seed are the same."""
    torch.manual_seed(seed)
    arch = dict(embed_dims=192, depth=6, num_heads=3)
    stem = dict(tubelet=(2, 8, 8))
    backbone = VideoTransformer(arch, FRAMES, SIDE, stem=stem, pool="none")
    kind = {"views": SigRegPretraining}.get(target, MaskedPretraining)
    return kind(backbone, mask_ratio=MASKED)


def train(model: nn.Module, clips: Tensor, seconds: float) -> tuple[int, dict[str, float]]:
    """Train for some processor time, and return the steps and the last losses."""
    optimizer = torch.optim.AdamW(model.parameters(), RATE, betas=(0.9, 0.95), weight_decay=0.05)
    start, steps, losses = time.process_time(), 0, {}
    while (share := (time.process_time() - start) / seconds) < 1:
        optimizer.param_groups[0]["lr"] = RATE * min(
            share / WARMUP, (1 + math.cos(math.pi * share)) / 2
        )
        batch = clips[torch.randint(len(clips), (BATCH,))]
        losses = model(batch[:, None], mode="loss")
        optimizer.zero_grad()
        sum(losses.values()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        steps += 1
    return steps, {name: value.item() for name, value in losses.items()}


@torch.no_grad()
def read_tokens(backbone: nn.Module, clips: Tensor) -> dict[str, np.ndarray]:
    """Return features (N, C) by how the tokens are read."""
    tokens = torch.cat([backbone.eval()(part) for part in clips.split(BATCH)])
    mean = tokens.mean(dim=(1, 2, 3))
    changes = tokens.diff(dim=1).abs().mean(dim=(1, 2, 3))
    return {"mean": mean.numpy(), "mean and change": torch.cat([mean, changes], dim=1).numpy()}


def tally_folds(folds: list, features: dict[str, np.ndarray]) -> Tally:
    """Fit and test logistic regression on each fold; the videos of a test are a group."""
    tallies = []
    for train_part, test_part in folds:
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
        model.fit([features[path] for path, _ in train_part], [label for _, label in train_part])
        answers = model.predict([features[path] for path, _ in test_part])
        right = sum(answers == [label for _, label in test_part])
        tallies.append(Tally(((int(right), len(test_part)),)))
    return Tally.pool(tallies)


def main() -> None:
    """Train each target, read its tokens, and write a table."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--lists", nargs="+", required=True, metavar="NAME=LISTS")
    parser.add_argument("--targets", nargs="+", default=["random", "pixels", "views"])
    parser.add_argument("--minutes", type=float, default=2.5, help="of a processor, each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    args = parse_with_results(parser, None, with_suffixes(""))
    torch.set_num_threads(1)
    sets = {}
    for entry in args.lists:
        name, _, pattern = entry.partition("=")
        sets[name] = read_folds([Path(path) for path in sorted(glob(pattern))])
    paths = sorted({path for folds in sets.values() for part in folds[0] for path, _ in part})
    clips = torch.stack([read_clip(path) for path in paths])
    rows = []
    for target in args.targets:
        model = build(target, args.seed)
        steps, losses = (0, {}) if target == "random" else train(model, clips, 60 * args.minutes)
        print(target, steps, losses, flush=True)
        for reading, features in read_tokens(model.backbone, clips).items():
            by_path = dict(zip(paths, features, strict=True))
            for name, folds in sets.items():
                tally = str(tally_folds(folds, by_path))
                rows.append(dict(target=target, steps=steps, losses=losses, read=reading))
                rows[-1] |= dict(set=name, tally=tally)
                print(target, reading, name, tally, flush=True)
        args.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
