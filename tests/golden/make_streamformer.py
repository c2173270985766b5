"""Outputs of StreamFormer with random weights: python make_streamformer.py CLONE FOLDER.

Needs transformers and a clone of https://github.com/Go2Heart/StreamFormer, which has no license
file at its root: no code of it is here. Run with transformers 5.23 and the clone at ae3523b.
Case a is causal over time and has low-rank updates, as the published weights; case b is neither.
The stream of case a, frame by frame, is that of the copy of the model for question answering, which
has a cache. After the last position its call of ``interpolate`` fails: PyTorch refuses
``align_corners`` for the mode ``nearest``. It is left out here.
"""

import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

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

STREAM = 9  # frames, more than positions


def load_streaming() -> ModuleType:
    """Import the model with a cache."""
    for name in ("llava", "llava.utils"):
        sys.modules[name] = ModuleType(name)
    sys.modules["llava.utils"].rank0_print = print
    path = CLONE / "downstream/VideoQA/llava/model/multimodal_encoder/timesformer_encoder.py"
    spec = spec_from_file_location("timesformer_encoder", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    interpolate = torch.nn.functional.interpolate

    def interpolate_nearest(x: torch.Tensor, **kwargs: object) -> torch.Tensor:
        if kwargs.get("mode") == "nearest":
            kwargs.pop("align_corners", None)
        return interpolate(x, **kwargs)

    torch.nn.functional.interpolate = interpolate_nearest
    return module


@torch.no_grad()
def run_stream(weights: dict, frames: torch.Tensor) -> np.ndarray:
    """Tokens (B, T, N, D) of frames (B, T, 3, H, W) that come one by one."""
    module = load_streaming()
    model = module.TimesformerMultiTaskingModelSigLIP(
        module.StreamformerConfig(**SIZES, **CASES["a"])
    ).eval()
    model.load_state_dict({n: x for n, x in weights.items() if not n.endswith(".mask")})
    tokens, cache = [], None
    for frame in frames.split(1, dim=1):
        output = model(
            frame,
            output_attentions=False,
            output_hidden_states=False,
            return_dict=True,
            use_cache=True,
            past_key_values=cache,
        )
        tokens.append(output.last_hidden_state)
        cache = output.past_key_values
    return torch.cat(tokens, dim=1).numpy()


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
    if case == "a":
        frames = torch.randn(2, STREAM, 3, SIZES["image_size"], SIZES["image_size"])
        arrays["input/stream"] = frames.numpy()
        arrays["tokens/stream"] = run_stream(model.state_dict(), frames)
    np.savez_compressed(FOLDER / f"streamformer_{case}.npz", **arrays)
