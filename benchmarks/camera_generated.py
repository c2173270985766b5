"""Accuracy, rates and probabilities of camera motion: python -m benchmarks.camera_generated.

Clips are drawn as in training, hard ones, of scenes and motions that training has not seen; but
their speeds, and their shake, are the defaults of ``CameraMotionDataset``. Prints the accuracy by
class, the error of each rate, and how often answers of each probability are right, with 95%
intervals by scene (bootstrap: scenes are drawn again, each with all clips that show it).

With ``--calibrate OUT`` a temperature is fitted first, on clips of other scenes, and weights that
have it are written to OUT: logits are speeds times a learned factor, which it divides.
"""

import argparse
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from mmengine.config import Config
from torch import Tensor, nn

from lab.synthetic.camera.clips import film
from lab.synthetic.camera.dataset import CameraMotionDataset
from lab.synthetic.camera.paths import CLASSES, EDGE, class_of, draw_steps
from lab.synthetic.camera.textures import SIDE, texture
from mmvidformer.apis.factory import PUBLISHED, find_model
from mmvidformer.apis.pipeline import normalize
from mmvidformer.config import load_config
from mmvidformer.engine.loading import load_recognizer
from mmvidformer.models.camera_head import PER_SPEED

FITTED, TESTED = 1000, 2000  # first seeds of scenes; training has the pictures of seed 0
SURE = (0.0, 0.5, 0.7, 0.9, 0.99, 1.0)
NAMES = (
    "pan, short sides/s",
    "tilt, short sides/s",
    "zoom, log/s",
    "roll, degrees/s",
    "shake, short sides",
)


class Answers:
    """What a model says of drawn clips, ``per_scene`` of each scene.

    Attributes:
        logits: Logits (N, 9).
        rates: Rates (N, 5) of the head.
        truth: True rates (N, 5).
        labels: Numbers of the true classes (N,).
        scenes: Numbers of the scenes (N,).
    """

    def __init__(
        self, model: nn.Module, cfg: Config, first: int, scenes: int, per_scene: int
    ) -> None:
        size = cfg.train_dataloader.dataset.get("size", 64)
        answers, motions = [], []
        for seed in range(first, first + scenes):
            # One picture; sizes, if there are several, take turns.
            clips = CameraMotionDataset([], per_scene, seed, size, 1, textures=1)
            for frames, velocity, shake in map(clips.draw, range(per_scene)):
                answers.append(_measure(model, frames))
                motions.append([*velocity, shake])
        self.logits, self.rates = map(torch.cat, zip(*answers, strict=True))
        factors = np.append(EDGE * np.array(PER_SPEED), 1.0)
        self.truth = torch.tensor(np.array(motions) * factors, dtype=torch.float32)
        self.labels = torch.tensor([class_of(np.array(motion[:4])) for motion in motions])
        self.scenes = np.repeat(np.arange(scenes), per_scene)

    def interval(self, statistic: Callable[[np.ndarray], float], draws: int = 1000) -> str:
        """Describe a statistic of clips, a function of their numbers, and its interval by scene."""
        members = [np.flatnonzero(self.scenes == scene) for scene in np.unique(self.scenes)]
        rng, values = np.random.default_rng(0), []
        for _ in range(draws):
            drawn = rng.integers(len(members), size=len(members))
            values.append(statistic(np.concatenate([members[scene] for scene in drawn])))
        low, high = np.nanpercentile(values, [2.5, 97.5])
        return f"{statistic(np.arange(len(self.scenes))):.3g} ({low:.3g}-{high:.3g})"


@torch.no_grad()
def _measure(model: nn.Module, frames: np.ndarray) -> tuple[Tensor, Tensor]:
    """Return the logits (1, 9) and rates (1, 5) of RGB frames (T, H, W, 3)."""
    clip = torch.from_numpy(np.ascontiguousarray(frames.transpose(3, 0, 1, 2)))
    features = model.extract_feat(normalize(model, clip[None])[:, None])[0]
    return model.cls_head.measure(features)


def fit_temperature(logits: Tensor, labels: Tensor) -> float:
    """Return what logits (N, 9) must be divided by for the least cross-entropy."""
    values = torch.logspace(-1, 1, 401)
    losses = [F.cross_entropy(logits / value, labels).item() for value in values]
    return values[int(np.argmin(losses))].item()


def print_accuracy(answers: Answers) -> None:
    """Print how often answers are right, by class."""
    right = (answers.logits.argmax(dim=1) == answers.labels).numpy()
    labels = answers.labels.numpy()
    print("| class | right, % | clips |\n|---|---|---|")
    for number, name in enumerate([*CLASSES, "all"]):
        chosen = (labels == number) | (name == "all")

        def share(clips: np.ndarray, chosen: np.ndarray = chosen) -> float:
            return 100 * right[clips][chosen[clips]].mean()

        print(f"| {name} | {answers.interval(share)} | {chosen.sum()} |")


