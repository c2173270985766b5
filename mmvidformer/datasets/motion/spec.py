"""What the generated datasets have in common: their clips, lists and the folder of the files."""

import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import cv2
import numpy as np
from tqdm import tqdm

from mmvidformer.datasets.motion.files import ENCODING, write_video
from mmvidformer.datasets.motion.render import SHAPES, Look, render

SPLITS = ("train", "val", "test")
ANNOTATIONS = (
    *(f"{split}.{suffix}" for split in SPLITS for suffix in ("txt", "csv")),
    "classes.txt", "actions.csv", "video_info.csv",
)  # fmt: skip


@dataclass(frozen=True)
class Clip:
    """A video of a split, with the motion (verb) and the shape (noun) if it shows only one."""

    split: str
    number: int
    verb: int = 0
    noun: int = 0


class MotionSpec(ABC):
    """Everything that determines the content of a generated dataset.

    Subclasses are frozen dataclasses. Their fields are recorded in ``motion.json``, beside the
    files.
    """

    train: int
    val: int
    test: int
    fps: int
    seed: int
    look: Look
    class_names: Sequence[str] = ()

    @abstractmethod
    def record(self) -> Mapping[str, object]:
        """Return the content of ``motion.json``."""

    def clips(self, split: str) -> list[Clip]:
        """List the clips of a split. Classes and shapes take turns, so that they are balanced."""
        count = len(self.class_names)
        return [
            Clip(split, i, i % count, i // count % len(SHAPES)) for i in range(getattr(self, split))
        ]

    def centers(self, clip: Clip, rng: np.random.Generator) -> np.ndarray:
        """Draw the path of a clip's object: its centers (T, 2)."""
        raise NotImplementedError

    def draw(self, clip: Clip) -> np.ndarray:
        """Draw the RGB frames (T, size, size, 3) of a clip."""
        rng = self.rng(clip)
        return render(self.look, SHAPES[clip.noun], self.centers(clip, rng), rng)

    def name(self, clip: Clip) -> str:
        """Return the id of a clip: the name of its file without the suffix."""
        return f"{clip.split}_{clip.number:05d}"

    def path(self, clip: Clip) -> str:
        """Return the path of a clip below the root of the dataset."""
        return f"{clip.split}/{self.name(clip)}.mp4"

    def rng(self, clip: Clip) -> np.random.Generator:
        """Return the generator of everything random in a clip."""
        return np.random.default_rng([self.seed, SPLITS.index(clip.split), clip.number])

    def annotate(self, root: Path) -> None:
        """Write a list for MMAction2's ``VideoDataset`` per split, and the names of the classes."""
        for split in SPLITS:
            lines = [f"{self.path(clip)} {clip.verb}\n" for clip in self.clips(split)]
            (root / f"{split}.txt").write_text("".join(lines))
        (root / "classes.txt").write_text("".join(f"{name}\n" for name in self.class_names))

    def write(self, root: str | Path, workers: int = 1, force: bool = False) -> bool:
        """Write videos and annotations, unless they exist already.

        Args:
            root: Folder to write to.
            workers: Number of processes that draw and encode.
            force: Whether to replace a dataset of another spec, whose files are deleted.

        Returns:
            Whether the dataset was written; False if the folder held it already.

        Raises:
            FileExistsError: If the folder holds a dataset of another spec, and not ``force``.
        """
        root = Path(root)
        file = root / "motion.json"
        wanted = {**self.record(), "encoding": ENCODING, "complete": True}
        wanted = json.loads(json.dumps(wanted))  # lists for tuples, as in the file
        unfinished = {**wanted, "complete": False}
        if file.is_file():
            found = json.loads(file.read_text())
            if found == wanted:
                return False
            if found != unfinished and not force:
                raise FileExistsError(
                    f"{root} holds a motion dataset made with other arguments ({file}); choose "
                    "another folder, or --force to replace it"
                )
            for name in found.get("class_folders", SPLITS):
                shutil.rmtree(root / name, ignore_errors=True)
            for name in ANNOTATIONS:
                (root / name).unlink(missing_ok=True)
        clips = [clip for split in SPLITS for clip in self.clips(split)]
        for folder in {root, *((root / self.path(clip)).parent for clip in clips)}:
            folder.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(unfinished, indent=1))
        show = partial(tqdm, total=len(clips), unit="video", disable=None)
        write = partial(self._write_video, root)
        if workers > 1:
            with ProcessPoolExecutor(workers) as pool:
                list(show(pool.map(write, clips, chunksize=8)))
        else:
            list(show(map(write, clips)))
        self.annotate(root)
        file.write_text(json.dumps(wanted, indent=1))
        return True

    def _write_video(self, root: Path, clip: Clip) -> None:
        cv2.setNumThreads(1)
        write_video(root / self.path(clip), self.draw(clip), self.fps)
