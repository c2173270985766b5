"""Outputs of Google's VideoPrism with random weights: python make_videoprism.py CLONE FOLDER.

Needs jax, flax, einops, einshape and a clone of https://github.com/google-deepmind/videoprism
(Apache-2.0). Run with jax 0.10.2 and the clone at d481d91.
Case a has separate blocks, a clip of the tables' size and a cap that counts; case b stacked blocks,
as published files have, and other sizes than the tables.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

CLONE, FOLDER = map(Path, sys.argv[1:3])
sys.path.insert(0, str(CLONE))
from videoprism import encoders  # noqa: E402

CASES = {
    "a": (dict(scan=False, atten_logit_cap=2.0), (2, 4, 12, 12, 3)),
    "b": (dict(scan=True, atten_logit_cap=50.0), (1, 7, 20, 20, 3)),
}
SIZES = dict(patch_size=4, model_dim=24, mlp_dim=48, num_heads=2, pos_emb_shape=(4, 3, 3))


def run(options: dict, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Return input, output, settings, and weights by their names in published files."""
    random = np.random.default_rng(0)
    clip = random.uniform(size=shape).astype(np.float32)
    depths = dict(num_spatial_layers=2, num_temporal_layers=2)
    model = encoders.FactorizedEncoder(**depths, **SIZES, **options)

    def draw(x: jax.Array) -> jax.Array:  # an array of numpy would be changed by the norms
        return jnp.asarray(random.normal(scale=0.3, size=x.shape), jnp.float32)

    tree = jax.tree.map(draw, model.init(jax.random.key(0), clip))
    arrays = {"input": clip, "output": model.apply(tree, clip)[0]}
    arrays |= {"num_heads": SIZES["num_heads"], "cap": options["atten_logit_cap"]}
    for path, value in jax.tree_util.tree_leaves_with_path(tree):
        arrays[jax.tree_util.keystr(path, simple=True, separator="/")] = value
    return {name: np.asarray(value) for name, value in arrays.items()}


for case, (options, shape) in CASES.items():
    np.savez_compressed(FOLDER / f"videoprism_{case}.npz", **run(options, shape))
