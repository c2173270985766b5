"""Clips for answers other than one class: several classes, a number, and classes over time.

In all of them the start of an object is uniform over the torus and frames are encoded on their own,
so that a single frame holds no information on its motion.
"""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from lab.synthetic.render import (
    DIRECTIONS,
    SHAPES,
    Look,
    draw_background,
    render,
    trajectory,
)
from lab.synthetic.settings import setting
from lab.synthetic.spec import SPLITS, Clip, MotionSpec
from mmvidformer.video.times import FrameTimes

NAMES = tuple(DIRECTIONS)


@dataclass(frozen=True)
class LabelsSpec(MotionSpec):
    """Clips of some objects; the classes are their directions. Other arguments: ``MotionSpec``.

    A frame shows how many objects there are, but not how they move.
    """

    train: int = 800
    look: Look = field(
        default_factory=lambda: Look(frames=32, object_size=0.25, texture=0.0, colors="plain")
    )
    objects: int = setting(
        3, "largest number of objects; 1 to this number are drawn, each with its direction"
    )

    class_names = NAMES

    def directions(self, clip: Clip) -> tuple[list[int], np.random.Generator]:
        """Draw the directions of a clip's objects, and return the generator that draws the clip."""
        rng = self.rng(clip)
        count = rng.integers(1, self.objects + 1)
        return rng.integers(0, len(NAMES), count).tolist(), rng

    def draw(self, clip: Clip) -> np.ndarray:
        """Draw the RGB frames (T, size, size, 3) of a clip."""
        directions, rng = self.directions(clip)
        frames = draw_background(self.look, rng)
        for direction in directions:
            path = trajectory(self.look, NAMES[direction], self.look.frames, rng)
            frames = render(self.look, str(rng.choice(SHAPES)), path, rng, frames)
        return frames

    def annotate(self, root: Path) -> None:
        """Write MMAction2's lists of several classes."""
        for split in SPLITS:
            lines = []
            for clip in self.clips(split):
                directions, _ = self.directions(clip)
                labels = " ".join(map(str, sorted(set(directions))))
                lines.append(f"{self.path(clip)} {labels}\n")
            (root / f"{split}.txt").write_text("".join(lines))
        (root / "classes.txt").write_text("".join(f"{name}\n" for name in NAMES))


@dataclass(frozen=True)
class SpeedSpec(MotionSpec):
    """Clips of an object with its speed, in widths of the frame per second.

    Its direction is uniform over all angles, its speed over a range. Other arguments are those of
    ``MotionSpec``.
    """

    train: int = 800
    look: Look = field(default_factory=lambda: Look(frames=32, texture=0.0, colors="plain"))
    slowest: float = setting(0.2, "least speed in pixels per frame")
    fastest: float = setting(3.0, "largest speed in pixels per frame")

    def speed(self, clip: Clip) -> tuple[float, np.random.Generator]:
        """Draw the speed of a clip in pixels per frame, and return the generator that draws it."""
        rng = self.rng(clip)
        return rng.uniform(self.slowest, self.fastest), rng

    def draw(self, clip: Clip) -> np.ndarray:
        """Draw the RGB frames (T, size, size, 3) of a clip."""
        speed, rng = self.speed(clip)
        angle, start = rng.uniform(0, 2 * np.pi), rng.uniform(0, self.look.size, 2)
        step = speed * np.array([np.cos(angle), np.sin(angle)])
        centers = (start + np.arange(self.look.frames)[:, None] * step) % self.look.size
        return render(self.look, SHAPES[clip.noun], centers, rng)

    def annotate(self, root: Path) -> None:
        """Write a csv file per split: video and speed."""
        for split in SPLITS:
            rows = []
            for clip in self.clips(split):
                pixels, _ = self.speed(clip)
                rows.append((self.path(clip), f"{pixels * self.fps / self.look.size:.5f}"))
            _write(root / f"{split}.csv", ("video", "speed"), rows)


