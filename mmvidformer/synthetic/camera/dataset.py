"""A dataset of camera motions that draws its clips when they are read."""

from collections.abc import Sequence

import cv2
import numpy as np
from mmengine.dataset import Compose
from torch.utils.data import Dataset

from mmvidformer.registry import DATASETS
from mmvidformer.synthetic.camera.clips import draw_clip
from mmvidformer.synthetic.camera.paths import CLASSES, class_of
from mmvidformer.synthetic.camera.symmetry import apply_symmetries


@DATASETS.register_module()
class CameraMotionDataset(Dataset):
    """Clips of a moving camera, drawn when they are read.

    A clip depends on the seed and its number only. It is read as a dictionary of ``imgs``,
    ``label`` and ``velocity`` (pan, tilt, zoom and roll per second, see ``camera.paths``), which
    the pipeline formats. Read the clips in their order, without shuffling: successive clips share
    a drawing, and become harder.

    Args:
        pipeline: Transforms, such as ``FormatShape`` and ``PackActionInputs``.
        clips: Number of clips.
        seed: Random seed; another one for validation.
        size: Width and height in pixels.
        frames: Number of frames, 8 per second.
        textures: Number of different pictures that all clips show parts of.
        hardness: Probability of what makes clips harder (``clips.draw_clip``).
        curriculum: Clips before the first number are plain (noise at steady motion, hardness 0);
            the hardness rises until the second. Default: all clips are equally hard.
        copies: Number of successive clips that are one drawing under different flips,
            transposition and time reversal, with the classes that result; at most 16. A batch of
            all 16 differs in nothing but motion, which makes a model learn it much sooner.
        test_mode: As in MMAction2's datasets; changes nothing here.
    """

    def __init__(
        self,
        pipeline: Sequence,
        clips: int = 1800,
        seed: int = 0,
        size: int = 64,
        frames: int = 8,
        textures: int = 1000,
        hardness: float = 1.0,
        curriculum: tuple[int, int] = (-1, 0),
        copies: int = 1,
        test_mode: bool = False,
    ) -> None:
        self.metainfo = {"classes": CLASSES}
        self.pipeline = Compose(pipeline)
        self.clips = clips
        self.seed = seed
        self.hardness = hardness
        self.curriculum = curriculum
        self.copies = copies
        self.test_mode = test_mode
        # Datasets of different seeds show different pictures.
        pictures = range(seed * textures, (seed + 1) * textures)
        self.options = dict(size=size, frames=frames, pictures=pictures)
        self._last: tuple = (None,)

    def __len__(self) -> int:
        return self.clips

    def __getitem__(self, index: int) -> dict:
        frames, velocity = self.draw(index)
        return self.pipeline(
            {
                "imgs": list(frames),
                "label": class_of(velocity),
                "velocity": velocity,
                "modality": "RGB",
                "num_clips": 1,
                "clip_len": len(frames),
            }
        )

    def draw(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw the RGB frames (T, size, size, 3) and the velocity (4,) of a clip."""
        drawing = index // self.copies
        if self._last[0] != drawing:
            cv2.setNumThreads(1)
            # It depends on the drawing only, not on which of its copies is read first.
            share = float(np.interp(drawing * self.copies, self.curriculum, (0, 1)))
            rng = np.random.default_rng([self.seed, drawing])
            label = drawing % len(CLASSES)
            clip = draw_clip(label, rng, **self.options, hardness=share * self.hardness)
            self._last = (drawing, *clip)
        _, frames, velocity = self._last
        return apply_symmetries(frames, velocity, index % self.copies)
