"""ViViT (Arnab et al., ICCV 2021): four ways to factorize a video transformer.

=================================  ==========================================================
scheme (paper's section 3.3)       sub-layers of a block
=================================  ==========================================================
spacetime (model 1)                joint
factorized_encoder (model 2)       joint within a frame; then an encoder over the frames
factorized_self_attention (3)      space, then time
factorized_self_attention_ts (3)   time, then space (the official code's default)
factorized_dot_product (model 4)   one sub-layer: first half of the heads time, second half space
=================================  ==========================================================
"""

from collections.abc import Mapping

from torch import Tensor, nn

from mmvidformer.layers import (
    Attention,
    Encoder,
    PositionEmbedding,
    SubLayer,
    TubeletEmbedding,
    get_pattern,
    init_flax_vit,
)
from mmvidformer.layers.patterns import Grid
from mmvidformer.lookup import look_up
from mmvidformer.models.backbone import Arch, Scheme, VideoBackbone, height_and_width, pool
from mmvidformer.registry import MODELS

SCHEMES = {
    "spacetime": Scheme((SubLayer(("joint",)),)),
    "factorized_encoder": Scheme((SubLayer(("joint",)),), per_frame=True),
    "factorized_self_attention": Scheme((SubLayer(("space",)), SubLayer(("time",))), cls=False),
    "factorized_self_attention_ts": Scheme((SubLayer(("time",)), SubLayer(("space",))), cls=False),
    "factorized_dot_product": Scheme((SubLayer(("time", "space")),), cls=False),
}

ARCHS = {"b": Arch(768, 12, 12), "l": Arch(1024, 24, 16), "h": Arch(1280, 32, 16)}


@MODELS.register_module()
class ViViT(VideoBackbone):
    """Video vision transformer.

    Layer norms have epsilon 1e-6, and the GELU is flax's tanh approximation, as the published
    weights need. Stochastic depth follows scenic: one draw per clip and branch, no rescaling, and a
    ramp of ``l / (L - 1)`` (the paper writes ``l / L``). Unlike in scenic, model 3 has it too.

    Args:
        arch: ``'b'``, ``'l'`` or ``'h'`` (paper, section 4.1), or a dictionary of ``embed_dims``,
            ``depth``, ``num_heads`` and optionally ``mlp_ratio`` (default 4).
        scheme: A name in ``SCHEMES``.
        img_size: Side of the crop in pixels, or (height, width); sets the size of the position
            table. Clips of other sizes work too; their positions are resized.
        clip_len: Number of frames of a clip; as ``img_size``.
        tubelet: Size of a tubelet in frames, rows and columns. One frame is the embedding of
            uniform frame sampling (section 3.2).
        temporal_depth: Number of blocks over the frames in the factorized encoder; 0 averages the
            frames instead (the baseline in the last row of Table 2). Ignored by other schemes.
        pool: ``'cls'`` for the class token, or ``'mean'`` for global average pooling. Default: the
            class token if the scheme supports it.
        drop_rate: Dropout rate of positions, attention output and MLP.
        attn_drop_rate: Dropout rate of the attention weights.
        drop_path_rate: Stochastic-depth rate of the last block of each encoder.
        with_cp: Whether to use activation checkpointing for each block.
        init_from: Image model to start from (see ``VideoBackbone``).

    Raises:
        KeyError: If ``arch`` or ``scheme`` is unknown.
        ValueError: If the dictionary ``arch`` lacks a size or has an unknown key, or if the scheme
            does not support ``pool``.
    """

    temporal_init = "zero"

    def __init__(
        self,
        arch: str | Mapping = "b",
        scheme: str = "factorized_encoder",
        img_size: int | tuple[int, int] = 224,
        clip_len: int = 32,
        tubelet: Grid = (2, 16, 16),
        temporal_depth: int = 4,
        pool: str | None = None,
        drop_rate: float = 0.0,
        attn_drop_rate: float = 0.0,
        drop_path_rate: float = 0.0,
        with_cp: bool = False,
        init_from: str | Mapping | None = None,
    ) -> None:
        sizes = Arch.of(arch, ARCHS)
        super().__init__(sizes.embed_dims, init_from)
        row = look_up(SCHEMES, scheme, "ViViT scheme")
        pool = pool or ("cls" if row.cls else "mean")
        if pool not in ("cls", "mean") or (pool == "cls" and not row.cls):
            allowed = "'cls' or 'mean'" if row.cls else "'mean'"
            raise ValueError(f"pool of scheme {scheme!r} must be {allowed}, got {pool!r}")
        self.scheme = scheme
        self.per_frame = row.per_frame
        self.embed = TubeletEmbedding(sizes.embed_dims, tubelet)
        frames, height, width = self.embed.grid((clip_len, *height_and_width(img_size)))

        def encoder(depth: int, grid: Grid) -> Encoder:
            return Encoder(
                sizes.embed_dims,
                depth,
                sizes.num_heads,
                row.sublayers,
                PositionEmbedding(sizes.embed_dims, grid, cls=pool == "cls"),
                cls=pool == "cls",
                drop=drop_rate,
                drop_path=drop_path_rate,
                with_cp=with_cp,
                block={
                    "mlp_ratio": sizes.mlp_ratio,
                    "act": "gelu_tanh",
                    "attn_drop": attn_drop_rate,
                    "drop_path_rescale": False,
                },
            )

        self.encoder = encoder(sizes.depth, (1 if row.per_frame else frames, height, width))
        has_temporal = row.per_frame and temporal_depth > 0
        self.temporal_encoder = encoder(temporal_depth, (frames, 1, 1)) if has_temporal else None
        self.apply(init_flax_vit)
        # Section 3.4: model 3 starts as a per-frame network. If all weights of the temporal
        # attention were zero, only the output bias would ever get a gradient, so only the output
        # projection is zero.
        for attention in self.modules():
            if isinstance(attention, Attention) and attention.patterns == (get_pattern("time"),):
                nn.init.zeros_(attention.proj.weight)
                nn.init.zeros_(attention.proj.bias)

    def forward_features(self, clip: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Encode a clip without pooling.

        Args:
            clip: Normalized pixels (B, 3, T', H', W').

        Returns:
            Normalized grid (B, T, H, W, D) and class token (B, 1, D) or None. The grid of the
            factorized encoder is that over the frames, (B, T, 1, 1, D).
        """
        grid = self.embed(clip)
        if not self.per_frame:
            return self.encoder(grid)
        batch, frames = grid.shape[:2]
        frame_tokens = self.encoder(grid.flatten(0, 1)[:, None], clip_rows=frames)
        grid = pool(*frame_tokens).reshape(batch, frames, 1, 1, -1)
        return (grid, None) if self.temporal_encoder is None else self.temporal_encoder(grid)