@dataclass(frozen=True)
class ScriptsSpec(MotionSpec):
    """Videos in which an object moves in one direction after another, with pauses between.

    Other arguments are those of ``MotionSpec``.
    """

    train: int = 200
    val: int = 40
    test: int = 80
    fps: int = 12
    look: Look = field(default_factory=lambda: Look(texture=0.0, colors="plain"))
    motions: int = setting(6, "number of motions per video")
    shortest: int = setting(10, "frames of the shortest motion; pauses have half as many at least")
    longest: int = setting(28, "frames of the longest motion; pauses have half as many at most")

    def script(self, clip: Clip) -> tuple[list[tuple[int, int, int]], int, np.random.Generator]:
        """Draw the script of a video.

        Returns:
            Direction, first frame and end frame of each motion; the number of frames; and the
            generator that draws them.
        """
        rng = self.rng(clip)
        moves = rng.integers(self.shortest, self.longest, self.motions, endpoint=True)
        low, high = self.shortest // 2, self.longest // 2
        pauses = rng.integers(low, high, self.motions + 1, endpoint=True)
        ends = np.cumsum(pauses[:-1] + moves)
        directions = rng.integers(0, len(NAMES), self.motions)
        rows = zip(directions.tolist(), (ends - moves).tolist(), ends.tolist(), strict=True)
        return list(rows), int(ends[-1] + pauses[-1]), rng

    def draw(self, clip: Clip) -> np.ndarray:
        """Draw the RGB frames (T, size, size, 3) of a video."""
        rows, total, rng = self.script(clip)
        steps = np.zeros((total, 2))
        for direction, start, end in rows:
            steps[start:end] = DIRECTIONS[NAMES[direction]]
        start = rng.uniform(0, self.look.size, 2)
        moved = np.cumsum(steps, axis=0) - steps  # the step of a frame leads to the next one
        centers = (start + self.look.speed * rng.uniform(0.8, 1.2) * moved) % self.look.size
        return render(self.look, SHAPES[clip.noun], centers, rng)

    def annotate(self, root: Path) -> None:
        """Write a csv file per split: video, start, end and label."""
        for split in SPLITS:
            rows = []
            for clip in self.clips(split):
                motions, _, _ = self.script(clip)
                for direction, *frames in motions:
                    start, end = FrameTimes(self.fps).seconds(np.array(frames))
                    rows.append((self.path(clip), f"{start:.4f}", f"{end:.4f}", NAMES[direction]))
            _write(root / f"{split}.csv", ("video", "start", "end", "label"), rows)
        classes = (*NAMES, "background")
        (root / "classes.txt").write_text("".join(f"{name}\n" for name in classes))


@dataclass(frozen=True)
class StartsSpec(ScriptsSpec):
    """The videos of ``ScriptsSpec``, with the moments at which motions start."""

    def annotate(self, root: Path) -> None:
        """Write a csv file per split: video, time and label."""
        for split in SPLITS:
            rows = []
            for clip in self.clips(split):
                motions, _, _ = self.script(clip)
                for direction, start, _ in motions:
                    seconds = FrameTimes(self.fps).seconds(start)
                    rows.append((self.path(clip), f"{seconds:.4f}", NAMES[direction]))
            _write(root / f"{split}.csv", ("video", "time", "label"), rows)
        (root / "classes.txt").write_text("".join(f"{name}\n" for name in NAMES))


@dataclass(frozen=True)
class BoxesSpec(MotionSpec):
    """Clips of three objects that move in different directions, with boxes at the first second.

    At that moment all objects are inside the frame and do not overlap, at uniform places. Other
    arguments are those of ``MotionSpec``.
    """

    train: int = 800
    look: Look = field(
        default_factory=lambda: Look(frames=48, object_size=0.22, texture=0.0, colors="plain")
    )
    objects: int = setting(3, "number of objects, at most 4")

    class_names = NAMES

    def script(self, clip: Clip) -> tuple[list[int], np.ndarray, np.random.Generator]:
        """Draw directions and centers (objects, 2) at the moment, and return the generator."""
        rng = self.rng(clip)
        directions = rng.permutation(len(NAMES))[: self.objects].tolist()
        size, side = self.look.object_size * self.look.size, self.look.size
        while True:
            centers = rng.uniform(size / 2, side - size / 2, (self.objects, 2))
            gaps = np.abs(centers[:, None] - centers).max(axis=-1) + side * np.eye(self.objects)
            if gaps.min() > size:
                return directions, centers, rng

    def draw(self, clip: Clip) -> np.ndarray:
        """Draw the RGB frames (T, size, size, 3) of a clip."""
        directions, centers, rng = self.script(clip)
        frames = draw_background(self.look, rng)
        times = np.arange(self.look.frames)[:, None] - self.fps
        for direction, center in zip(directions, centers, strict=True):
            speed = self.look.speed * rng.uniform(0.8, 1.2)
            step = speed * np.array(DIRECTIONS[NAMES[direction]])
            path = (center + times * step) % self.look.size
            frames = render(self.look, "circle", path, rng, frames)
        return frames

    def annotate(self, root: Path) -> None:
        """Write files in AVA's format."""
        half = self.look.object_size / 2
        for split in SPLITS:
            rows = []
            for clip in self.clips(split):
                directions, centers, _ = self.script(clip)
                objects = zip(directions, centers, strict=True)
                for number, (direction, center) in enumerate(objects):
                    x, y = center / self.look.size
                    corners = [f"{n:.4f}" for n in (x - half, y - half, x + half, y + half)]
                    rows.append((self.name(clip), 1, *corners, direction + 1, number))
            with (root / f"{split}.csv").open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows(rows)
        (root / "classes.txt").write_text("".join(f"{name}\n" for name in NAMES))


def _write(path: Path, columns: Sequence[str], rows: Iterable[Sequence]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
