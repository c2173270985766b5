"""One checkpoint file into another, with a report."""

from collections.abc import Iterator
from pathlib import Path

from mmvidformer.convert.describe import settings_of
from mmvidformer.convert.detect import FORMATS, read_model
from mmvidformer.convert.huggingface import (
    huggingface_config,
    huggingface_timesformer_config,
    to_huggingface,
)
from mmvidformer.convert.io import save_checkpoint, save_huggingface
from mmvidformer.convert.keymap import Conversion
from mmvidformer.convert.positions import Grid
from mmvidformer.convert.timesformer import to_timesformer

OUTPUTS = ("mmvidformer", "huggingface")
CLASSIFIER = "cls_head.fc_cls.bias"


def convert_file(
    source: str | Path,
    target: str | Path,
    to: str = "mmvidformer",
    grid: Grid | None = None,
    scheme: str | None = None,
    num_heads: int | None = None,
) -> str:
    """Convert a checkpoint file.

    Args:
        source: File or HuggingFace folder in any format of ``convert.detect``.
        target: ``.pth`` file for ours; folder or ``.safetensors`` file for HuggingFace.
        to: ``'mmvidformer'`` or ``'huggingface'`` (ViViT's model 1 with class token, or a
            TimeSformer of the three published schemes).
        grid: Tokens (T, H, W) of the source's position table, where its length does not tell.
        scheme: Attention scheme, where the names do not tell (``convert.scenic``).
        num_heads: Attention heads, where the source does not tell.

    Returns:
        What was recognised, mapped, ignored, lacking and written, for people.

    Raises:
        FileNotFoundError: If there is no source.
        ValueError: If the source is not understood or does not fit the target, the target's name
            is wrong, or the source has another number of heads.
    """
    target = Path(target)
    if to not in OUTPUTS:
        raise ValueError(f"to must be one of {OUTPUTS}, got {to!r}")
    if to == "mmvidformer" and target.suffix != ".pth":
        raise ValueError(f"a checkpoint of ours is a .pth file, got {target}")
    name, result = read_model(source, grid=grid, scheme=scheme)
    if num_heads is not None and result.num_heads not in (None, num_heads):
        raise ValueError(f"{source} has {result.num_heads} heads, not {num_heads}")
    result.num_heads = num_heads or result.num_heads
    part, settings = settings_of(result)
    classes = len(result.state[CLASSIFIER]) if CLASSIFIER in result.state else None
    if to == "huggingface" and (part != "backbone" or not settings):
        raise ValueError(f"HuggingFace has no model like {source}, a {FORMATS[name].title}")
    if to == "huggingface" and "fixation" in settings:
        raise ValueError(f"HuggingFace has no model with feature fixation, and {source} is one")
    if to == "huggingface" and "attention" in settings:
        state = to_timesformer(result.state, settings["attention"], "huggingface")
        save_huggingface(target, state, huggingface_timesformer_config(settings, classes))
    elif to == "huggingface":
        if result.scheme not in (None, "spacetime"):
            raise ValueError(f"HuggingFace's ViViT is 'spacetime', {source} is {result.scheme!r}")
        config = huggingface_config(settings, classes)
        save_huggingface(target, to_huggingface(result.state), config)
    else:
        meta = {"converted_from": name, part: settings}
        save_checkpoint(target, result.state, meta)
    lines = [f"recognised: {FORMATS[name].title}", *_report(result), f"{part}: {settings}"]
    return "\n".join([*lines, f"wrote {len(result.state)} tensors to {target} ({to})"])


def _report(result: Conversion) -> Iterator[str]:
    yield f"mapped: {len(result.state)} tensors"
    for rule, count in result.mapped:
        times = f" (x{count})" if count > 1 else ""
        yield f"  {', '.join(rule.sources)} -> {', '.join(rule.targets)}{times}"
    yield f"ignored: {', '.join(result.ignored) or 'nothing'}"
    yield f"lacks: {', '.join(result.lacking) or 'nothing'}"
    for note in result.notes:
        yield f"note: {note}"
