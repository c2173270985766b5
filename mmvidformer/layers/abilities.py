"""What goes with what: what parts need and support, and every conflict between them, in words.

A pattern says what it ``needs`` of its kernel, and a kernel what it ``supports``, as sets of the
words of ``ABILITIES``. ``find_conflicts`` compares them, and whatever else does not go together in
an encoder. Each conflict rules out one use of the encoder:

==========  ======================================================
rules out   what cannot be done
==========  ======================================================
clips       anything: the parts do not go together
places      to leave the same places out of all frames of a clip
tokens      to leave any tokens out
counts      to count a token several times, or to ignore padding
streams     to take a clip a few frames at a time
==========  ======================================================
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from mmvidformer.errors import UserError
from mmvidformer.layers.config import Choice, EncoderConfig, SubLayer, name_of
from mmvidformer.layers.kernels import KERNELS, Kernel
from mmvidformer.layers.patterns import PATTERNS
from mmvidformer.layers.rotary import ROPES
from mmvidformer.layers.shift import build_shift
from mmvidformer.layers.stem import Stem
from mmvidformer.layers.tokens import Size, Tokens
from mmvidformer.lookup import look_up

# What other parts of an attention may ask of its kernel.
ABILITIES = {
    "some_queries": "attend for some of the queries alone",
    "other_keys": "attend to keys that are not its queries",
    "keys": "mask keys that are not queries",
    "padding": "ignore padding in a group",
    "pairs": "mask pairs of a query and a key",
    "causal": "mask later frames",
    "past": "mask frames of the distant past",
    "counts": "count a key several times",
    "rotary": "use rotary positions",
    "sink": "keep the keys of earlier frames",
    "any_order": "attend to tokens in any order, some of which are left out",
}
NEEDS_PLACES, NEEDS_FRAMES = "needs all places of a frame", "needs tokens in frames"
NO_COUNTS = "cannot count a token several times or ignore padding"


class Conflict(NamedTuple):
    """A part that rules out a use.

    Attributes:
        rules_out: The use; see the module.
        part: The part, as a config names it.
        reason: What it cannot do, or needs.
    """

    rules_out: str
    part: str
    reason: str

    def __str__(self) -> str:
        return f"{self.part} {self.reason}"


def refuse(conflicts: Iterable[Conflict], use: str, start: str = "", advice: str = "") -> None:
    """Raise a UserError that names the first conflict that rules out a use.

    Args:
        conflicts: Those of the parts.
        use: The use.
        start: What the message begins with.
        advice: What it ends with.
    """
    for conflict in conflicts:
        if conflict.rules_out == use:
            raise UserError(f"{start}{conflict}{advice}")


def refuse_tokens(conflicts: Iterable[Conflict], tokens: Tokens) -> None:
    """Raise a UserError if parts cannot do with places or counts of tokens, or these do not fit."""
    kept, counts = tokens.context.kept, tokens.context.counts
    if kept is not None:
        refuse(conflicts, "places", advice="; leave none out")
        if not kept.in_frames:
            refuse(conflicts, "tokens", advice="; leave out the same places in all frames")
    if counts is not None:
        refuse(conflicts, "counts", advice="; leave counts out")
        shape = (tokens.tensor.shape[0], *tokens.context.grid.size)
        if (got := tuple(counts.shape)) != shape:
            raise UserError(f"counts must be (B, T, H, W) = {shape}, as the tokens, got {got}")


def find_conflicts(
    config: EncoderConfig, passes_grid: bool = True, grid: Size | None = None
) -> list[Conflict]:
    """Find what parts of an encoder cannot do together.

    Args:
        config: The encoder.
        passes_grid: Whether the tokens of places are read by others, not the class token alone.
        grid: Size (T, H, W) of its input, 1 for an axis with one token at most. Default: unknown.

    Raises:
        KeyError: If a name is unknown.
        UserError: If an option of a part is unknown or out of range.
    """
    conflicts = [*_of_prefix(config, passes_grid)]
    for sublayer in config.sublayers:
        rope = config.rope if sublayer.rope else None
        conflicts += attention_conflicts(sublayer, rope, config.qkv_bias)
        conflicts += _with_places(sublayer)
        if not config.single_frames:  # in which no token sees another frame
            conflicts += _with_streams(sublayer)
        if grid is not None:
            size = (1, *grid[1:]) if config.single_frames else grid
            conflicts += _with_grid(sublayer, size)
    if _is_depthwise(config):
        conflicts += _reads_neighbors("depthwise=True")
    if config.rope is not None:
        head_dim = config.sizes["embed_dims"] // config.sizes["num_heads"]
        if not ROPES.build(config.rope, head_dim=head_dim).causal:
            part = f"rope={config.rope!r}"
            conflicts.append(Conflict("streams", part, "spreads the frames of a clip over time"))
    if config.adapter is not None:
        part = f"adapter={config.adapter}"
        conflicts += [*_reads_neighbors(part), Conflict("streams", part, "sees later frames")]
    if config.frames == "average":
        reason = "is a mean over time; use frames='pool'"
        conflicts.append(Conflict("streams", "frames='average'", reason))
    if config.frames != "together":
        conflicts.append(Conflict("tokens", f"frames={config.frames!r}", NEEDS_FRAMES))
    if config.frames == "token":
        reason = "has no place for the token of frames='token'"
        needing_places = [conflict.part for conflict in conflicts if conflict.rules_out == "places"]
        conflicts += [Conflict("clips", part, reason) for part in needing_places]
    return conflicts


def attention_conflicts(
    sublayer: SubLayer, rope: Choice | None = None, qkv_bias: bool | str = True
) -> Iterator[Conflict]:
    """Yield what parts of one attention cannot do together.

    Args:
        sublayer: The attention.
        rope: Its rotary positions.
        qkv_bias: As in ``EncoderConfig``.
    """
    kernel = _kernel_of(sublayer)
    roles = {"global": {"other_keys"}, "sink": {"sink"}}
    needs = [(f"cls={sublayer.cls!r}", roles.get(sublayer.cls or "", set[str]()), "")]
    if rope is not None:
        needs.append((f"rope={rope!r}", {"rotary"}, ", or rope=False in its sub-layer"))
    for choice in sublayer.patterns:
        pattern = PATTERNS.build(choice)
        needs.append((f"pattern {choice!r}", {*pattern.needs}, ""))
        if kernel.over_time and (pattern.tokens != "t" or pattern.needs != {"causal"}):
            use = f"use pattern causal_time without past, got {choice!r}"
            yield _in_kernel(sublayer, f"runs over time and keeps all of the past: {use}")
        if "causal" in pattern.needs:
            yield from _with_causal(sublayer, choice)
        if sublayer.cls == "sink" and not pattern.causal:
            reason = "sees later frames: cls must be 'mean' or 'global', got 'sink'"
            yield Conflict("clips", f"pattern {choice!r}", reason)
    for part, abilities, otherwise in needs:
        missing = [
            words for name, words in ABILITIES.items() if name in abilities - kernel.supports
        ]
        if missing:
            able = ", ".join(name for name, other in KERNELS.items() if abilities <= other.supports)
            reason = f"cannot {' or '.join(missing)}, as {part} needs; use kernel {able}{otherwise}"
            yield _in_kernel(sublayer, reason)
    if kernel.needs_heads and len(sublayer.patterns) > 1:
        reason = f"has weights of each head: give one pattern, got {[*sublayer.patterns]}"
        yield _in_kernel(sublayer, reason)
    if kernel.parts != 3 and qkv_bias == "qv":
        yield _in_kernel(sublayer, "has no keys apart: use qkv_bias=True")


def stem_conflicts(stem: Stem) -> Iterator[Conflict]:
    """Yield which uses a stem rules out."""
    if stem.overlaps:
        for use in ("places", "tokens"):
            yield Conflict(use, "tubelets", "overlap or have padding")
    if not stem.separate_frames:
        reason = "overlap in time; use a stride of as many frames, without padding"
        yield Conflict("streams", "tubelets", reason)


def _kernel_of(sublayer: SubLayer) -> type[Kernel]:
    return look_up(KERNELS, str(name_of(sublayer.kernel)), KERNELS.what)


def _in_kernel(sublayer: SubLayer, reason: str) -> Conflict:
    return Conflict("clips", f"kernel {name_of(sublayer.kernel)!r}", reason)


def _with_causal(sublayer: SubLayer, choice: Choice) -> Iterator[Conflict]:
    """Class token and shifts may carry later frames to earlier ones."""
    shifts = list(sublayer.shifts)
    part, got = f"pattern {choice!r}", f"got cls={sublayer.cls!r} and shifts={shifts}"
    if sublayer.cls not in (None, "sink", "skip"):
        yield Conflict("clips", part, f"is causal and needs cls='sink' or 'skip', {got}")
    if any(frames > 0 for shift in shifts for frames in build_shift(shift).frames):
        reason = f"is causal and needs shifts that read no later frames, {got}"
        yield Conflict("clips", part, reason)


def _of_prefix(config: EncoderConfig, passes_grid: bool) -> Iterator[Conflict]:
    """Yield what does not go with the class token, registers and tokens of frames."""
    has_cls = config.cls is not None
    if config.frames == "token" and (has_cls or config.rope is not None):
        reason = "goes with neither a class token nor rotary positions"
        yield Conflict("clips", "frames='token'", reason)
    if not has_cls:
        if config.registers:
            reason = "join as the class token does: cls must be 'mean', 'global' or 'sink'"
            yield Conflict("clips", f"registers={config.registers}", reason)
        return
    roles = {sublayer.cls for sublayer in config.sublayers}
    if not config.single_frames and not roles <= {"sink", "skip"}:
        yield Conflict("streams", "the class token", "sees all frames; use cls='sink'")
    if _is_depthwise(config):
        reason = f"needs a grid of tokens alone: cls must be None, got {config.cls!r}"
        yield Conflict("clips", "depthwise", reason)
    blocks = config.blocks
    last_block = blocks[(config.sizes["depth"] - 1) % len(blocks)]
    last = last_block if config.parallel else last_block[-1:]
    if roles == {"skip"}:
        reason = "of one sub-layer at least must be 'mean', 'global' or 'sink', got 'skip'"
        yield Conflict("clips", "cls", reason)
    elif not passes_grid and any(sublayer.cls == "skip" for sublayer in last):
        reason = (
            "of the last sub-layer (of all, if they are parallel) must not be 'skip', or "
            "the output, which is the class token, would not depend on it; got 'skip'"
        )
        yield Conflict("clips", "cls", reason)


def _with_places(sublayer: SubLayer) -> Iterator[Conflict]:
    """Yield what cannot do without some tokens, or with tokens that stand for several."""
    kernel, kernel_name = _kernel_of(sublayer), f"kernel {name_of(sublayer.kernel)!r}"
    for choice in sublayer.patterns:
        pattern, name = PATTERNS.build(choice), f"pattern {choice!r}"
        joins_places = any(axis in pattern.tokens for axis in "hw")
        if joins_places and "any_order" not in kernel.supports:
            yield Conflict("places", kernel_name, NEEDS_PLACES)
        if not pattern.any_places:
            yield Conflict("places", name, NEEDS_PLACES)
        if not pattern.whole:
            yield Conflict("tokens", name, NEEDS_FRAMES)
        if "causal" in pattern.needs:
            yield Conflict("counts", name, NO_COUNTS)
        if "pairs" in pattern.needs and sublayer.cls == "mean":  # its groups join both ends
            yield Conflict("counts", f"{name} with cls='mean'", NO_COUNTS)
    if kernel.needs_length:
        yield Conflict("places", kernel_name, NEEDS_PLACES)
    if "counts" not in kernel.supports:
        yield Conflict("counts", kernel_name, NO_COUNTS)
    for shift in sublayer.shifts:
        yield from _reads_neighbors(f"shift {shift!r}")


def _reads_neighbors(part: str) -> Iterator[Conflict]:
    yield Conflict("places", part, NEEDS_PLACES)
    yield Conflict("counts", part, NO_COUNTS)


def _with_streams(sublayer: SubLayer) -> Iterator[Conflict]:
    """Yield what sees frames that are not there yet."""
    resuming = [name for name, kernel in KERNELS.items() if kernel.resume is not Kernel.resume]
    kernel = name_of(sublayer.kernel)
    for choice in sublayer.patterns:
        pattern = PATTERNS.build(choice)
        if not pattern.causal:
            use = "use causal_time, causal_joint or a pattern within frames"
            yield Conflict("streams", f"pattern {choice!r}", f"sees later frames; {use}")
        if "causal" in pattern.needs and kernel not in resuming:
            reason = f"depends on the clip's length; use {' or '.join(resuming)}"
            yield Conflict("streams", f"kernel {kernel!r}", reason)
    shifts = list(sublayer.shifts)
    if any(build_shift(shift).frames - {0} for shift in shifts):
        yield Conflict("streams", f"shifts {shifts}", "read other frames; use spatial shifts")


def _with_grid(sublayer: SubLayer, grid: Size) -> Iterator[Conflict]:
    """Yield patterns that join no tokens."""
    axes = ", ".join(axis for axis, size in zip("thw", grid, strict=True) if size > 1)
    for choice in sublayer.patterns:
        if PATTERNS.build(choice).num_keys(grid) == 1:
            reason = f"each token sees itself alone, since they differ in {axes} only"
            yield Conflict("clips", f"pattern {choice!r}", f"joins no tokens: {reason}")


def _is_depthwise(config: EncoderConfig) -> bool:
    return isinstance(config.mlp, Mapping) and bool(config.mlp.get("depthwise"))
