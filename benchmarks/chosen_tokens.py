"""Accuracy and time of a frozen image model on some of the tokens of real clips.

    python -m benchmarks.chosen_tokens LISTS [LISTS ...] --weights FILE --out FOLDER

LISTS are test lists of folds, such as ``folds/set1_*_test.txt``, whose videos are in the folder
above; a fold is trained on the others' videos. FILE has the weights of a ViT-S/14 in timm's names.

Each clip is 8 frames of 112 x 112 pixels, 8 x 8 places a frame. The first frame is computed whole;
of the others the places that a chooser takes, and others keep the token that they had. Ridge
regression on the changes of tokens (``--method temporal``) is chosen in the training folds alone.
With ``--pan 0.25`` the camera moves: copies of the videos are written to FOLDER/panned, as a window
of three quarters of the frame sees them that goes from one side to the other, by chance which.
"""

import csv
import time
from argparse import ArgumentParser
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from benchmarks.outputs import parse_with_results
from lab.synthetic.render import write_film
from mmvidformer.finetune.frozen_features import change_layers
from mmvidformer.finetune.ridge import fit_changes
from mmvidformer.finetune.tally import Tally
from mmvidformer.layers.changes import measure_changes
from mmvidformer.layers.chooser import choose_places, measure_differences
from mmvidformer.layers.tokens import Places
from mmvidformer.models import VideoTransformer
from mmvidformer.models.change_head import ChangeHead
from mmvidformer.models.fast.run_lengths import begins_run
from mmvidformer.video.motion import measure_motion
from mmvidformer.video.video import Video

FRAMES, SIDE, GRID = 8, 112, (8, 8)
MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1, 1)
TOLERANCE = 0.1  # of run lengths
TABLE = "chosen_tokens.csv"


