"""What the generated datasets have in common: their clips, lists and the folder of the files."""

import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import cv2
import numpy as np
from tqdm import tqdm

from lab.synthetic.render import ENCODING, SHAPES, Look, render, write_video
from lab.synthetic.settings import setting
from mmvidformer.errors import FileThere

SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class Clip:
    """A video of a split, with the motion (verb) and the shape (noun) if it shows only one."""

    split: str
    number: int
    verb: int = 0
    noun: int = 0


@dataclass(frozen=True)
class MotionSpec:
    """Everything that determines the content of a generated dataset."""

    train: int = setting(480, "number of training videos")
    val: int = setting(120, "number of validation videos")
    test: int = setting(200, "number of test videos")
    fps: int = setting(25, "frames per second")
    seed: int = setting(0, "random seed")
    look: Look = field(default_factory=Look)

    class_names = ()

    def record(self) -> dict[str, object]:
        """Return the content of ``motion.json``, which lies beside the files."""
        return {"kind": type(self).__name__, "spec": asdict(self), "encoding": ENCODING}

    def clips(self, split: str) -> list[Clip]:
        """List the clips of a split. Classes, if any, and shapes take turns: they are balanced."""
        count = max(len(self.class_names), 1)
        numbers = range(getattr(self, split))
        return [Clip(split, i, i % count, i // count % len(SHAPES)) for i in numbers]

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

    def folder(self, clip: Clip) -> str:
        """Return the folder of a clip below the root of the dataset."""
        return clip.split

    def path(self, clip: Clip) -> str:
        """Return the path of a clip below the root of the dataset."""
        return f"{self.folder(clip)}/{self.name(clip)}.mp4"

    def rng(self, clip: Clip) -> np.random.Generator:
        """Return the generator of everything random in a clip."""
        return np.random.default_rng([self.seed, SPLITS.index(clip.split), clip.number])

    def annotate(self, root: Path) -> None:
        """Write a list for MMAction2's ``VideoDataset`` per split, and the names of the classes."""
        for split in SPLITS:
            lines = [f"{self.path(clip)} {clip.verb}\n" for clip in self.clips(split)]
            (root / f"{split}.txt").write_text("".join(lines))
        (root / "classes.txt").write_text("".join(f"{name}\n" for name in self.class_names))

    def write(self, root: str | Path, workers: int = 1) -> bool:
        """Write videos and annotations, unless they exist already.

        Args:
            root: Folder to write to.
            workers: Number of processes that draw and encode.

        Returns:
            Whether the dataset was written; False if the folder held it already.

        Raises:
            FileExistsError: If the folder holds a dataset of another spec.
        """
        root, clips = Path(root), [clip for split in SPLITS for clip in self.clips(split)]
        file, record = root / "motion.json", self.record()
        if file.is_file():
            if json.loads(file.read_text()) == record:
                return False
            raise FileThere(
                f"{root} holds a motion dataset made with other arguments ({file}); choose another "
                "folder, or delete this one"
            )
        begun = root / ".motion.json.part"  # of an interrupted run
        is_own = begun.is_file() and json.loads(begun.read_text()) == record
        lists = [f"{split}{suffix}" for split in SPLITS for suffix in (".txt", ".csv")]
        others = [name for name in (*lists, "classes.txt") if (root / name).exists()]
        if others and not is_own:
            raise FileThere(f"{root} has {', '.join(others)} already; choose another folder")
        for name in {self.folder(clip) for clip in clips}:
            (root / name).mkdir(parents=True, exist_ok=True)
        begun.write_text(json.dumps(record, indent=1))
        write = partial(self._write_video, root)
        with ProcessPoolExecutor(workers) as pool:
            written = pool.map(write, clips, chunksize=8) if workers > 1 else map(write, clips)
            list(tqdm(written, total=len(clips), unit="video", disable=None))
        self.annotate(root)
        begun.replace(file)  # last: it marks the dataset as complete
        return True

    def _write_video(self, root: Path, clip: Clip) -> None:
        cv2.setNumThreads(1)
        write_video(root / self.path(clip), self.draw(clip), self.fps)
