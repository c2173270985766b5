"""Linear video transformer with feature fixation (Lu et al. 2022).

===========  =================================  ==================================================
attention    sublayers of a block, in this order    source
===========  =================================  ==================================================
time_space   time (spatial shift),              the official code and its checkpoints
             space (temporal shift)
space_time   space (temporal shift),            the order of the paper's text
             time (spatial shift)
joint        joint (both shifts)                paper, table 6, "Joint"
windowed     space (both shifts)                "Windowed", XViT: frames meet in the shift alone
===========  =================================  ==================================================

Each shift is in the attention over the other axes, as in the official code: there the neighbours
that it brings in are not tokens of the group anyway. With both, the spatial one comes first.

The official code deviates from the paper's text and agrees with its counts of parameters and
operations; its layout is the default. A patch is 16 pixels wide and the next one 14 further, so
that 224 pixels give 17 x 17 tokens; there are no class token and no positions in space; MLPs have
a depthwise convolution; time comes before space. The variants of the paper's table 7 are arguments:
S is ``clip_len=8``, H ``clip_len=32``, HR ``img_size=336``.
"""

from collections.abc import Callable, Mapping

from torch import Tensor, nn

from mmvidformer.convert.image_vit import init_from_image
from mmvidformer.layers import (
    KERNELS,
    Encoder,
    PositionEmbedding,
    SubLayer,
    TubeletEmbedding,
    get_pattern,
    init_timm_vit,
)
from mmvidformer.layers.patterns import Grid
from mmvidformer.lookup import look_up
from mmvidformer.registry import MODELS

# attention: the pattern of each sublayer and the shifts that go with it
SCHEMES: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "time_space": (("time", ("spatial",)), ("space", ("temporal",))),
    "space_time": (("space", ("temporal",)), ("time", ("spatial",))),
    "joint": (("joint", ("spatial", "temporal")),),
    "windowed": (("space", ("spatial", "temporal")),),
}

ARCHS = {"b": dict(embed_dims=512, depth=12, num_heads=8)}

POSITIONS = {"none": (), "time": ("t",), "space_time": ("hw", "t")}

