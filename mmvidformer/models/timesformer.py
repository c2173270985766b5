"""TimeSformer (Bertasius et al., ICML 2021): five schemes of space-time attention.

=====================  ============================================================
scheme (section 3.4)   sub-layers of a block; all but the last with a zero-initialized fc
=====================  ============================================================
space_only             joint within each frame; frames averaged before the head
joint_space_time       joint
divided_space_time     time (no class token), then space (class token averaged)
sparse_local_global    local window, then every second token of the clip
axial                  time (no class token), then width, then height
=====================  ============================================================

There is no public code of the last two. The counts of the paper's Table 1 determine the number of
attentions and of fcs (121.4M: two and one; 156.8M: three and two). The rest is our choice: the
local window is clipped at the border; in local and strided attention the class token's key is
visible to every token, and it attends to all tokens itself; in axial attention it is left out of
time, as in the divided scheme, and averaged over columns and rows.
"""

from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor, nn

from mmvidformer.layers import (
    AttentionSubLayer,
    Encoder,
    PositionEmbedding,
    SubLayer,
    TubeletEmbedding,
    init_timm_vit,
)
from mmvidformer.lookup import look_up
from mmvidformer.models.backbone import Arch, Scheme, VideoBackbone, height_and_width
from mmvidformer.registry import MODELS

TIME = SubLayer(("time",), cls="skip", fc=True)

SCHEMES = {
    "space_only": Scheme((SubLayer(("joint",)),), per_frame=True),
    "joint_space_time": Scheme((SubLayer(("joint",)),)),
    "divided_space_time": Scheme((TIME, SubLayer(("space",)))),
    "sparse_local_global": Scheme(
        (SubLayer(("local",), cls="global", fc=True), SubLayer(("strided",), cls="global"))
    ),
    "axial": Scheme((TIME, SubLayer(("width",), fc=True), SubLayer(("height",)))),
}

ARCHS = {"s": Arch(384, 12, 6), "b": Arch(768, 12, 12), "l": Arch(1024, 24, 16)}

POSITIONS = {"none": (), "space": ("hw",), "space_time": ("hw", "t")}


@MODELS.register_module()
class TimeSformer(VideoBackbone):
    """Space-time transformer on frame patches.

    Layer norms have epsilon 1e-6, and the GELU is exact. Stochastic depth is drawn for each
    attention group (a place over time, a frame, a clip) and rescaled, as in the official code.
    Linear layers and position tables are initialized from a truncated normal with standard
    deviation 0.02, the time embedding and the fcs to zero, so a network with divided attention that
    starts from an image model is that model on each frame.

    Args:
        arch: ``'s'``, ``'b'`` or ``'l'``, or a dictionary of ``embed_dims``, ``depth``,
            ``num_heads`` and optionally ``mlp_ratio`` (default 4).
        attention: A name in ``SCHEMES``.
        img_size: Side of the crop in pixels, or (height, width); sets the size of the position
            table. Clips of other sizes work too; their positions are resized.
        clip_len: Number of frames of a clip; as ``img_size``.
        patch_size: Side of a patch in pixels.
        order: Order of the sub-layers: ``'forward'`` as in the table, ``'reverse'`` (space before
            time in the divided scheme), or ``'parallel'`` (all read the block's input); compared in
            section 4.3. In the last two the class token takes part in the attention over time
            (eq. 11). Otherwise the attention over time in the last block could not reach the head,
            which reads the class token alone.
        positions: ``'none'``, ``'space'`` or ``'space_time'`` (Table 4). ``space_only`` never has a
            time embedding, as in the official code.
        cls_in_time: Whether the class token takes part in the attention over time (eq. 11) in the
            order ``'forward'`` too. It does not in the published weights.
        resize_rule: How positions are resized (``layers.resize``): ``'linear'``, ``'nearest'`` (the
            official forward pass) or ``'nearest_1d'`` (the official checkpoint loading).
        drop_path_rate: Stochastic-depth rate of the last block.
        with_cp: Whether to use activation checkpointing for each block.
        init_from: Image model to start from (see ``VideoBackbone``).

    Raises:
        KeyError: If ``arch``, ``attention``, ``order`` or ``positions`` is unknown.
        ValueError: If the dictionary ``arch`` lacks a size or has an unknown key.
    """

    def __init__(
        self,
        arch: str | Mapping = "b",
        attention: str = "divided_space_time",
        img_size: int | tuple[int, int] = 224,
        clip_len: int = 8,
        patch_size: int = 16,
        order: str = "forward",
        positions: str = "space_time",
        cls_in_time: bool = False,
        resize_rule: str = "linear",
        drop_path_rate: float = 0.1,
        with_cp: bool = False,
        init_from: str | Mapping | None = None,
    ) -> None:
        sizes = Arch.of(arch, ARCHS)
        super().__init__(sizes.embed_dims, init_from)
        scheme = look_up(SCHEMES, attention, "TimeSformer attention")
        tables = look_up(POSITIONS, positions, "TimeSformer positions")
        look_up({"forward", "reverse", "parallel"}, order, "TimeSformer order")
        sublayers = list(scheme.sublayers)
        if cls_in_time or order != "forward":
            with_cls = replace(TIME, cls="mean")
            sublayers = [with_cls if each is TIME else each for each in sublayers]
        if order == "reverse":
            sublayers.reverse()
        self.per_frame = scheme.per_frame
        self.embed = TubeletEmbedding(sizes.embed_dims, (1, patch_size, patch_size))
        self.encoder = Encoder(
            sizes.embed_dims,
            sizes.depth,
            sizes.num_heads,
            sublayers,
            PositionEmbedding(
                sizes.embed_dims,
                self.embed.grid((clip_len, *height_and_width(img_size))),
                tables=[name for name in tables if not (scheme.per_frame and name == "t")],
                cls=bool(tables),
                rule=resize_rule,
            ),
            cls=True,
            drop_path=drop_path_rate,
            with_cp=with_cp,
            block={
                "mlp_ratio": sizes.mlp_ratio,
                "drop_path_per_group": True,
                "parallel": order == "parallel",
            },
        )
        self.apply(init_timm_vit)
        for sublayer in self.modules():
            if isinstance(sublayer, AttentionSubLayer) and isinstance(sublayer.fc, nn.Linear):
                nn.init.zeros_(sublayer.fc.weight)

    def forward_features(self, clip: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Encode a clip without pooling.

        Args:
            clip: Normalized pixels (B, 3, T, H', W').

        Returns:
            Normalized grid (B, T, H, W, D), for ``space_only`` averaged to (B, 1, H, W, D), and
            class token (B, 1, D).
        """
        grid = self.embed(clip)
        if not self.per_frame:
            return self.encoder(grid)
        frames, norm = grid.shape[:2], self.encoder.norm
        out, cls = (
            None if x is None else norm(x.unflatten(0, frames).mean(1))
            for x in self.encoder.run_blocks(grid.flatten(0, 1)[:, None])
        )
        return out, cls
