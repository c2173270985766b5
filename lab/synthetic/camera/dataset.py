"""A dataset of camera motions that draws its clips when they are read."""

from collections.abc import Sequence

import cv2
import numpy as np
from mmengine.dataset import Compose
from torch.utils.data import Dataset

from lab.synthetic.camera.clips import draw_clip
from lab.synthetic.camera.paths import CLASSES, FASTEST, MIXED, SHAKIEST, class_of
from lab.synthetic.camera.symmetry import apply_symmetries, symmetries_of


class CameraMotionDataset(Dataset):
    """Clips of a moving camera, drawn when they are read.

    A clip depends on the seed and its number only. It is read as a dictionary of ``imgs``,
    ``label``, ``velocity`` (pan, tilt, zoom and roll per second, see ``camera.paths``) and
    ``shake``, which the pipeline formats. Read the clips in their order, without shuffling:
    successive clips share a drawing, and become harder.

    Args:
        pipeline: Transforms, such as ``FormatShape`` and ``PackActionInputs``.
        clips: Number of clips.
        seed: Random seed; another one for validation.
        size: Width and height in pixels, or a list of several (width, height).
        same_size: Number of successive clips that have one of several sizes: the size of a batch
            over all processes, since the clips of a batch must have one. The sizes take turns.
        frames: Number of frames, 8 per second.
        textures: Number of different pictures that all clips show parts of.
        hardness: Probability of what makes clips harder (``clips.draw_clip``).
        fastest: Largest speed.
        beside: Largest speed of motions beside the main one, as a share of its speed.
        shakiest: Largest standard deviation of the shake.
        steady: Share of the drawings that have the defaults of ``fastest``, ``beside`` and
            ``shakiest`` in any case.
        curriculum: Clips before the first number are plain (noise at steady motion, hardness 0);
            the hardness rises until the second. Default: all clips are equally hard.
        copies: Number of successive clips that are one drawing under different flips,
            transposition and time reversal, with the classes that result; at most 16. A batch of
            all 16 differs in nothing but motion, which makes a model learn it much sooner. Clips
            that are not square are not transposed: 8 copies of two drawings take their places.
        test_mode: As in MMAction2's datasets; changes nothing here.
    """

    def __init__(
        self,
        pipeline: Sequence,
        clips: int = 1800,
        seed: int = 0,
        size: int | Sequence[tuple[int, int]] = 64,
        same_size: int = 128,
        frames: int = 8,
        textures: int = 1000,
        hardness: float = 1.0,
        fastest: float = FASTEST,
        beside: float = MIXED,
        shakiest: float = SHAKIEST,
        steady: float = 0.0,
        curriculum: tuple[int, int] = (-1, 0),
        copies: int = 1,
        test_mode: bool = False,
    ) -> None:
        self.metainfo = {"classes": CLASSES}
        self.pipeline = Compose(pipeline)
        self.clips = clips
        self.seed = seed
        self.hardness = hardness
        self.steady = steady
        self.curriculum = curriculum
        self.copies = copies
        self.test_mode = test_mode
        # Datasets of different seeds show different pictures.
        pictures = range(seed * textures, (seed + 1) * textures)
        self.sizes = [(size, size)] if isinstance(size, int) else [*map(tuple, size)]
        self.same_size = same_size
        self.options = dict(frames=frames, pictures=pictures)
        self.motions = dict(fastest=fastest, beside=beside, shakiest=shakiest)
        self._last: tuple = (None,)

    def __len__(self) -> int:
        return self.clips

    def __getitem__(self, index: int) -> dict:
        frames, velocity, shake = self.draw(index)
        return self.pipeline(
            {
                "imgs": list(frames),
                "label": class_of(velocity),
                "velocity": velocity,
                "shake": shake,
                "modality": "RGB",
                "num_clips": 1,
                "clip_len": len(frames),
            }
        )

    def draw(self, index: int) -> tuple[np.ndarray, np.ndarray, float]:
        """Draw the RGB frames (T, H, W, 3), the velocity (4,) and the shake of a clip."""
        size = self.sizes[index // self.same_size % len(self.sizes)]
        symmetries = symmetries_of(size)
        copies = min(self.copies, 2 ** len(symmetries))
        drawing = index // copies * copies  # the number of its first clip
        if self._last[0] != drawing:
            cv2.setNumThreads(1)
            # It depends on the drawing only, not on which of its copies is read first.
            share = float(np.interp(drawing, self.curriculum, (0, 1)))
            number = drawing // copies
            rng = np.random.default_rng([self.seed, number])
            is_steady = self.steady > 0 and rng.random() < self.steady
            options = self.options if is_steady else self.options | self.motions
            options = options | dict(hardness=share * self.hardness)
            self._last = (drawing, *draw_clip(number % len(CLASSES), rng, size, **options))
        _, frames, velocity, shake = self._last
        return *apply_symmetries(frames, velocity, index % copies, symmetries), shake
