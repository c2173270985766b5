"""Outputs of V-JEPA 2.1 with random weights: python make_vjepa2_1.py CLONE FOLDER.

Needs timm and a clone of https://github.com/facebookresearch/vjepa2 (MIT). Run with timm 1.0.31,
PyTorch 2.15 and the clone at 16de6c8. Sizes are small; all else is as in its ``hub/backbones.py``.
The depth is 12, since the code knows the layers with norms of their own by the depth.
"""

import sys
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

CLONE, FOLDER = map(Path, sys.argv[1:3])
sys.path.insert(0, str(CLONE))
from app.vjepa_2_1.models.vision_transformer import VisionTransformer  # noqa: E402

LAYERS = (2, 5, 8, 11)
# Frames, rows and columns; one frame is an image.
CLIPS = {"whole": (4, 24, 24), "odd": (6, 16, 40), "image": (1, 24, 40)}

torch.manual_seed(0)
model = VisionTransformer(
    img_size=(24, 24),
    patch_size=8,
    num_frames=4,
    tubelet_size=2,
    embed_dim=28,
    depth=12,
    num_heads=2,
    mlp_ratio=1,
    norm_layer=partial(nn.LayerNorm, eps=1e-6),
    out_layers=LAYERS,
    use_rope=True,
    img_temporal_dim_size=1,
    interpolate_rope=True,
).eval()
for block in model.blocks:
    block.attn.pretrained_grid_size = 16  # the code knows it for patches of 14 and 16 pixels alone
with torch.no_grad():
    for parameter in model.parameters():
        parameter.normal_(std=0.2)
arrays = {f"params/{name}": x.numpy() for name, x in model.state_dict().items()}
for name, size in CLIPS.items():
    clip = torch.randn(1, 3, *size)
    with torch.no_grad():
        outputs = model(clip)
    arrays[f"input/{name}"] = clip.numpy()
    arrays |= {f"layer_{i}/{name}": x.numpy() for i, x in zip(LAYERS, outputs, strict=True)}
np.savez_compressed(FOLDER / "vjepa2_1_a.npz", **arrays)