def pan(path: str, out: Path, share: float, to_right: bool) -> str:
    """Write a video as a window sees it that crosses a share of the frame, and return its path."""
    video = Video.open(path)
    count = len(video)
    frames = np.stack(video.frames(range(count)))
    height, width = (int(side * (1 - share)) // 2 * 2 for side in frames.shape[1:3])
    top = (frames.shape[1] - height) // 2
    lefts = np.linspace(0, frames.shape[2] - width, count).round().astype(int)
    lefts = lefts if to_right else lefts[::-1]
    seen = [
        frame[top : top + height, left : left + width]
        for frame, left in zip(frames, lefts, strict=True)
    ]
    out.parent.mkdir(parents=True, exist_ok=True)
    write_film(out, np.ascontiguousarray(np.stack(seen)), fps=25)
    return str(out)


def read_clip(path: str) -> tuple[Tensor, list[int]]:
    """Return normalized pixels (1, 3, T, H, W) of the middles of equal parts, and frame numbers."""
    video = Video.open(path)
    numbers = [int((i + 0.5) * len(video) / FRAMES) for i in range(FRAMES)]
    frames = torch.from_numpy(np.stack(video.frames(numbers))).permute(0, 3, 1, 2).float() / 255
    frames = interpolate(frames, (SIDE, SIDE), mode="bilinear", antialias=True)
    return ((frames.transpose(0, 1) - MEAN) / STD)[None], numbers


@torch.no_grad()
def encode(backbone: Any, clip: Tensor, mask: Tensor) -> Tensor:
    """Return tokens (1, T, H, W, L D) of L layers; those that a mask (T, H, W) lacks stay."""
    layers = change_layers(backbone)
    held = torch.zeros(1, 1, *GRID, len(layers) * backbone.embed_dims)
    frames = []
    for pixels, chosen in zip(clip.split(1, dim=2), mask, strict=True):
        numbers = chosen.flatten().nonzero().T
        if numbers.numel():
            kept = None if chosen.all() else Places(numbers, (1, *GRID))
            blocks: list[Any] = []
            backbone.forward_features(pixels, blocks, kept)
            encoder = backbone.encoders[0]
            places = [encoder.norm(blocks[layer].places) for layer in layers]
            held = held.clone()
            held[0, 0].view(-1, held.shape[-1])[numbers[0]] = torch.cat(places, dim=-1).flatten(
                0, 3
            )
        frames.append(held)
    return torch.cat(frames, dim=1)


def choosers(shares: list[float]) -> dict[str, Callable[[Any, Tensor, str, list[int]], Tensor]]:
    """Return functions by name that map a model, clip, path and frames to masks (T, H, W)."""

    def differences(backbone: Any, clip: Tensor, path: str, numbers: list[int]) -> Tensor:
        return measure_differences(clip, backbone.embed)

    def motion(backbone: Any, clip: Tensor, path: str, numbers: list[int]) -> Tensor:
        return torch.from_numpy(measure_motion(path, numbers, GRID))[None]

    def steady(backbone: Any, clip: Tensor, path: str, numbers: list[int]) -> Tensor:
        return torch.from_numpy(measure_motion(path, numbers, GRID, steady=True))[None]

    def chance(backbone: Any, clip: Tensor, path: str, numbers: list[int]) -> Tensor:
        generator = torch.Generator().manual_seed(0)
        return torch.rand(1, FRAMES, *GRID, generator=generator)

    rows: dict[str, Any] = {"all": lambda *args: torch.ones(FRAMES, *GRID, dtype=torch.bool)}
    for share in shares:
        for score in (differences, motion, steady, chance):
            rows[f"{score.__name__} {share:g}"] = lambda *args, score=score, share=share: (
                choose_places(score(*args), share).mask()[0]
            )
    rows[f"runs {TOLERANCE:g}"] = lambda backbone, clip, *args: begins_run(
        backbone.embed.boxes(clip), TOLERANCE
    )[0]
    return rows


def read_folds(lists: list[Path]) -> list[list[list[tuple[str, int]]]]:
    """Return the videos and labels of training, those of the other tests, and test of each fold."""
    tests = []
    for file in lists:
        rows = [line.rsplit(maxsplit=1) for line in file.read_text().splitlines()]
        tests.append([(str(file.parents[1] / name), int(label)) for name, label in rows])
    folds = []
    for number, test in enumerate(tests):
        others = chain.from_iterable(tests[:number] + tests[number + 1 :])
        folds.append([[*others], test])
    return folds


def tally_folds(folds: list, changes: dict[str, Tensor], width: int, layers: int) -> Tally:
    """Train and test on each fold; the videos of a test are a group."""
    tallies = []
    for train, test in folds:
        classes = 1 + max(label for _, label in train)
        head = ChangeHead(classes, width * layers, layers)
        labels = torch.tensor([label for _, label in train])
        fit_changes(head, torch.stack([changes[path] for path, _ in train]), labels, mirror=True)
        with torch.no_grad():
            answers = head(torch.stack([changes[path] for path, _ in test])).argmax(1).tolist()
        right = sum(answer == label for answer, (_, label) in zip(answers, test, strict=True))
        tallies.append(Tally(((right, len(test)),)))
    return Tally.pool(tallies)


def main() -> None:
    """Compute changes of tokens, evaluate them, and write the table."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("lists", type=Path, nargs="+")
    parser.add_argument("--weights", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pan", type=float, help="share of the frame that the camera crosses")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.5, 0.25])
    args = parse_with_results(parser, None, lambda args: [args.out / TABLE])
    args.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    options = dict(clip_len=1, img_size=SIDE, pool="none", init_from=args.weights)
    backbone = VideoTransformer("timm:vit_small_patch14_dinov2", **options)
    backbone.init_weights()
    backbone.eval()
    folds = read_folds(args.lists)
    paths = sorted({path for fold in folds for part in fold for path, _ in part})
    changes: dict[str, dict[str, Tensor]] = {}
    shares: dict[str, list[float]] = {}
    seconds: dict[str, float] = {}
    sides = np.random.default_rng(0).integers(0, 2, len(paths))
    for count, path in enumerate(paths):
        seen = path
        if args.pan:
            copy = args.out / "panned" / f"{count}.mp4"
            seen = pan(path, copy, args.pan, bool(sides[count]))
        clip, numbers = read_clip(seen)
        for name, choose in choosers(args.shares).items():
            start = time.process_time()
            mask = choose(backbone, clip, seen, numbers)
            tokens = encode(backbone, clip, mask)
            seconds[name] = seconds.get(name, 0) + time.process_time() - start
            shares.setdefault(name, []).append(mask.float().mean().item())
            layers = len(change_layers(backbone))
            changes.setdefault(name, {})[path] = measure_changes(tokens, layers)[0]
        print(count + 1, "of", len(paths), flush=True)
    rows = []
    for name, values in changes.items():
        tally = tally_folds(folds, values, backbone.embed_dims, layers)
        row = [
            name,
            f"{np.mean(shares[name]):.3f}",
            f"{seconds[name] / len(paths):.2f}",
            str(tally),
        ]
        rows.append(row)
        print(*row, flush=True)
    with (args.out / TABLE).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["tokens", "share", "seconds", "top-1"], *rows])


if __name__ == "__main__":
    main()
