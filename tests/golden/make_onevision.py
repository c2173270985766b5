"""Outputs of OneVision-Encoder with random weights: python make_onevision.py CLONE FOLDER.

Needs transformers and ``onevision_encoder`` of a clone of
https://github.com/EvolvingLMMs-Lab/OneVision-Encoder (Apache-2.0) at c2cd3e0. Sizes are small; all
else is as in its configuration, with plain attention. Three of its model's calls: places of frames
that are spread over 64, as its README has them; all frames; and chosen patches of all frames.
"""

import sys
import types
from pathlib import Path

import numpy as np
import torch
from transformers import utils

CLONE, FOLDER = map(Path, sys.argv[1:3])
for name in ("add_start_docstrings", "add_start_docstrings_to_model_forward"):
    setattr(utils, name, lambda *args, **options: lambda target: target)  # not in transformers 5
utils.replace_return_docstrings = lambda *args, **options: lambda target: target
package = types.ModuleType("onevision_encoder")
package.__path__ = [str(CLONE / "onevision_encoder")]
sys.modules["onevision_encoder"] = package
from onevision_encoder.configuration_onevision_encoder import OneVisionEncoderConfig  # noqa: E402
from onevision_encoder.modeling_onevision_encoder import OneVisionEncoderModel  # noqa: E402


def build(**sizes: int) -> OneVisionEncoderModel:
    """Build their model with random weights, also of norms and biases."""
    config = OneVisionEncoderConfig(**sizes, attn_implementation="eager")
    model = OneVisionEncoderModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def place_frames(frames: int, rows: int, columns: int) -> torch.Tensor:
    """Return places (1, L, 3) of the patches of frames that are spread over 64."""
    times = torch.linspace(0, 63, frames).long()
    axes = torch.meshgrid(times, torch.arange(rows), torch.arange(columns), indexing="ij")
    return torch.stack([axis.flatten() for axis in axes], dim=-1)[None]


if __name__ == "__main__":
    torch.manual_seed(0)
    sizes = dict(hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2)
    model = build(**sizes, image_size=12, patch_size=4)
    arrays = {f"params/{name}": x.numpy() for name, x in model.state_dict().items()}
    spread, dense = torch.randn(2, 3, 5, 12, 16), torch.randn(1, 3, 64, 8, 12)
    chosen = torch.randperm(64 * 6)[:50].sort().values[None]
    calls = {
        "spread": (spread, dict(patch_positions=place_frames(5, 3, 4).expand(2, -1, -1))),
        "image": (spread[:, :, :1], {}),
        "chosen": (dense, dict(visible_indices=chosen)),
    }
    for name, (clip, options) in calls.items():
        with torch.no_grad():
            outputs = model(clip, **options)
        arrays[f"input/{name}"] = clip.numpy()
        arrays[f"tokens/{name}"] = outputs.last_hidden_state.numpy()
        arrays[f"pooled/{name}"] = outputs.pooler_output.numpy()
    arrays["chosen"] = chosen.numpy()
    np.savez_compressed(FOLDER / "onevision_a.npz", **arrays)
