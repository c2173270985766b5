"""All formats of checkpoints: recognizing one by its names, reading it, converting a file."""

from collections.abc import Callable, Mapping
from inspect import signature
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from mmvidformer.checkpoints.fetch import fetch
from mmvidformer.checkpoints.flax import from_google_npz, from_scenic
from mmvidformer.checkpoints.info import huggingface_config, processor_config, read_info
from mmvidformer.checkpoints.io import Checkpoint, save_checkpoint, save_huggingface
from mmvidformer.checkpoints.keymap import Conversion, Grid, State, has, strip_prefixes
from mmvidformer.checkpoints.own import MODELS, VIDEO_VITS, from_own, is_own, settings_of
from mmvidformer.checkpoints.published import row_of
from mmvidformer.checkpoints.timm_models import from_timm
from mmvidformer.checkpoints.trained import load_checkpoint
from mmvidformer.checkpoints.video_models import (
    DIALECTS,
    IMAGE,
    from_feature_fixation,
    from_timesformer,
    from_videomae,
    from_vivit,
    from_vjepa2,
    is_videomae,
    is_vjepa2,
    to_other,
)

OUTPUTS = ("mmvidformer", "huggingface")


class Format(NamedTuple):
    """A format: title, test of a state dict, and converter.

    A converter takes a state dict (trees flattened with ``/``, wrappers such as ``model_state``
    removed) and, as it needs them, ``grid``, tokens (T, H, W) of the position table (default: see
    ``keymap.grid_of``), the attention ``scheme``, and ``meta``, what the file contains beside
    the weights. It raises a ``ValueError`` if names or options do not fit.
    """

    title: str
    matches: Callable[[Mapping[str, Tensor]], bool]
    convert: Callable[..., Conversion]


def _is_scenic(state: Mapping[str, Tensor]) -> bool:
    tubelets = has(state, "embedding/kernel$", dim=5)
    return has(state, "ransformer/encoder") and (tubelets or has(state, "SpatialTransformer/"))


def from_bn_inception(state: Mapping[str, Tensor]) -> Conversion:
    """Convert BN-Inception without its classifier, in the two wrappers of a TSN or in none.

    Missing and unknown names are errors when the backbone loads them.
    """
    state = strip_prefixes(state, ("module.", "base_model."))
    ignored = [name for name in state if name.startswith(("last_linear.", "fc.", "new_fc."))]
    kept = {f"backbone.{name}": state[name] for name in state if name not in ignored}
    return Conversion(kept, ignored=ignored)


# The first one that matches counts.
FORMATS: dict[str, Format] = {
    "mmvidformer": Format("mmvidformer", is_own, from_own),
    "scenic": Format("scenic ViViT", _is_scenic, from_scenic),
    "google_npz": Format(
        "Google image ViT",
        lambda state: has(state, "embedding/kernel", "Transformer/encoder"),
        from_google_npz,
    ),
    "videomae": Format("VideoMAE (official, HuggingFace or MMAction2)", is_videomae, from_videomae),
    "vjepa2": Format("V-JEPA 2 (official or HuggingFace)", is_vjepa2, from_vjepa2),
    "huggingface": Format(
        "HuggingFace ViViT",
        lambda state: (
            has(state, r"embeddings\.cls_token$")
            and has(state, r"embeddings\.patch_embeddings\.projection\.weight$", dim=5)
        ),
        from_vivit,
    ),
    "timesformer": Format(
        "TimeSformer (official, HuggingFace or MMAction2)",
        lambda state: any(name in state for name in (*DIALECTS, IMAGE)),
        from_timesformer,
    ),
    "feature_fixation": Format(
        "linear video transformer with feature fixation (official)",
        lambda state: has(state, "temp_embed", r"patch_embed\.proj\.weight"),
        from_feature_fixation,
    ),
    "bn_inception": Format(
        "BN-Inception (ImageNet, or TSN of RULSTM)",
        lambda state: has(state, r"conv1_7x7_s2\.weight", r"inception_5b_pool_proj\.weight"),
        from_bn_inception,
    ),
    "timm": Format(
        "timm image ViT",
        lambda state: has(
            state, r"^patch_embed\.proj\.weight$", r"^blocks\.0\.attn\.(qkv|q_proj)\.weight$"
        ),
        from_timm,
    ),
}


def recognize(state: Mapping[str, Tensor]) -> str:
    """Return the name in ``FORMATS`` of a state dict's format.

    Raises:
        ValueError: If no format matches. The message shows some of the names.
    """
    for name, row in FORMATS.items():
        if row.matches(state):
            return name
    titles = [row.title for row in FORMATS.values()]
    raise ValueError(f"the names match none of the formats {titles}: {list(state)[:8]}, ...")


