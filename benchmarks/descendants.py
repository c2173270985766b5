"""Encoders beside those of transformers: python -m benchmarks.descendants --out X.

Measures inference of the configs of which transformers has the model, in turn with it, as
``python -m benchmarks.models`` does; its options follow, such as ``--threads 1`` or ``--compile``.
The largest have 350 million weights, of which three models are in memory at a time. V-JEPA 2.1,
StreamFormer and TRecViT are not in transformers.
"""

import sys
from collections.abc import Sequence

from benchmarks import models

CONFIGS = ("videomae_b_k400", "videoprism_b_k400", "videoprism_l_k400", "vjepa2_l_sthv2")
OPTIONS = ("--passes", "inference", "--optimize", "--no-memory")
WITHOUT = ("--without", "timm, frame by frame")


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    models.main([*CONFIGS, *OPTIONS, *WITHOUT, *(sys.argv[1:] if argv is None else argv)])


if __name__ == "__main__":
    main()
