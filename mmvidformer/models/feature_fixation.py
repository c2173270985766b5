"""Linear video transformer with feature fixation (Lu et al. 2022).

===========  ====================================  ===============================================
scheme       sub-layers of a block, in this order  source
===========  ====================================  ===============================================
time_space   time (spatial shift),                 the official code and its checkpoints
             space (temporal shift)
space_time   space (both shifts),                  the paper's text, sections 4.3 and 5.3
             time (both shifts)
joint        joint (both shifts)                   paper, table 6, "Joint"
windowed     space (both shifts)                   "Windowed", XViT: only the shift mixes frames
===========  ====================================  ===============================================

In the official code each shift belongs to the attention over the other axes, because its neighbors
are not tokens of that group. The text shifts keys and values of each attention in time and then in
space (section 4.3; section 1 has the other order). In ``joint`` and ``windowed`` the spatial shift
comes first, as in the official class of joint attention.

The official code deviates from the paper's text and agrees with its counts of parameters and
operations, so its layout is the default. The variants of the paper's table 7 are arguments: S is
``clip_len=8``, H ``clip_len=32``, HR ``img_size=336``.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mmvidformer.layers import SubLayer
from mmvidformer.lookup import look_up
from mmvidformer.models.compose import complete
from mmvidformer.models.video_transformer import VideoTransformer

# The shifts of a sub-layer are the kinds that it has, if they are on.
SCHEMES: dict[str, dict[str, Any]] = {
    "time_space": dict(
        block=(SubLayer("time", shifts=["spatial"]), SubLayer("space", shifts=["temporal"]))
    ),
    "space_time": dict(
        block=(
            SubLayer("space", shifts=["temporal", "spatial"]),
            SubLayer("time", shifts=["temporal", "spatial"]),
        )
    ),
    "joint": dict(block=(SubLayer("joint", shifts=["spatial", "temporal"]),)),
    "windowed": dict(block=(SubLayer("space", shifts=["spatial", "temporal"]),)),
}

ARCH = dict(embed_dims=512, depth=12, num_heads=8)
STEM = dict(tubelet=(1, 16, 16), stride=(1, 14, 14), padding=(0, 8, 8), norm=True)

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
        arch: See ``VideoTransformer``. Default: 12 blocks of width 512 with 8 heads, as in the
            official code.
        scheme: A name in ``SCHEMES``.
        img_size: Side of the crop in pixels, or (height, width).
        clip_len: Number of frames of a clip.
        kernel: A name in ``layers.kernels``, or a dictionary of ``type`` and options.
        fixation: Gates: a name in ``layers.fixation``, a dictionary of the name as ``type`` and
            options, or None for no gates.
        shifts: Shift for ``'temporal'`` and for ``'spatial'``: a type of ``layers.shift``, a
            dictionary of ``type`` and options, or None for no shift, as for a missing entry.
        shift_last: Whether to shift after the gates instead of before; worse in the paper.
        **options: Any other argument of ``VideoTransformer``. By default patches of 16 pixels have
            a stride of 14 (``stem=dict(tubelet=(1, 16, 16))`` is the paper's text), positions are
            those in time, MLPs have depthwise convolutions, and the output is not pooled.

    Raises:
        KeyError: If a name or a key of ``shifts`` is unknown.
        UserError: If an argument has no effect, or as ``VideoTransformer``.
    """

    temporal_init = "copy_with_norm"

    def __init__(
        self,
        arch: str | Mapping = ARCH,
        scheme: str = "time_space",
        img_size: int | tuple[int, int] = 224,
        clip_len: int = 16,
        kernel: str | Mapping = "linear",
        fixation: str | Mapping | None = "qkv_shared",
        shifts: Mapping[str, str | Mapping | None] = SSV2_SHIFTS,
        shift_last: bool = False,
        **options: Any,
    ) -> None:
        arguments: dict[str, Any] = dict(
            scheme=scheme, kernel=kernel, fixation=fixation, shifts=shifts, shift_last=shift_last
        )
        options = complete(FeatureFixationTransformer, arch, options, arguments)
        super().__init__(clip_len=clip_len, img_size=img_size, **options)

    @staticmethod
    def preset(
        options: Mapping, scheme: str, shifts: Mapping[str, Any], shift_last: bool, **others: Any
    ) -> dict[str, Any]:
        """Return the arguments of ``VideoTransformer`` that make the model of the paper."""
        for axes in shifts:
            look_up({"temporal", "spatial"}, axes, "entry of shifts")
        block = []
        for sublayer in look_up(SCHEMES, scheme, "feature fixation scheme")["block"]:
            used = [shifts[axes] for axes in sublayer.shifts if shifts.get(axes)]
            last = shift_last and bool(used)
            block.append(replace(sublayer, shifts=used, shift_last=last, **others))
        return {
            "stem": STEM,
            "positions": "time",
            "mlp": {"type": "mlp", "depthwise": True},
            "pool": "none",
            "block": block,
        }
