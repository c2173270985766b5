"""Clips after scenic's RandAugment: python make_rand_augment.py SCENIC MODELS FILE.

Needs TensorFlow, a clone of https://github.com/google-research/scenic and an unpacked wheel of
tf-models-official (both Apache-2.0). Run with TensorFlow 2.21.0, NumPy 2.4, scenic at 4a38d47 and
tf-models-official 2.5.0. Each operation is drawn at each level, eagerly and within ``tf.data``.
"""

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import tensorflow as tf

SCENIC, MODELS, FILE = map(Path, sys.argv[1:4])
sys.path[:0] = [str(SCENIC), str(MODELS)]
# Imported by the official modules, but not used by RandAugment.
KERAS = "tensorflow.python.keras.layers.preprocessing"
for name in ("simclr", "simclr.tf2", "simclr.tf2.data_util", "dmvr", KERAS):
    sys.modules[name] = ModuleType(name)
sys.modules["dmvr"].builders = sys.modules["dmvr"].processors = ModuleType("unused")
sys.modules["dmvr"].builders.ProcessorState = dict
sys.modules[KERAS].image_preprocessing = ModuleType("unused")
from scenic.dataset_lib import video_ops  # noqa: E402

NAMES = (
    *("AutoContrast", "Equalize", "Invert", "Posterize", "Solarize", "Color", "Contrast"),
    *("Brightness", "Sharpness", "Cutout", "SolarizeAdd", "Identity"),
)
LEVELS = (5, 9, 15, 20)
CENTERS = ((0, 0), (100, 50), (223, 223))  # of cut-out boxes


def augment(clip: np.ndarray, level: int, *operations: str, center: tuple = (0, 0)) -> np.ndarray:
    """Call the official function so that it draws these operations, and this center of a box."""
    indices: list[int] = []
    sides: list[int] = []

    def uniform(shape: list, minval: float | None = None, maxval: float = 1, dtype=tf.float32):
        if dtype == tf.float32:  # a probability that is not used
            return tf.constant(minval, dtype)
        if minval is None:
            return tf.constant(indices.pop(0), dtype)
        sides.append(sides.pop(0))
        return tf.constant(sides[-1], dtype)

    def run(frames: tf.Tensor) -> tf.Tensor:
        # The last index, beyond all operations, is the identity.
        indices[:], sides[:] = map(NAMES.index, operations), center
        return video_ops.distort_image_with_randaugment(frames, len(operations), level)

    original, tf.random.uniform = tf.random.uniform, uniform
    eager = run(tf.constant(clip)).numpy()
    (mapped,) = tf.data.Dataset.from_tensors(clip).map(run).as_numpy_iterator()
    tf.random.uniform = original
    np.testing.assert_array_equal(eager, mapped)
    return eager


random = np.random.default_rng(0)
# Channels of other ranges: 20 to 219, 0 to 255 and 90 to 149, bright on the right.
noise = random.uniform(size=(2, 16, 24, 3)) * 0.5 + np.linspace(0, 0.5, 24)[:, None]
clip = (noise * (200, 256, 60) + (20, 0, 90)).astype(np.uint8)
large = np.full((2, 224, 224, 3), 9, np.uint8)
arrays = {"input": clip, "large": large}
for level in LEVELS:
    for operation in NAMES:
        if operation != "Cutout":
            arrays[f"{level}/{operation}"] = augment(clip, level, operation)
    arrays[f"{level}/SolarizeAdd, Solarize"] = augment(clip, level, "SolarizeAdd", "Solarize")
    for center in CENTERS:
        name = f"{level}/Cutout {center[0]} {center[1]}"
        arrays[name] = augment(large, level, "Cutout", center=center)
np.savez_compressed(FILE, **arrays)
