"""Converting checkpoint files: from any known format to this package's or HuggingFace's."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mmvidformer.checkpoints.backbones import HUGGINGFACE_MODELS, backbone_arguments
from mmvidformer.checkpoints.download import fetch
from mmvidformer.checkpoints.formats import FORMATS, convert_checkpoint, meta_of
from mmvidformer.checkpoints.huggingface import (
    huggingface_config,
    processor_config,
    save_huggingface,
)
from mmvidformer.checkpoints.keymap import Conversion, State
from mmvidformer.checkpoints.operations import Grid
from mmvidformer.checkpoints.partial import load_checkpoint
from mmvidformer.checkpoints.video_models import to_other
from mmvidformer.checkpoints.writing import save_tensors
from mmvidformer.errors import UserError
from mmvidformer.storage.atomic import write_atomically

OUTPUTS = ("mmvidformer", "huggingface", "official")
# Files of projects whose code reads no HuggingFace folder: suffix by scheme.
OFFICIAL = {
    "trecvit": ".npz",
    "vjepa2_1": ".pt",
    "levjepa": ".pt",
    "internvideo_next": ".safetensors",
    "onevision": ".safetensors",
}


def read_model(source: str | Path, **options: object) -> tuple[str, Conversion]:
    """Read a checkpoint in any known format, and return the format's name and the weights.

    Args:
        source: File or HuggingFace folder (``reading``), or address (``download``).
        options: Arguments of the converter, ``grid`` and ``scheme``; None means the default.

    Raises:
        OSError: If there is no such file, or an address cannot be fetched.
        UserError: If the format is unknown or does not take an option, or if the weights do not
            fit.
    """
    return convert_checkpoint(load_checkpoint(fetch(source)), source, **options)


def convert_file(
    source: str | Path,
    target: str | Path,
    to: str = "mmvidformer",
    grid: Grid | None = None,
    scheme: str | None = None,
    num_heads: int | None = None,
    half: bool = False,
) -> str:
    """Convert a checkpoint file, and return a report.

    Args:
        source: File, HuggingFace folder or address in any of ``FORMATS``.
        target: ``.pth`` or ``.safetensors`` file; for HuggingFace a folder.
        to: ``'mmvidformer'`` or ``'huggingface'`` (ViViT's model 1 with class token, TimeSformer
            with one of the three published schemes, VideoMAE, V-JEPA 2, or VideoPrism);
            ``'official'``, a file that the authors' code reads (``OFFICIAL``).
        grid: Tokens (T, H, W) of the source's position table, if its length is ambiguous.
        scheme: Attention scheme, if the names are ambiguous (see ``checkpoints.flax``).
        num_heads: Number of attention heads, if the source does not contain it.
        half: Whether to store the matrices of layers in half precision (float16). Norms, biases,
            positions and buffers stay as they are.

    Raises:
        OSError: If there is no source, or it cannot be fetched.
        UserError: If the source is not understood, is an image model, or does not fit the target,
            the target's name is wrong, the source has another number of heads, or values that
            float16 does not have.
    """
    target = Path(target)
    if to not in OUTPUTS:
        raise UserError(f"to must be one of {OUTPUTS}, got {to!r}")
    if to == "mmvidformer" and target.suffix not in (".pth", ".safetensors"):
        raise UserError(f"the target must be a .pth or .safetensors file, got {target}")
    name, conversion = read_model(source, grid=grid, scheme=scheme)
    if FORMATS[name].is_image:
        raise UserError(
            f"{source} is an image model ({FORMATS[name].title}), which is no video model; give it "
            f"to one as it is, by its argument init_from={str(source)!r}"
        )
    if num_heads is not None and conversion.num_heads not in (None, num_heads):
        raise UserError(f"{source} has {conversion.num_heads} heads, not {num_heads}")
    conversion.num_heads = num_heads or conversion.num_heads
    if half:
        conversion.state = _halve_matrices(conversion.state)
    if to == "huggingface":
        _write_huggingface(target, conversion, f"{source} ({FORMATS[name].title})")
    elif to == "official":
        _write_official(target, conversion, f"{source} ({FORMATS[name].title})")
    else:
        save_checkpoint(target, conversion.state, meta_of(name, conversion))
    arguments = backbone_arguments(conversion)
    if "arch" in arguments and conversion.num_heads is None:
        conversion.notes.append("the source does not contain num_heads; add it to arch")
    notes = "".join(f"note: {note}\n" for note in conversion.notes)
    return (
        f"format: {FORMATS[name].title}\n"
        f"ignored: {', '.join(conversion.ignored) or 'nothing'}\n"
        f"missing: {', '.join(conversion.missing) or 'nothing'}\n"
        f"{notes}backbone: {arguments}\n"
        f"wrote {len(conversion.state)} tensors to {target} ({to})"
    )


def save_checkpoint(path: str | Path, state: Mapping[str, Tensor], meta: Mapping) -> None:
    """Write a checkpoint for MMEngine, with weights and ``meta``; to .safetensors weights only."""
    with write_atomically(path) as part:
        if Path(path).suffix == ".safetensors":
            save_tensors(state, part)
        else:
            with part.open("wb") as file:  # as a path would be stored in it
                torch.save({"state_dict": dict(state), "meta": dict(meta)}, file)


def _write_huggingface(folder: Path, conversion: Conversion, source: str) -> None:
    scheme = conversion.scheme or ""
    if scheme not in HUGGINGFACE_MODELS or HUGGINGFACE_MODELS[scheme][0] != conversion.model:
        raise UserError(
            f"HuggingFace has no model like {source} with scheme {scheme!r}; give the scheme if it "
            f"is one of {', '.join(HUGGINGFACE_MODELS)}"
        )
    arguments = backbone_arguments(conversion)
    state = to_other(conversion.state, scheme)
    config = huggingface_config(conversion, arguments)
    save_huggingface(folder, state, config, processor_config(arguments, conversion.info))


def _write_official(path: Path, conversion: Conversion, source: str) -> None:
    scheme = conversion.scheme or ""
    if scheme not in OFFICIAL:
        raise UserError(
            f"{source} has no official file; the models that have one are {', '.join(OFFICIAL)}"
        )
    if path.suffix != OFFICIAL[scheme]:
        raise UserError(f"the target must be a {OFFICIAL[scheme]} file, got {path}")
    state = to_other(conversion.state, scheme)
    with write_atomically(path) as part:
        if path.suffix == ".npz":
            with part.open("wb") as file:
                arrays: Any = {name: x.float().numpy() for name, x in state.items()}
                np.savez(file, **arrays)
        elif path.suffix == ".safetensors":
            save_tensors(state, part)
        else:
            torch.save({"target_encoder": state}, part)


def _halve_matrices(state: State) -> State:
    """Store weights of linear layers and convolutions as float16."""
    halved = {}
    for name, value in state.items():
        is_matrix = name.endswith(".weight") and value.dim() > 1 and value.is_floating_point()
        halved[name] = value.half() if is_matrix else value
        if is_matrix and not halved[name].isfinite().equal(value.isfinite()):
            largest, limit = value.abs().max().item(), torch.finfo(torch.float16).max
            raise UserError(f"{name} has values up to {largest:g}, float16 of at most {limit:g}")
    return halved
