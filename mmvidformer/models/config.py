"""What a video transformer consists of; configs give it as a dictionary."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from mmvidformer.errors import UserError
from mmvidformer.layers import EncoderConfig
from mmvidformer.layers.config import Choice, name_of, read


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
        stem: How pixels become tokens (``layers.STEMS``): the name as ``type`` and its options.
            Default of the name: ``'tubelets'``, ``layers.TubeletEmbedding``, with ``tubelet``
            (required), ``in_channels``, ``stride``, ``padding``, ``norm``, ``images``, ``convs``.
        encoders: An ``EncoderConfig`` for each encoder, or a dictionary of what differs from the
            shared options. Each reads the grid that the previous one returns, through a linear
            layer if the width changes, but not its class token.
        pool: Output: ``'cls'``, the class token of the last encoder (the mean of those of all
            frames if its ``frames`` is ``'pool'``), ``'mean'``, the mean of its other tokens,
            ``'none'``, those tokens themselves, or ``'all'``, all tokens in a row, those of no
            place first. Default: ``'cls'`` with a class token.
        out_layers: Numbers of blocks, from 0 over all encoders, whose tokens follow each other in
            the width of the output, each normalized; it needs ``pool='none'``. Default: the last.
        fc_norm: Norm of the output, after ``pool``, in place of the last encoder's (VideoMAE); as
            ``norm``; ``'none'``: there is neither. None: the tokens are normalized before they are
            pooled.
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
            of their run are computed once and count as many (``fast.run_lengths``), in training
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
    out_layers: Sequence[int] = ()
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
            UserError: If there is none, or positions in time or ``rope`` have no effect.
        """
        if not self.encoders:
            raise UserError("encoders must have at least one entry, got none")
        shared = {option.name: getattr(self, option.name) for option in fields(EncoderConfig)}
        configs = []
        for entry in self.encoders:
            options = entry if isinstance(entry, EncoderConfig) else {**shared, **entry}
            configs.append(read(EncoderConfig, options, "option of an encoder"))
        timed = [config for config in configs if name_of(config.positions) == "time"]
        if timed and all(config.single_frames for config in timed):
            raise UserError(
                f"positions='time' has no effect with frames={timed[0].frames!r}, which encodes "
                "frames one by one; use 'none' or 'space'"
            )
        ropes = [config.rope for config in configs if config.rope is not None]
        turned = [[sublayer.rope for sublayer in config.sublayers] for config in configs]
        if not ropes and not all(map(all, turned)):
            raise UserError("rope=False of a sub-layer has no effect without rope; leave it out")
        if ropes and not any(map(any, turned)):
            raise UserError(
                f"rope={ropes[0]!r} has no effect with rope=False in all sub-layers; leave both out"
            )
        return configs
