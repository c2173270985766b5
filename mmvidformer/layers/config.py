"""What an encoder and an attention sub-layer consist of; configs give them as dictionaries."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any, Literal, TypeVar

from mmvidformer.errors import UserError
from mmvidformer.lookup import look_up

ClsPolicy = Literal["mean", "global", "sink", "skip"]
WithCp = Literal[False, "activations", True]
Choice = str | Mapping[str, Any]  # a name, or a dictionary of the name as ``type`` and options
T = TypeVar("T")

ARCHS: dict[str, dict[str, Any]] = {
    "s": dict(embed_dims=384, depth=12, num_heads=6),
    "b": dict(embed_dims=768, depth=12, num_heads=12),
    "l": dict(embed_dims=1024, depth=24, num_heads=16),
    "h": dict(embed_dims=1280, depth=32, num_heads=16),
}


@dataclass(frozen=True)
class SubLayer:
    """An attention sub-layer of a block.

    Args:
        pattern: Attention pattern (``layers.patterns``), or several that share the heads equally.
        cls: Role of the class token, if there is one (``Attention``): ``'mean'``, ``'global'``,
            ``'sink'`` or ``'skip'``. Default: that of the encoder.
        kernel: Attention kernel (``layers.kernels``).
        fc: Whether to add a linear layer on the update, after stochastic depth, that is initialized
            to zero (``temporal_fc`` of TimeSformer). ``'gated'``: one whose output is multiplied by
            the tanh of a learned number, which is 0 at first (StreamFormer).
        fixation: Gates on queries and keys (``layers.fixation``), or None for no gates.
        shifts: Shifts of keys and values along the grid (``layers.shift``), in their order.
        shift_last: Whether to shift after the feature map and the gates instead of before.
        zero_init: Whether the output projection is initialized to zero, so that the sub-layer
            changes nothing at first (ViViT, section 3.4).
        rope: Whether the encoder's rotary positions, if any, apply here.
        norm: Norm before the sub-layer, as in ``EncoderConfig``. Default: that of the encoder.

    Raises:
        UserError: If ``shift_last`` has no effect.
    """

    pattern: Choice | Sequence[Choice] = "joint"
    cls: ClsPolicy | None = None
    kernel: Choice = "softmax"
    fc: bool | Literal["gated"] = False
    fixation: Choice | None = None
    shifts: Sequence[Choice] = ()
    shift_last: bool = False
    zero_init: bool = False
    rope: bool = True
    norm: Choice | None = None

    def __post_init__(self) -> None:
        if self.shift_last and not self.shifts:
            raise UserError("shift_last=True has no effect without shifts; leave it out")

    @property
    def patterns(self) -> tuple[Choice, ...]:
        """The patterns as a tuple."""
        return (self.pattern,) if isinstance(self.pattern, str | Mapping) else tuple(self.pattern)

    @property
    def name(self) -> str:
        """Name of the sub-layer within its block, such as ``'space'`` or ``'time_space'``."""
        return "_".join(str(name_of(pattern)) for pattern in self.patterns)


Block = Sequence[SubLayer | Mapping[str, Any]]


@dataclass(frozen=True)
class EncoderConfig:
    """A transformer encoder.

    Args:
        arch: ``'s'``, ``'b'``, ``'l'`` or ``'h'``, or a dictionary of ``embed_dims``, ``depth``,
            ``num_heads`` and optionally ``mlp_ratio`` (default 4).
        embed_dims: Token width D. Default of this and of the next three: that of ``arch``.
        depth: Number of blocks.
        num_heads: Number of attention heads.
        mlp_ratio: Hidden width of the MLPs over D.
        block: Attention sub-layers of a block (``SubLayer``). A list of such lists: block i has the
            sub-layers of entry i, again from the first after the last.
        positions: ``'none'``, ``'space'``, ``'time'``, ``'space_time'`` or ``'joint'``, or a
            dictionary of the name as ``type``, ``fixed`` (sines and cosines instead of learned
            tables; ``'flat'``: of the number of the token in the clip, as in VideoMAE),
            ``rule`` (by which tables are resized, ``layers.resize``) and ``hold_last`` (whether
            streams have the last row of a table after its end). Single frames (``frames``)
            have no place in time: ``'space_time'`` is ``'space'`` for them.
        rope: Rotary positions of queries and keys (``layers.rotary``), beside ``positions``:
            ``'axial'``, ``'vjepa2'``, ``'vjepa2_1'``, ``'dinov3'`` or ``'eva02'``, or a dictionary
            of the name as ``type`` and options. None: none.
        frames: ``'together'``: the tokens of a clip are encoded together. ``'token'``: likewise,
            with a learned token in each frame as one more place, without a position; returns that
            of each frame (TRecViT). ``'pool'``: each frame on its own, with a class token of its
            own; returns one token per frame, the class token or the mean (ViViT's model 2).
            ``'average'``: likewise, but returns the mean of the frames (TimeSformer's space-only
            scheme).
        cls: Role of the class token in sub-layers that do not say: ``'mean'``, ``'global'``,
            ``'sink'`` or ``'skip'``. None: no class token.
        registers: Number of further tokens that join attention as the class token does and are
            not read (Darcet et al. 2024). They need a class token.
        parallel: Whether the sub-layers of a block read the block's input, and their updates are
            summed.
        mlp: MLP (``layers.mlp``). Options of ``'mlp'`` are ``act``, ``'gelu'``, ``'gelu_tanh'`` or
            ``'quick_gelu'``, and ``depthwise``, whether it has a depthwise convolution, which no
            class token passes. ``'swiglu'`` is gated; its option is ``norm``, whether there is a
            layer norm after the gate.
        norm: Norm of the blocks and of the output: ``'layer'``, ``'rms'`` or ``'none'``, or a
            dictionary of the name as ``type`` and ``eps``, 1e-6 by default.
        layer_norms: Numbers of blocks, from 0, whose tokens have a norm of their own when others
            read them (V-JEPA 2.1). Those of other blocks share that of the output. Models freeze
            them, since the loss of clips does not reach them.
        norm_pre: Whether there is such a norm before the blocks, too (CLIP).
        qkv_bias: Whether queries, keys and values have a bias. ``'qv'``: the keys have none
            (BEiT, VideoMAE).
        qk_norm: Norm of the queries and the keys, as ``norm``: of each head or, with the option
            ``whole=True``, of all heads as one vector (InternVideo). None: none.
        layer_scale: Initial value of learned factors of the channels of each update (CaiT). None:
            no factors.
        adapter: Width over D of the bottleneck of an adapter after each block, with a convolution
            over time (``layers.adapter``); 0.25 in AdaTAD. Adapters are all of a backbone that is
            trained, as with ``lora``. None: no adapter.
        drop_rate: Dropout rate of positions, attention output and MLP.
        attn_drop_rate: Dropout rate of the attention weights.
        drop_path_rate: Stochastic-depth rate of the last block; it grows linearly from 0.
        drop_path_rule: What a draw of stochastic depth is for, if there is one: ``'clip'``,
            ``'group'`` (each attention group, as in TimeSformer), or ``'unscaled'`` (a clip, and
            kept updates are not rescaled, as in scenic).
        with_cp: What is recomputed in the backward pass instead of being kept. False: nothing.
            ``'activations'``: those of the MLPs, and attention of linear cost; takes little time
            if tokens are at least 384 wide. True: each block.
    """

    arch: str | Mapping[str, Any] = "b"
    embed_dims: int | None = None
    depth: int | None = None
    num_heads: int | None = None
    mlp_ratio: float | None = None
    block: Block | Sequence[Block] = ({},)
    positions: Choice = "joint"
    rope: Choice | None = None
    frames: str = "together"
    cls: ClsPolicy | None = None
    registers: int = 0
    parallel: bool = False
    mlp: Choice = "mlp"
    norm: Choice = "layer"
    layer_norms: Sequence[int] = ()
    norm_pre: bool = False
    qkv_bias: bool | Literal["qv"] = True
    qk_norm: Choice | None = None
    layer_scale: float | None = None
    adapter: float | None = None
    drop_rate: float = 0.0
    attn_drop_rate: float = 0.0
    drop_path_rate: float = 0.0
    drop_path_rule: str = "clip"
    with_cp: WithCp = False

    def __post_init__(self) -> None:
        if self.with_cp not in (False, "activations", True):
            raise UserError(f"with_cp must be False, 'activations' or True, got {self.with_cp!r}")

    @property
    def sizes(self) -> dict[str, Any]:
        """``embed_dims``, ``depth``, ``num_heads`` and ``mlp_ratio``.

        Raises:
            KeyError: If the name of the architecture is unknown.
            UserError: If it lacks a size or has an unknown key, or a size is not positive.
        """
        arch = look_up(ARCHS, self.arch, "arch") if isinstance(self.arch, str) else self.arch
        sizes = {**ARCHS["b"], "mlp_ratio": 4.0}
        is_arch = isinstance(arch, Mapping)  # not what a command line makes of a dictionary
        if not (is_arch and ARCHS["b"].keys() <= arch.keys() <= sizes.keys()):
            raise UserError(
                f"arch must have embed_dims, depth, num_heads and optionally mlp_ratio, got {arch}"
            )
        for name in sizes:
            value = getattr(self, name)
            sizes[name] = arch.get(name, sizes[name]) if value is None else value
            if sizes[name] <= 0:
                raise UserError(f"{name} must be positive, got {sizes[name]}")
        return sizes

    @property
    def single_frames(self) -> bool:
        """Whether each frame is encoded on its own."""
        return self.frames in ("pool", "average")

    @property
    def blocks(self) -> list[list[SubLayer]]:
        """Sub-layers of the blocks, which take them in turn; each says the class token's role.

        Raises:
            KeyError: If a sub-layer has an unknown key.
            UserError: If it names a role, but there is no class token, or ``parallel`` has no
                effect.
        """
        rows: Any = self.block
        if all(isinstance(entry, SubLayer | Mapping) for entry in rows):
            rows = [rows]
        blocks = []
        for row in rows:
            blocks.append([read(SubLayer, entry, "option of a sub-layer") for entry in row])
        if self.parallel and all(len(block) == 1 for block in blocks):
            raise UserError("parallel=True has no effect on blocks of one sub-layer; leave it out")
        return [list(map(self._with_role, block)) for block in blocks]

    @property
    def sublayers(self) -> list[SubLayer]:
        """Sub-layers of all ``blocks``."""
        return list(chain.from_iterable(self.blocks))

    def _with_role(self, sublayer: SubLayer) -> SubLayer:
        if self.cls is None and sublayer.cls not in (None, "skip"):
            raise UserError(
                f"cls={sublayer.cls!r} of sub-layer {sublayer.name} has no effect without a class "
                "token; leave it out, or set cls of the encoder"
            )
        return replace(sublayer, cls=sublayer.cls or self.cls or "skip")


def name_of(choice: Choice) -> str | None:
    """Return the name in a choice."""
    return choice if isinstance(choice, str) else choice.get("type")


def read(dataclass_type: type[T], options: T | Mapping[str, Any], what: str) -> T:
    """Make a dataclass from a dictionary of its fields; an instance is returned as it is.

    An unknown key raises a KeyError, as from ``check_names``.
    """
    if isinstance(options, dataclass_type):
        return options
    check_names(dataclass_type, options, what)  # type: ignore[arg-type]
    return dataclass_type(**options)  # type: ignore[arg-type]


def check_names(
    dataclass_type: type, names: Iterable[str], what: str, others: Iterable[str] = ()
) -> None:
    """Raise a KeyError if a name is that of no field of a dataclass.

    The message lists the fields and ``others``, or the nearest of them, and ``what`` a field is.
    """
    known = {field.name for field in fields(dataclass_type)}
    for name in names:
        if name not in known:
            look_up(known | {*others}, name, what)
