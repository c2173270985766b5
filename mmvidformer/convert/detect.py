"""Which format a checkpoint has, told by its names."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from mmvidformer.convert.bn_inception import from_bn_inception, is_bn_inception
from mmvidformer.convert.feature_fixation import from_feature_fixation, is_official
from mmvidformer.convert.google_npz import from_google_npz
from mmvidformer.convert.horst import from_horst, is_horst
from mmvidformer.convert.huggingface import from_huggingface
from mmvidformer.convert.io import load_checkpoint
from mmvidformer.convert.keymap import Conversion
from mmvidformer.convert.own import from_own, is_own
from mmvidformer.convert.scenic import from_scenic
from mmvidformer.convert.timesformer import DIALECTS, from_timesformer
from mmvidformer.convert.timm_vit import from_timm


@dataclass(frozen=True)
class Format:
    """A row of the table of formats.

    Args:
        title: For people.
        recognise: Whether a state dict is of this format.
        convert: Converter to ours.
        options: Arguments of the converter besides the weights.
    """

    title: str
    recognise: Callable[[Mapping[str, Tensor]], bool]
    convert: Callable[..., Conversion]
    options: tuple[str, ...] = ()


def _has(*parts: str) -> Callable[[Mapping[str, Tensor]], bool]:
    return lambda state: all(any(part in name for name in state) for part in parts)


def _is_scenic(state: Mapping[str, Tensor]) -> bool:
    kernels = [v for k, v in state.items() if k.endswith("embedding/kernel")]
    return _has("ransformer/encoder")(state) and (
        _has("SpatialTransformer/")(state) or any(kernel.dim() == 5 for kernel in kernels)
    )


FORMATS: dict[str, Format] = {
    "mmvidformer": Format("our own", is_own, from_own, ("meta",)),
    "scenic": Format("scenic ViViT", _is_scenic, from_scenic, ("grid", "scheme")),
    "google_npz": Format(
        "Google image ViT",
        lambda state: (
            _has("embedding/kernel", "Transformer/encoder")(state) and not _is_scenic(state)
        ),
        from_google_npz,
        ("grid",),
    ),
    "huggingface": Format(
        "HuggingFace ViViT",
        lambda state: any(
            name.endswith("embeddings.patch_embeddings.projection.weight") and value.dim() == 5
            for name, value in state.items()
        ),
        from_huggingface,
        ("grid", "meta"),
    ),
    "timesformer": Format(
        "TimeSformer (official, HuggingFace or MMAction2)",
        lambda state: any(
            {names.tables[0], f"{names.patches}.weight"} <= set(state)
            for names in DIALECTS.values()
        ),
        from_timesformer,
        ("grid",),
    ),
    "feature_fixation": Format(
        "linear video transformer with feature fixation (official)",
        is_official,
        from_feature_fixation,
    ),
    "horst": Format("HORST (official)", is_horst, from_horst),
    "bn_inception": Format(
        "BN-Inception (ImageNet, or TSN of RULSTM)", is_bn_inception, from_bn_inception
    ),
    "timm": Format(
        "timm image ViT",
        lambda state: (
            {"patch_embed.proj.weight", "blocks.0.attn.qkv.weight"} <= set(state)
            and not is_official(state)
        ),
        from_timm,
        ("grid",),
    ),
}


def recognise(state: Mapping[str, Tensor]) -> str:
    """Tell the format of a state dict.

    Returns:
        A name of ``FORMATS``.

    Raises:
        ValueError: If none fits; the message shows some of the names.
    """
    for name, row in FORMATS.items():
        if row.recognise(state):
            return name
    raise ValueError(
        f"the names fit none of {[row.title for row in FORMATS.values()]}: "
        f"{list(state)[:8]} (of {len(state)})"
    )


def read_model(path: str | Path, **options: object) -> tuple[str, Conversion]:
    """Read a checkpoint in any known format.

    Args:
        path: File or HuggingFace folder (``convert.io``).
        options: Arguments for the converter, ``grid`` and ``scheme``; None counts as not given.

    Returns:
        The format's name, and the weights under our names.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the format is not recognised, has not such an option, or does not fit.
    """
    checkpoint = load_checkpoint(path)
    name = recognise(checkpoint.state)
    row = FORMATS[name]
    given = {key: value for key, value in options.items() if value is not None}
    wrong = sorted(set(given) - set(row.options))
    if wrong:
        raise ValueError(f"{path} is a {row.title} checkpoint, which takes no {', '.join(wrong)}")
    if "meta" in row.options:
        given["meta"] = checkpoint.meta
    try:
        return name, row.convert(checkpoint.state, **given)
    except ValueError as error:
        raise ValueError(f"{path} ({row.title}): {error}") from error
