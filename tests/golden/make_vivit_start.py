"""ViViTs that scenic starts from an image model: python make_vivit_start.py SCENIC FILE.

Needs jax, flax, TensorFlow, clu, ml_collections and a clone of
https://github.com/google-research/scenic (Apache-2.0). Run with jax 0.10.2, flax 0.12.8 and the
clone at 4a38d47. The image model has the names of Google's files.
"""

import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict
from ml_collections import ConfigDict

SCENIC, FILE = map(Path, sys.argv[1:3])
sys.path.insert(0, str(SCENIC))
from scenic.projects.vivit import model as vivit  # noqa: E402

WIDTH, HEADS, PATCH, SIDE = 8, 2, 4, 8
# Attention, class token or mean, side of the crop, and how positions of another size are made.
CASES = {
    "m1": ("spacetime", "token", SIDE, "tile"),
    "m1_mean": ("spacetime", "gap", SIDE, "tile"),
    "m2": ("factorized_encoder", "token", SIDE, "tile"),
    "m2_mean": ("factorized_encoder", "gap", SIDE, "tile"),
    "m2_large": ("factorized_encoder", "token", 3 * PATCH, "resize"),
    "m3": ("factorized_self_attention_block", "gap", SIDE, "tile"),
    "m4": ("factorized_dot_product_attention", "gap", SIDE, "tile"),
}
# Parts of names, Google's and scenic's.
NAMES = (
    ("Attention_1", "Attention_0"),
    ("LayerNorm_2", "LayerNorm_1"),
    ("MlpBlock_3", "MlpBlock_0"),
)


class State(SimpleNamespace):
    """What the official function reads of a train state."""

    def replace(self, params: dict) -> "State":
        return State(params=params)


def config_of(attention: str, classifier: str, positions: str) -> ConfigDict:
    """Settings of a model as in the official configs."""
    sizes = dict(num_heads=HEADS, mlp_dim=4 * WIDTH, num_layers=1)
    model = dict(
        **sizes,
        attention_config=dict(
            type=attention,
            attention_order="time_space",
            attention_kernel_init_method="xavier",
        ),
        hidden_size=WIDTH,
        patches=dict(size=(PATCH, PATCH, 2)),
        representation_size=None,
        classifier=classifier,
        spatial_transformer=sizes,
        temporal_transformer=sizes,
        dropout_rate=0.0,
        attention_dropout_rate=0.0,
        temporal_encoding_config=dict(
            method="3d_conv", kernel_init_method="central_frame_initializer"
        ),
    )
    init_from = dict(positional_embed_size_change=positions)
    return ConfigDict(dict(model=model, init_from=init_from, dataset_configs=dict(num_frames=4)))


def image_arrays() -> dict[str, np.ndarray]:
    """Random weights of an image model with a class token."""
    random = np.random.default_rng(0)
    block = "Transformer/encoderblock_0"
    shapes = {
        "embedding/kernel": (PATCH, PATCH, 3, WIDTH),
        "cls": (1, 1, WIDTH),
        "Transformer/posembed_input/pos_embedding": (1, 1 + (SIDE // PATCH) ** 2, WIDTH),
        f"{block}/MultiHeadDotProductAttention_1/out/kernel": (HEADS, WIDTH // HEADS, WIDTH),
        f"{block}/MlpBlock_3/Dense_0/kernel": (WIDTH, 4 * WIDTH),
        f"{block}/MlpBlock_3/Dense_0/bias": (4 * WIDTH,),
        f"{block}/MlpBlock_3/Dense_1/kernel": (4 * WIDTH, WIDTH),
    }
    for name in ("query", "key", "value"):
        stem = f"{block}/MultiHeadDotProductAttention_1/{name}"
        shapes |= {f"{stem}/kernel": (WIDTH, HEADS, WIDTH // HEADS)}
        shapes |= {f"{stem}/bias": (HEADS, WIDTH // HEADS)}
    for name in ("encoder_norm", "encoderblock_0/LayerNorm_0", "encoderblock_0/LayerNorm_2"):
        shapes |= {f"Transformer/{name}/{part}": (WIDTH,) for part in ("scale", "bias")}
    for name in ("MultiHeadDotProductAttention_1/out", "MlpBlock_3/Dense_1"):
        shapes[f"{block}/{name}/bias"] = (WIDTH,)
    shapes["embedding/bias"] = (WIDTH,)
    return {name: random.normal(size=size).astype(np.float32) for name, size in shapes.items()}


def scenic_name(name: str) -> str:
    """Return the name in scenic of a weight of Google's files."""
    for google, scenic in NAMES:
        name = name.replace(google, scenic)
    return name


def start(image: dict[str, np.ndarray], case: str) -> dict[str, np.ndarray]:
    """Start a model from the image model by the official function; return its weights."""
    attention, classifier, side, positions = CASES[case]
    model = vivit.ViViTClassificationModel(
        config_of(attention, classifier, positions), dict(num_classes=2)
    )
    clip = np.zeros((1, 4, side, side, 3), np.float32)
    params = model.flax_model.init(jax.random.key(0), clip, train=False)["params"]
    restored = unflatten_dict({tuple(scenic_name(name).split("/")): x for name, x in image.items()})
    image_config = ConfigDict(dict(model=dict(classifier="token", representation_size=None)))
    state = model.init_from_train_state(State(params=params), State(params=restored), image_config)
    return {
        "/".join(path): np.asarray(x, np.float32) for path, x in flatten_dict(state.params).items()
    }


image = image_arrays()
models = {"image": image} | {case: start(image, case) for case in CASES}
arrays = {f"{case}:{name}": x for case, state in models.items() for name, x in state.items()}
np.savez_compressed(FILE, **arrays)
