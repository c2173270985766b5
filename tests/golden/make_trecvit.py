"""Outputs of TRecViT with random weights: python make_trecvit.py CLONE FOLDER.

Needs jax, flax, einops, recurrentgemma (all Apache-2.0) and a clone of
https://github.com/google-deepmind/trecvit (Apache-2.0). Run with jax 0.10.2, recurrentgemma 1.0.1
and the clone at 81bcb0a. Sizes are small; all else is as in its ``get_model``.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

CLONE, FOLDER = map(Path, sys.argv[1:3])
sys.path.insert(0, str(CLONE))
from trecvit import modules  # noqa: E402

# Frames, rows and columns; the code cannot resize its positions.
CLIPS = {"whole": (6, 12, 12), "one": (1, 12, 12), "long": (11, 12, 12)}


def build(frames: int) -> modules.TRecViT:
    encoder = modules.LRUViT(
        depth=2,
        width=16,
        mlp_dim=32,
        num_heads=2,
        conv1d_temporal_width=4,
        state_multiplier=2,
        min_rad=0.5,
    )
    decoder = modules.ClassificationDecoder(num_classes=5, width=16, rep_size=24)
    tokenizer = modules.Tokenizer(width=16, patch_size=(1, 4, 4))
    return modules.TRecViT(tokenizer, encoder, decoder, frames_per_clip=frames)


random = np.random.default_rng(0)


def draw(x: jax.Array) -> jax.Array:
    return jnp.asarray(random.normal(scale=0.4, size=x.shape), jnp.float32)


tree = jax.tree.map(draw, build(6).init(jax.random.key(0), jnp.zeros((1, 6, 12, 12, 3))))
arrays = {}
for path, value in jax.tree_util.tree_leaves_with_path(tree):
    arrays[jax.tree_util.keystr(path, simple=True, separator="/")] = value
for name, (frames, height, width) in CLIPS.items():
    clip = random.normal(size=(2, frames, height, width, 3)).astype(np.float32)
    output = build(frames).apply(tree, jnp.asarray(clip))
    arrays |= {
        f"input/{name}": clip,
        f"tokens/{name}": output["encoded"],
        f"logits/{name}": output["logits"],
    }
arrays = {name: np.asarray(value) for name, value in arrays.items()}
np.savez_compressed(FOLDER / "trecvit_a.npz", **arrays)
