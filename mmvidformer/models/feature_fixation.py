"""Linear video transformer with feature fixation (Lu et al. 2022).

===========  ====================================  ===============================================
attention    sub-layers of a block, in this order  source
===========  ====================================  ===============================================
time_space   time (spatial shift),                 the official code and its checkpoints
             space (temporal shift)
space_time   space (temporal shift),               the order of the paper's text
             time (spatial shift)
joint        joint (both shifts)                   paper, table 6, "Joint"
windowed     space (both shifts)                   "Windowed", XViT: only the shift mixes frames
===========  ====================================  ===============================================

Each shift belongs to the attention over the other axes, as in the official code, because its
neighbors are not tokens of that group. If there are both, the spatial shift comes first.

The official code deviates from the paper's text and agrees with its counts of parameters and
operations, so its layout is the default. Patches of 16 pixels have a stride of 14, so 224 pixels
give 17 x 17 tokens; there are no class token and no positions in space; MLPs have a depthwise
convolution; time comes before space. The variants of the paper's table 7 are arguments: S is
``clip_len=8``, H ``clip_len=32``, HR ``img_size=336``.
"""

from collections.abc import Callable, Mapping
from typing import Any

from mmvidformer.layers import SubLayer
from mmvidformer.lookup import look_up
from mmvidformer.models.compose import arch_sizes
from mmvidformer.models.video_transformer import VideoTransformer

# attention: the pattern of each sub-layer and its shifts
SCHEMES: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "time_space": (("time", ("spatial",)), ("space", ("temporal",))),
    "space_time": (("space", ("temporal",)), ("time", ("spatial",))),
    "joint": (("joint", ("spatial", "temporal")),),
    "windowed": (("space", ("spatial", "temporal")),),
}

ARCHS: dict[str, dict[str, Any]] = {"b": dict(embed_dims=512, depth=12, num_heads=8)}

# stem: stride, padding and norm for the side of a patch
STEMS: dict[str, Callable[[int], dict]] = {
    "overlapping": lambda side: dict(stride=side * 7 // 8, padding=side // 2, norm=True),
    "patches": lambda side: dict(stride=side, padding=0, norm=False),
}

# The released settings for Something-Something; those for Kinetics have a divisor of 8.
SSV2_SHIFTS: Mapping[str, str | Mapping] = {
    "temporal": {"type": "temporal", "divisor": 4},
    "spatial": {"type": "spatial", "distance": 1},
}


class FeatureFixationTransformer(VideoTransformer):
    """Video transformer with linear attention, gated queries and keys, and shifted keys and values.

    Maps normalized pixels (B, 3, T, H', W') to normalized tokens (B, T, H, W, D). The head pools
    them (``TokenMlpHead``), after its dropout.

    Layer norms have epsilon 1e-6 (1e-5 in the stem), and the GELU is exact. Linear layers and
    position tables are initialized from a truncated normal with standard deviation 0.02, the time
    embedding to zero. Gates and shifts work with every kernel (paper, table 9).

    Args:
        arch: ``'b'``, or a dictionary as for ``VideoTransformer``.
        attention: A name in ``SCHEMES``.
        img_size: Side of the crop in pixels, or (height, width).
        clip_len: Number of frames of a clip. For clips of another length or size, positions and
            Linformer's weights are resized.
        patch_size: Side of a patch in pixels.
        stem: ``'overlapping'`` (stride 7/8 and padding 1/2 of a patch, layer norm: 14 and 8 pixels
            for patches of 16), ``'patches'`` (no overlap, as the paper says), or a dictionary of
            ``stride`` and ``padding`` in pixels and ``norm``.
        kernel: A name in ``layers.kernels``, or a dictionary of ``type`` and options. ``'linear'``,
            ReLU with the offset of the official code, is the model's own.
        fixation: Gates: a scheme of ``layers.fixation``, a dictionary of ``scheme`` and
            ``combine``, or None for no gates.
        shifts: Shift for ``'temporal'`` and for ``'spatial'``: a type of ``layers.shift``, a
            dictionary of ``type`` and options, or None for no shift, as for a missing entry.
        shift_last: Whether to shift after the gates instead of before; worse in the paper.
        depthwise: Whether the MLPs have depthwise convolutions.
        positions: A name in ``compose.POSITIONS``; ``'time'`` in the official code.
        **options: Further arguments of ``VideoTransformer``: ``drop_rate``, ``drop_path_rate``,
            ``norm``, ``with_cp`` and ``init_from``. Weights that the image model lacks keep their
            values; attention over time starts from the attention over space.

    Raises:
        KeyError: If a name or a key of ``shifts`` is unknown.
        ValueError: As ``VideoTransformer``.
    """

    def __init__(
        self,
        arch: str | Mapping = "b",
        attention: str = "time_space",
        img_size: int | tuple[int, int] = 224,
        clip_len: int = 16,
        patch_size: int = 16,
        stem: str | Mapping = "overlapping",
        kernel: str | Mapping = "linear",
        fixation: str | Mapping | None = "qkv_shared",
        shifts: Mapping[str, str | Mapping | None] = SSV2_SHIFTS,
        shift_last: bool = False,
        depthwise: bool = True,
        positions: str = "time",
        **options: Any,
    ) -> None:
        rows = look_up(SCHEMES, attention, "feature fixation attention")
        sizes: Any = stem
        if isinstance(stem, str):
            sizes = look_up(STEMS, stem, "feature fixation stem")(patch_size)
        for key in shifts:
            look_up({"temporal", "spatial"}, key, "entry of shifts")
        super().__init__(
            arch_sizes(arch, ARCHS),
            [
                SubLayer(
                    pattern,
                    kernel=kernel,
                    fixation=fixation,
                    shifts=tuple(shift for kind in kinds if (shift := shifts.get(kind))),
                    shift_last=shift_last,
                )
                for pattern, kinds in rows
            ],
            clip_len,
            img_size,
            stem=dict(
                tubelet=(1, patch_size, patch_size),
                stride=(1, sizes["stride"], sizes["stride"]),
                padding=(0, sizes["padding"], sizes["padding"]),
                norm=sizes["norm"],
            ),
            positions=positions,
            depthwise=depthwise,
            pool=False,
            **options,
        )
