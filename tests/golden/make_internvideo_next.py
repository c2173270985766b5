"""Outputs of InternVideo-Next with random weights: python make_internvideo_next.py CLONE FOLDER.

Needs timm and a clone of https://github.com/OpenGVLab/InternVideo (Apache-2.0) at 3965eef. Sizes
are small; all else is as in its ``models/InternVideo_next.py``, in plain layers: those of
flash-attn run on GPUs alone. Its fused MLP has the tanh GELU, so the plain one gets it.
"""

import sys
import types
from pathlib import Path

import numpy as np
import torch
from torch import nn

CLONE, FOLDER = map(Path, sys.argv[1:3])
FLASH = {
    "flash_attn.modules.mlp": "FusedMLP",
    "flash_attn.ops.rms_norm": "DropoutAddRMSNorm",
    "flash_attn.flash_attn_interface": "flash_attn_varlen_qkvpacked_func",
    "flash_attn.bert_padding": "unpad_input pad_input",
}
for name, parts in FLASH.items():
    module = types.ModuleType(name)
    vars(module).update(dict.fromkeys(parts.split()))
    sys.modules[name] = module
package = types.ModuleType("models")  # without its other models, which need other packages
package.__path__ = [str(CLONE / "InternVideo-Next" / "models")]
sys.modules["models"] = package
from models.InternVideo_next import InternVideo2  # noqa: E402


def build(**sizes: int) -> nn.Module:
    """Build their model with the tanh GELU and random weights, also of norms and positions."""
    plain = dict(use_flash_attn=False, use_fused_rmsnorm=False, use_fused_mlp=False)
    model = InternVideo2(**sizes, **plain, drop_path_rate=0.0).eval()
    for block in model.blocks:
        block.mlp.act = nn.GELU(approximate="tanh")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


if __name__ == "__main__":
    torch.manual_seed(0)
    small = dict(embed_dim=32, depth=2, num_heads=4, mlp_ratio=2, attn_pool_num_heads=16)
    model = build(patch_size=4, img_size=12, num_frames=2, clip_embed_dim=24, **small)
    clip = torch.randn(2, 3, 2, 12, 12)
    with torch.no_grad():
        outputs = {"tokens": model(clip), "pooled": model(clip, projected=True)}
    arrays = {f"params/{name}": x.numpy() for name, x in model.state_dict().items()}
    arrays |= {name: x.numpy() for name, x in outputs.items()} | {"input": clip.numpy()}
    np.savez_compressed(FOLDER / "internvideo_next_a.npz", **arrays)