def print_rates(answers: Answers) -> None:
    """Print the error of each rate, and how many labels that hold at once are found."""
    errors = (answers.rates - answers.truth).abs().numpy()
    truth = answers.truth.abs().numpy()
    print("| rate | mean error | 90% of errors are below | mean size where it moves |")
    print("|---|---|---|---|")
    for number, name in enumerate(NAMES):
        column, moves = errors[:, number], truth[:, number] > 0

        def mean(clips: np.ndarray, column: np.ndarray = column) -> float:
            return float(column[clips].mean())

        def most(clips: np.ndarray, column: np.ndarray = column) -> float:
            return float(np.percentile(column[clips], 90))

        size = truth[moves, number].mean()
        print(f"| {name} | {answers.interval(mean)} | {answers.interval(most)} | {size:.3g} |")


def print_moves(answers: Answers, head: nn.Module) -> None:
    """Print how many of the motions that hold at once are named, beside the fastest one."""
    true_moves, named = (head.moves(rates)[:, 1:] for rates in (answers.truth, answers.rates))
    fastest = F.one_hot(answers.labels, len(CLASSES))[:, 1:].bool()
    beside = true_moves & ~fastest

    def share(hits: Tensor, of: Tensor) -> str:
        hits_by_clip, of_by_clip = (mask.sum(dim=1).numpy() for mask in (hits, of))

        def of_clips(clips: np.ndarray) -> float:
            return 100 * hits_by_clip[clips].sum() / max(of_by_clip[clips].sum(), 1)

        return f"{answers.interval(of_clips)}% of {int(of.sum())}"

    extra = named & ~fastest
    print(f"motions beside the fastest one: named {share(beside & named, beside)}")
    print(f"named motions beside the fastest one: right {share(extra & true_moves, extra)}")


def print_pairs(model: nn.Module, count: int) -> None:
    """Print what is said of two motions at once, in plain scenes, by the ratio of their speeds."""
    print("| slower / faster | both named, % | a third named, % | speed, faster | speed, slower |")
    print("|---|---|---|---|---|")
    for ratio in (0.35, 0.5, 0.8, 1.0):
        rng, both, third, shares = np.random.default_rng(0), [], [], []
        for number in range(count):
            parts = rng.permutation(4)[:2]
            speeds = np.zeros(4)
            speeds[parts] = rng.uniform(0.1, 0.5) * np.array([1, ratio]) * rng.choice([-1, 1], 2)
            steps = draw_steps(speeds / EDGE, 8, rng)
            view = complex(*rng.uniform(0, SIDE, 2)), complex(rng.uniform(60, 110)), 64
            frames = film(texture(9000 + number % 90), steps, *view)
            _, rates = _measure(model, frames)
            named = {*model.cls_head.moves(rates)[0].nonzero().flatten().tolist()}
            true_moves = {1 + 2 * int(part) + int(speeds[part] > 0) for part in parts}
            both.append(named >= true_moves)
            third.append(bool(named - true_moves))
            shares.append((rates[0, :4].numpy() / PER_SPEED)[parts] / speeds[parts])
        faster, slower = np.median(shares, axis=0)
        cells = f"{100 * np.mean(both):.0f} | {100 * np.mean(third):.0f}"
        print(f"| {ratio} | {cells} | {faster:.2f} | {slower:.2f} |")


def print_reliability(answers: Answers, temperature: float) -> None:
    """Print how often answers are right, by their probability."""
    shares, named = (answers.logits / temperature).softmax(dim=-1).max(dim=1)
    right = (named == answers.labels).numpy()
    shares = shares.numpy()
    print("| probability | mean | right, % | clips |\n|---|---|---|---|")
    for low, high in pairwise(SURE):
        chosen = (shares > low) & (shares <= high)
        if not chosen.any():
            continue

        def share(clips: np.ndarray, chosen: np.ndarray = chosen) -> float:
            return 100 * right[clips][chosen[clips]].mean() if chosen[clips].any() else np.nan

        mean = 100 * shares[chosen].mean()
        print(f"| {low} to {high} | {mean:.1f} | {answers.interval(share)} | {chosen.sum()} |")


def main(argv: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", nargs="?", default="camera_motion", help="config")
    parser.add_argument("checkpoint", nargs="?", default=PUBLISHED, help="its weights")
    parser.add_argument("--scenes", type=int, default=60, help="number of scenes (default: 60)")
    parser.add_argument("--clips", type=int, default=45, help="clips of a scene (default: 45)")
    parser.add_argument("--calibrate", type=Path, metavar="OUT", help="file for weights (.pth)")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    cfg, checkpoint = find_model(load_config(args.config), args.checkpoint)
    model = load_recognizer(cfg, checkpoint)
    answers = Answers(model, cfg, TESTED, args.scenes, args.clips)
    print_accuracy(answers)
    print_rates(answers)
    print_moves(answers, model.cls_head)
    print_pairs(model, 4 * args.scenes)
    print_reliability(answers, 1.0)
    if args.calibrate:
        others = Answers(model, cfg, FITTED, args.scenes, args.clips)
        temperature = fit_temperature(others.logits, others.labels)
        print(f"temperature {temperature:.3f}")
        print_reliability(answers, temperature)
        model.cls_head.log_scale.data -= float(np.log(temperature))
        torch.save({"state_dict": model.state_dict()}, args.calibrate)
        print(f"written: {args.calibrate}")


if __name__ == "__main__":
    main()