# stem: stride, padding and norm for a side of a patch
STEMS: dict[str, Callable[[int], dict]] = {
    "overlapping": lambda side: dict(stride=side * 7 // 8, padding=side // 2, norm=True),
    "patches": lambda side: dict(stride=side, padding=0, norm=False),
}

# Those of the released settings for Something-Something; Kinetics has a divisor of 8.
SSV2_SHIFTS: Mapping[str, str | Mapping | bool] = {
    "temporal": {"type": "temporal", "divisor": 4},
    "spatial": {"type": "spatial", "distance": 1},
}


@MODELS.register_module()
class FeatureFixationTransformer(nn.Module):
    """Video transformer of linear attention, with gated queries and keys and shifted keys, values.

    Layer norms have epsilon 1e-6 (1e-5 in the stem), the GELU is exact. Initialisation: linear
    layers and tables truncated N(0, 0.02), the time embedding 0. Any kernel can take the place of
    the linear one, and gates and shifts go with each (paper's table 9).

    Args:
        arch: ``'b'``, or a dictionary of ``embed_dims``, ``depth``, ``num_heads`` and optionally
            ``mlp_ratio`` (default 4).
        attention: A name of ``SCHEMES``.
        img_size: Side of the crop in pixels, or (height, width). Clips of other sizes are taken
            too: only tables of positions and Linformer's weights have a size, and are resized.
        clip_len: Frames of a clip; likewise.
        patch_size: Side of a patch in pixels.
        stem: ``'overlapping'`` (stride 7/8 of a patch, padding 1/2, layer norm: 14 and 8 pixels
            for patches of 16), ``'patches'`` (side by side, as the paper says), or a dictionary of
            ``stride`` and ``padding`` in pixels and ``norm``.
        kernel: A name of ``layers.kernels``, or a dictionary of ``type`` and options. ``'linear'``
            is the model's own: ReLU, with the offset of the official code.
        fixation: Gates: a scheme of ``layers.fixation``, a dictionary of ``scheme`` and
            ``combine``, or None for none.
        shifts: Shift for ``'temporal'`` and for ``'spatial'``: a type of ``layers.shift`` or a
            dictionary of ``type`` and options; where there is no entry, or None, no shift.
            ``'last'``: True to shift after the gates; the paper found that worse.
        depthwise: Depthwise convolutions in the MLPs.
        positions: ``'time'`` (the official code), ``'space_time'`` or ``'none'``.
        drop_path_rate: Stochastic depth of the last block.
        with_cp: Activation checkpointing of each block.
        init_from: Image model that ``init_weights`` starts from: a source, or a dictionary of
            the arguments of ``convert.image_vit.init_from_image``. What the image model lacks
            stays as it is; attention over time gets the weights of the one over space.

    Raises:
        KeyError: If ``arch``, ``attention``, ``stem``, ``positions``, the kernel, the fixation or
            a shift is unknown.
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
        shifts: Mapping[str, str | Mapping | bool | None] = SSV2_SHIFTS,
        depthwise: bool = True,
        positions: str = "time",
        drop_path_rate: float = 0.0,
        with_cp: bool = False,
        init_from: str | Mapping | None = None,
    ) -> None:
        super().__init__()
        sizes = look_up(ARCHS, arch, "feature fixation arch") if isinstance(arch, str) else arch
        rows = look_up(SCHEMES, attention, "feature fixation attention")
        tables = look_up(POSITIONS, positions, "feature fixation positions")
        if isinstance(stem, str):
            stem = look_up(STEMS, stem, "feature fixation stem")(patch_size)
        for key in shifts:
            look_up({"temporal", "spatial", "last"}, key, "entry of shifts")
        height, width = (img_size, img_size) if isinstance(img_size, int) else img_size
        dim = self.embed_dims = sizes["embed_dims"]
        self.init_from = init_from
        self.embed = TubeletEmbedding(
            dim,
            (1, patch_size, patch_size),
            stride=(1, stem["stride"], stem["stride"]),
            padding=(0, stem["padding"], stem["padding"]),
            norm=stem["norm"],
        )
        grid = self.embed.grid((clip_len, height, width))
        sublayers = [
            SubLayer(
                (pattern,),
                kernel=_for_view(kernel, pattern, grid),
                fixation=fixation,
                shifts=tuple(shifts[kind] for kind in kinds if shifts.get(kind)),
                shift_last=bool(shifts.get("last")),
            )
            for pattern, kinds in rows
        ]
        self.encoder = Encoder(
            dim,
            sizes["depth"],
            sizes["num_heads"],
            sublayers,
            PositionEmbedding(dim, grid, tables=tables),
            drop_path=drop_path_rate,
            with_cp=with_cp,
            block={"mlp_ratio": sizes.get("mlp_ratio", 4.0), "depthwise": depthwise},
        )
        self.apply(init_timm_vit)

    def init_weights(self) -> None:
        """Load the image model named by ``init_from``, if any; MMEngine calls it once."""
        if self.init_from is not None:
            options = self.init_from
            options = {"source": options} if isinstance(options, str) else dict(options)
            init_from_image(self, **{"temporal": "copy_with_norm", **options})

    def forward_features(self, clip: Tensor) -> tuple[Tensor, None]:
        """Encode a clip.

        Args:
            clip: Normalised pixels (B, 3, T', H', W').

        Returns:
            Normalised grid (B, T, H, W, D), and None, as there is no class token.
        """
        return self.encoder(self.embed(clip))

    def forward(self, clip: Tensor) -> Tensor:
        """Map normalised pixels (B, 3, T', H', W') to normalised tokens (B, T, H, W, D).

        The head pools them: the published one has a dropout before (``TokenMlpHead``).
        """
        return self.forward_features(clip)[0]


def _for_view(kernel: str | Mapping, pattern: str, grid: Grid) -> dict:
    """Kernel with the length of the pattern's groups, where it has weights along them."""
    options = {"type": kernel} if isinstance(kernel, str) else dict(kernel)
    known = KERNELS.get(options.get("type"))
    if getattr(known, "needs_length", False):
        options.setdefault("length", get_pattern(pattern).num_tokens(grid))
    return options