def read_model(source: str | Path, **options: object) -> tuple[str, Conversion]:
    """Read a checkpoint in any known format, and return the format's name and the weights.

    Args:
        source: File or HuggingFace folder (``convert.io``), or address (``convert.fetch``).
        options: Arguments of the converter, ``grid`` and ``scheme``; None means the default.

    Raises:
        OSError: If there is no such file, or an address cannot be fetched.
        ValueError: If the format is unknown or does not take an option, or if the weights do not
            fit.
    """
    return convert_checkpoint(load_checkpoint(fetch(source)), source, **options)


def convert_checkpoint(
    checkpoint: Checkpoint, source: str | Path, **options: object
) -> tuple[str, Conversion]:
    """Convert the content of a file; ``source`` is its name. See ``read_model``."""
    name = recognize(checkpoint.state)
    row, known = FORMATS[name], signature(FORMATS[name].convert).parameters
    given = {key: value for key, value in options.items() if value is not None}
    if wrong := sorted(given.keys() - known.keys()):
        raise ValueError(f"{source} is a {row.title} checkpoint, which takes no {', '.join(wrong)}")
    if "meta" in known:
        given["meta"] = checkpoint.meta
    try:
        result = row.convert(checkpoint.state, **given)
    except ValueError as error:
        raise ValueError(f"{source} ({row.title}): {error}") from error
    result.info = read_info(checkpoint.meta, row_of(source))
    return name, result


def meta_of(name: str, result: Conversion) -> dict:
    """Return ``meta`` of a converted checkpoint: its format, the model's arguments, the data."""
    settings = settings_of(result)
    backbone = {"type": result.model, **settings} if settings else {}
    scheme = {"scheme": result.scheme, "head": result.head} if result.scheme in VIDEO_VITS else {}
    return {"converted_from": name, "backbone": backbone, **scheme, **result.info}


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
            with one of the three published schemes, VideoMAE, or V-JEPA 2).
        grid: Tokens (T, H, W) of the source's position table, if its length is ambiguous.
        scheme: Attention scheme, if the names are ambiguous (see ``convert.flax``).
        num_heads: Number of attention heads, if the source does not contain it.
        half: Whether to store the matrices of layers in half precision (float16). Norms, biases,
            positions and buffers stay as they are.

    Raises:
        OSError: If there is no source, or it cannot be fetched.
        ValueError: If the source is not understood or does not fit the target, the target's name
            is wrong, the source has another number of heads, or values that float16 does not have.
    """
    target = Path(target)
    if to not in OUTPUTS:
        raise ValueError(f"to must be one of {OUTPUTS}, got {to!r}")
    if to == "mmvidformer" and target.suffix not in (".pth", ".safetensors"):
        raise ValueError(f"the target must be a .pth or .safetensors file, got {target}")
    name, result = read_model(source, grid=grid, scheme=scheme)
    if num_heads is not None and result.num_heads not in (None, num_heads):
        raise ValueError(f"{source} has {result.num_heads} heads, not {num_heads}")
    result.num_heads = num_heads or result.num_heads
    if half:
        result.state = _halve_matrices(result.state)
    settings = settings_of(result)
    if to == "huggingface":
        scheme = result.scheme or ""
        if scheme not in MODELS or MODELS[scheme][0] != result.model:
            raise ValueError(
                f"HuggingFace has no model like {source} ({FORMATS[name].title}) with scheme "
                f"{scheme!r}; give the scheme if it is one of {', '.join(MODELS)}"
            )
        state = to_other(result.state, scheme)
        config = huggingface_config(result, settings)
        save_huggingface(target, state, config, processor_config(settings, result.info))
    else:
        save_checkpoint(target, result.state, meta_of(name, result))
    if "arch" in settings and result.num_heads is None:
        result.notes.append("the source does not contain num_heads; add it to arch")
    notes = "".join(f"note: {note}\n" for note in result.notes)
    return (
        f"format: {FORMATS[name].title}\n"
        f"ignored: {', '.join(result.ignored) or 'nothing'}\n"
        f"missing: {', '.join(result.missing) or 'nothing'}\n"
        f"{notes}backbone: {settings}\n"
        f"wrote {len(result.state)} tensors to {target} ({to})"
    )


def _halve_matrices(state: State) -> State:
    """Store weights of linear layers and convolutions as float16."""
    halved = {}
    for name, value in state.items():
        is_matrix = name.endswith(".weight") and value.dim() > 1 and value.is_floating_point()
        halved[name] = value.half() if is_matrix else value
        if is_matrix and not halved[name].isfinite().equal(value.isfinite()):
            largest, limit = value.abs().max().item(), torch.finfo(torch.float16).max
            raise ValueError(f"{name} has values up to {largest:g}, float16 of at most {limit:g}")
    return halved
