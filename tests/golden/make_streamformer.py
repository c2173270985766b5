"""Outputs of StreamFormer with random weights: python make_streamformer.py CLONE FOLDER.

Needs transformers and a clone of https://github.com/Go2Heart/StreamFormer, which has no license
file at its root: no code of it is here. Run with transformers 5.23 and the clone at ae3523b.
Case a is causal over time and has low-rank updates, as the published weights; case b is neither.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch

CLONE, FOLDER = map(Path, sys.argv[1:3])
sys.path.insert(0, str(CLONE))
from models.configuration_streamformer import StreamformerConfig  # noqa: E402
from models.modeling_timesformer_siglip import TimesformerMultiTaskingModelSigLIP  # noqa: E402

SIZES = dict(
    image_size=24,
    patch_size=8,
    num_frames=6,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
)
CASES = {
    "a": dict(hidden_act="gelu_pytorch_tanh", enable_causal_temporal=True, add_lora_spatial=True),
    "b": dict(hidden_act="gelu_pytorch_tanh", enable_causal_temporal=False, layer_norm_eps=1e-5),
}
# Frames, rows and columns; the code can resize to squares alone.
CLIPS = {"whole": (6, 24, 24), "short": (3, 24, 24), "large": (5, 40, 40)}

for case, options in CASES.items():
    torch.manual_seed(0)
    config = StreamformerConfig(**SIZES, **options)
    model = TimesformerMultiTaskingModelSigLIP(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(std=0.05 if "lora" in name else 0.3)
    arrays = {f"params/{name}": x.numpy() for name, x in model.state_dict().items()}
    arrays["config"] = np.array(json.dumps(SIZES | options))
    for name, size in CLIPS.items():
        frames = torch.randn(2, size[0], 3, *size[1:])
        with torch.no_grad():
            output = model(
                frames, output_attentions=False, output_hidden_states=False, return_dict=True
            )
        arrays[f"input/{name}"] = frames.numpy()
        arrays[f"tokens/{name}"] = output.last_hidden_state.numpy()
        arrays[f"pooled/{name}"] = output.pooler_output.numpy()
    np.savez_compressed(FOLDER / f"streamformer_{case}.npz", **arrays)
