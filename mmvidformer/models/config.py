"""What a video transformer consists of, and what its encoders cannot do together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from mmvidformer.layers import KERNELS, PATTERNS, EncoderConfig, Kernel, SubLayer, build_shift
from mmvidformer.layers.config import Choice, name_of, read
from mmvidformer.layers.tokens import Size


@dataclass(frozen=True)
class VideoConfig(EncoderConfig):
    """A video transformer: what its encoders share (``EncoderConfig``), and the rest.

    Args:
        arch: As for an encoder, or ``'timm:NAME'``, an image model of timm: all arguments that make
            it (``checkpoints.arguments_of``), and ``init_from``; the others replace them.
        clip_len: Number of frames of a clip; sets the size of position tables. Clips of other
            sizes work too. Their positions are resized; a model that can run frame by frame takes
            the first rows of a learned time table instead, and refuses clips longer than it.
        img_size: Side of the crop in pixels, or (height, width); as ``clip_len``.
        stem: Arguments of ``layers.TubeletEmbedding``: ``tubelet`` (required), ``in_channels``,
            ``stride``, ``padding``, ``norm``, ``images`` and ``convs``.
        encoders: An ``EncoderConfig`` for each encoder, or a dictionary of what differs from the
            shared options. Each reads the grid that the previous one returns, through a linear
            layer if the width changes, but not its class token.
        pool: Output: ``'cls'``, the class token of the last encoder (the mean of those of all
            frames if its ``frames`` is ``'pool'``), ``'mean'``, the mean of its other tokens, or
            ``'none'``, those tokens themselves. Default: ``'cls'`` with a class token.
        fc_norm: Norm of the output, after ``pool``, in place of the last encoder's (VideoMAE); as
            ``norm``. None: the tokens are normalized before they are pooled.
        init: Initialization: ``'timm'`` or ``'flax'`` (``layers.init``).
        init_from: Image model that ``init_weights`` loads: a source (``'timm:NAME'`` or a file),
            or a dictionary of the arguments of ``checkpoints.init_from_image``.
        frozen_stages: Number of blocks that are not trained and are always in evaluation mode, with
            everything before them; with all blocks, also the last norm. 0: the embedding, the
            positions and the class token. -1: nothing.
        lora: Arguments of ``layers.linear.add_lora``. Its updates are all of the backbone that is
            trained, as in peft; with ``frozen_stages`` of 0 or more, what follows the frozen blocks
            is trained, too. They are merged into the weights by ``optimize_for_inference``.
        static: Tubelets whose normalized pixels differ in the mean by at most this from the first
            of their run are computed once and count as many (``models.run_lengths``), in training
            and afterwards; 0.1 in RLT. It needs joint attention, and depends on the data, so that
            ``torch.compile(fullgraph=True)`` refuses it. None: all are computed.
        token_keep: Share of the tubelets that are computed in training, drawn anew in each step;
            afterwards all are (Han et al. 2022, Turbo training). They are any of a clip, or where
            frames are attended to apart or not pooled the same places in all frames.
            ``AllTokensHook`` ends it. A head that reads places, as of boxes, needs all.
    """

    clip_len: int = 8
    img_size: int | tuple[int, int] = 224
    stem: Mapping[str, Any] = field(default_factory=lambda: {"tubelet": (1, 16, 16)})
    encoders: Sequence[EncoderConfig | Mapping[str, Any]] = ({},)
    pool: str | None = None
    fc_norm: Choice | None = None
    init: str = "timm"
    init_from: str | Mapping[str, Any] | None = None
    frozen_stages: int = -1
    lora: Mapping[str, Any] | None = None
    static: float | None = None
    token_keep: float = 1.0

    @property
    def configs(self) -> list[EncoderConfig]:
        """The encoders, complete.

        Raises:
            KeyError: If an entry of ``encoders`` has an unknown key.
            ValueError: If there is none, or positions in time or ``rope`` have no effect.
        """
        if not self.encoders:
            raise ValueError("encoders must have at least one entry, got none")
        shared = {option.name: getattr(self, option.name) for option in fields(EncoderConfig)}
        configs = []
        for entry in self.encoders:
            options = entry if isinstance(entry, EncoderConfig) else {**shared, **entry}
            configs.append(read(EncoderConfig, options, "option of an encoder"))
        timed = [config for config in configs if name_of(config.positions) == "time"]
        if timed and all(config.single_frames for config in timed):
            raise ValueError(
                f"positions='time' has no effect with frames={timed[0].frames!r}, which encodes "
                "frames one by one; use 'none' or 'space'"
            )
        ropes = [config.rope for config in configs if config.rope is not None]
        turned = [[sublayer.rope for sublayer in config.sublayers] for config in configs]
        if not ropes and not all(map(all, turned)):
            raise ValueError("rope=False of a sub-layer has no effect without rope; leave it out")
        if ropes and not any(map(any, turned)):
            raise ValueError(
                f"rope={ropes[0]!r} has no effect with rope=False in all sub-layers; leave both out"
            )
        return configs


def check_patterns(config: EncoderConfig, grid: Size) -> None:
    """Raise a ValueError if a pattern of an encoder joins no tokens.

    ``grid`` is the size (T, H, W) of its input, 1 for an axis with one token at most.
    """
    grid = (1, *grid[1:]) if config.single_frames else grid
    for sublayer in config.sublayers:
        for pattern in sublayer.patterns:
            if PATTERNS.build(pattern).num_keys(grid) == 1:
                seen = "".join(axis for axis, size in zip("thw", grid, strict=True) if size > 1)
                raise ValueError(
                    f"with pattern {pattern!r} each token sees itself alone, because the encoder's "
                    f"tokens differ in {', '.join(seen)} only"
                )


def obstacles(encoders: Sequence[EncoderConfig], separate_frames: bool) -> Iterator[str]:
    """Yield reasons why encoders cannot run frame by frame, with alternatives.

    ``separate_frames`` is that of their ``TubeletEmbedding``.
    """
    if not separate_frames:
        yield "tubelets overlap in time; use a stride of as many frames, without padding"
    for number, config in enumerate(encoders):
        if config.frames == "average":
            yield f"encoders.{number}: frames='average' is a mean over time; use frames='pool'"
        if config.single_frames:  # no token sees another frame
            continue
        if config.cls is not None:
            yield f"encoders.{number}: the class token sees all frames; use cls=None"
        for sublayer in config.sublayers:
            for obstacle in _obstacles_of(sublayer):
                yield f"encoders.{number}, sub-layer {sublayer.name}: {obstacle}"


def _obstacles_of(sublayer: SubLayer) -> Iterator[str]:
    resuming = [name for name, kernel in KERNELS.items() if kernel.resume is not Kernel.resume]
    kernel = name_of(sublayer.kernel)
    for choice in sublayer.patterns:
        pattern = PATTERNS.build(choice)
        if not pattern.causal:
            use = "use causal_time, causal_joint or a pattern within frames"
            yield f"pattern {choice!r} sees later frames; {use}"
        if "causal" in pattern.needs and kernel not in resuming:
            use = f"use {' or '.join(resuming)}"
            yield f"kernel {kernel!r} depends on the clip's length; {use}"
    shifts = list(sublayer.shifts)
    if any(build_shift(shift).frames - {0} for shift in shifts):
        yield f"shifts {shifts} read other frames; use spatial shifts"
