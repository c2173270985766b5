"""The authors' code of an encoder, in a process of its own, which ``benchmarks.authors`` starts.

python authors_code.py NAME CLONE FOLDER

Reads FOLDER/clip.npy (B, T, H, W, 3), draws weights, and writes them and the output for the clip.
Then it runs once for each line of its input. It answers a run with seconds of wall-clock and of CPU
time. Nothing of this package is imported, since an interpreter with JAX may lack PyTorch.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Run = Callable[[], Any]


def videoprism(clip: np.ndarray, folder: Path) -> Run:
    """VideoPrism-B: tokens."""
    from videoprism import encoders

    # All else is as by default; its ``models`` needs TensorFlow.
    model = encoders.FactorizedEncoder(atten_logit_cap=50.0, scan=True)
    return _flax(model, clip, folder, lambda output: output[0])


def trecvit(clip: np.ndarray, folder: Path) -> Run:
    """TRecViT-B: logits."""
    from trecvit.trecvit_model import get_model

    return _flax(get_model("B", clip.shape[1]), clip, folder, lambda output: output["logits"])


def streamformer(clip: np.ndarray, folder: Path) -> Run:
    """StreamFormer-B with low-rank updates, as published: a pooled vector of each frame."""
    from models.configuration_streamformer import StreamformerConfig
    from models.modeling_timesformer_siglip import TimesformerMultiTaskingModelSigLIP

    config = StreamformerConfig(
        num_frames=clip.shape[1],
        hidden_act="gelu_pytorch_tanh",
        enable_causal_temporal=True,
        add_lora_spatial=True,
    )
    model = TimesformerMultiTaskingModelSigLIP(config)
    options = dict(output_attentions=False, output_hidden_states=False, return_dict=True)
    return _torch(model, clip, folder, lambda x: model(x.transpose(1, 2), **options).pooler_output)


def vjepa2_1(clip: np.ndarray, folder: Path) -> Run:
    """V-JEPA 2.1-B: tokens."""
    from src.hub.backbones import vjepa2_1_vit_base_384

    model, _ = vjepa2_1_vit_base_384(pretrained=False)
    return _torch(model, clip, folder, model)


def _flax(model: Any, clip: np.ndarray, folder: Path, pick: Callable[[Any], Any]) -> Run:
    import jax

    # One frame is enough to know the shapes. Zeros would hide differences.
    tree = model.init(jax.random.key(0), clip[:, :1])
    random = np.random.default_rng(0)

    def fill(x: jax.Array) -> jax.Array:
        return x if x.any() else jax.numpy.asarray(random.normal(0, 0.02, x.shape), x.dtype)

    tree = jax.tree.map(fill, tree)
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    names = [jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in leaves]
    np.savez(folder / "weights.npz", **dict(zip(names, [x for _, x in leaves], strict=True)))
    forward, frames = jax.jit(lambda tree, x: pick(model.apply(tree, x))), jax.numpy.asarray(clip)
    return lambda: forward(tree, frames).block_until_ready()


def _torch(model: Any, clip: np.ndarray, folder: Path, forward: Callable[[Any], Any]) -> Run:
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    for parameter in model.eval().requires_grad_(False).parameters():
        if not parameter.any():
            parameter.normal_(std=0.02)
    torch.save(model.state_dict(), folder / "weights.pth")
    frames = torch.from_numpy(clip).permute(0, 4, 1, 2, 3).contiguous()

    def run() -> torch.Tensor:
        with torch.inference_mode():
            return forward(frames)

    return run


def main() -> None:
    """Answer the lines of standard input."""
    name, clone, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    answers, sys.stdout = sys.stdout, sys.stderr  # where the authors' code may print
    sys.path.insert(0, clone)
    run = globals()[name](np.load(folder / "clip.npy"), folder)
    np.save(folder / "output.npy", np.asarray(run()))
    print("ready", file=answers, flush=True)
    for _ in sys.stdin:
        start = time.perf_counter(), time.process_time()
        run()
        seconds = time.perf_counter() - start[0], time.process_time() - start[1]
        print(*seconds, file=answers, flush=True)


if __name__ == "__main__":
    main()
