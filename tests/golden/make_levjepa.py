"""Outputs of LeVJEPA with random weights: python make_levjepa.py CLONE FOLDER.

Needs ``module.py`` of https://github.com/MLO-lab/LeVJEPA at 481a99b. Sizes are small; all else is
as in its ``conf/config.yaml``: a token per frame, attention that is causal between frames.
"""

import sys
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

CLONE, FOLDER = map(Path, sys.argv[1:3])
sys.path.insert(0, str(CLONE))
from module import VisionTransformer  # noqa: E402

CLIPS = {"whole": (4, 24, 24), "odd": (5, 16, 40), "first": (1, 24, 24)}  # frames, height, width

torch.manual_seed(0)
model = VisionTransformer(
    img_size=24,
    patch_size=8,
    num_frames=4,
    tubelet_size=1,
    embed_dim=28,
    depth=3,
    num_heads=2,
    mlp_ratio=2,
    norm_layer=partial(nn.LayerNorm, eps=1e-6),
    use_rope=True,
    attn_mode="block_causal",
).eval()
with torch.no_grad():
    for parameter in model.parameters():
        parameter.normal_(std=0.2)
arrays = {f"params/{name}": x.numpy() for name, x in model.state_dict().items()}
for name, size in CLIPS.items():
    clip = torch.randn(1, 3, *size)
    with torch.no_grad():
        arrays |= {f"input/{name}": clip.numpy(), f"tokens/{name}": model(clip).numpy()}
np.savez_compressed(FOLDER / "levjepa_a.npz", **arrays)
