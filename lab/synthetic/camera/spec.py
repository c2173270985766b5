"""Clips of a moving camera, whose class is its motion."""

import csv
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from lab.synthetic.camera.clips import draw_clip
from lab.synthetic.camera.paths import CLASSES, FPS, draw_velocity
from lab.synthetic.render import write_film
from lab.synthetic.settings import setting
from lab.synthetic.spec import SPLITS, Clip, MotionSpec


@dataclass(frozen=True)
class CameraLook:
    """How clips look."""

    size: int = setting(64, "side of the square frame in pixels")
    frames: int = setting(8, "number of frames per clip")
    hardness: float = setting(1.0, "probability of what makes clips harder, 0 to 1")
    textures: int = setting(300, "number of different pictures that a split shows parts of")


@dataclass(frozen=True)
class CameraSpec(MotionSpec):
    """Clips of a camera that turns, zooms or rolls. Arguments are those of ``MotionSpec``."""

    train: int = 9000
    val: int = 900
    test: int = 1800
    fps: int = FPS
    look: CameraLook = field(default_factory=CameraLook)

    class_names = CLASSES

    def draw(self, clip: Clip) -> np.ndarray:
        """Draw the RGB frames (T, size, size, 3) of a clip."""
        look, first = self.look, SPLITS.index(clip.split) * self.look.textures
        pictures = range(first, first + look.textures)  # each split has its own
        rng = self.rng(clip)
        return draw_clip(clip.verb, rng, look.size, look.frames, pictures, look.hardness)[0]

    def annotate(self, root: Path) -> None:
        """Write lists, velocities (``velocities.csv``) and 2 s of each class (``film.mp4``)."""
        super().annotate(root)
        rng, scenes = np.random.default_rng([self.seed, len(SPLITS)]), range(10_000, 10_100)
        film = [draw_clip(n, rng, 128, 2 * FPS, scenes, 0.5)[0] for n in range(len(CLASSES))]
        write_film(root / "film.mp4", np.concatenate(film), self.fps)
        with open(root / "velocities.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["clip", "pan", "tilt", "zoom", "roll"])
            for split in SPLITS:
                for clip in self.clips(split):
                    velocity = draw_velocity(clip.verb, self.rng(clip), self.look.hardness / 2)
                    writer.writerow([self.path(clip), *velocity.round(4)])
