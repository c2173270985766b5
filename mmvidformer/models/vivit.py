"""ViViT (Arnab et al., ICCV 2021): four ways to factorise a video transformer.

=================================  ==========================================================
scheme (paper's section 3.3)       sublayers of a block
=================================  ==========================================================
spacetime (model 1)                joint
factorized_encoder (model 2)       joint within a frame; then an encoder over the frames
factorized_self_attention (3)      space, then time
factorized_self_attention_ts (3)   time, then space (the official code's default)
factorized_dot_product (model 4)   one sublayer: first half of the heads time, second half space
=================================  ==========================================================
"""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from mmvidformer.convert.image_vit import init_from_image
from mmvidformer.layers import Encoder, PositionEmbedding, SubLayer, TubeletEmbedding, init_flax_vit
from mmvidformer.lookup import look_up
from mmvidformer.registry import MODELS


@dataclass(frozen=True)
class Scheme:
    """A row of the table: the sub-layers, whether frames are encoded apart, class-token support."""

    sublayers: tuple[SubLayer, ...]
    per_frame: bool = False
    cls: bool = True


SCHEMES = {
    "spacetime": Scheme((SubLayer(("joint",)),)),
    "factorized_encoder": Scheme((SubLayer(("joint",)),), per_frame=True),
    "factorized_self_attention": Scheme((SubLayer(("space",)), SubLayer(("time",))), cls=False),
    "factorized_self_attention_ts": Scheme((SubLayer(("time",)), SubLayer(("space",))), cls=False),
    "factorized_dot_product": Scheme((SubLayer(("time", "space")),), cls=False),
}

ARCHS = {
    "b": dict(embed_dims=768, depth=12, num_heads=12),
    "l": dict(embed_dims=1024, depth=24, num_heads=16),
    "h": dict(embed_dims=1280, depth=32, num_heads=16),
}


@MODELS.register_module()
class ViViT(nn.Module):
    """Video vision transformer.

    Layer norms have epsilon 1e-6 and the GELU is flax's tanh form, as the published weights
    need. Stochastic depth follows scenic: a draw for each clip and branch, no rescaling, a ramp
    of ``l / (L - 1)`` (the paper writes ``l / L``); unlike scenic's, model 3 has it too.

    Args:
        arch: ``'b'``, ``'l'`` or ``'h'`` (paper section 4.1), or a dictionary of ``embed_dims``,
            ``depth``, ``num_heads`` and optionally ``mlp_ratio`` (default 4).
        scheme: A name of ``SCHEMES``.
        img_size: Side of the crop in pixels, or (height, width); sizes the position table. Clips
            of other sizes are taken too, with interpolated positions.
        clip_len: Frames of a clip; likewise.
        tubelet: Frames, rows, columns of a tubelet. One frame gives the embedding of uniform
            frame sampling (section 3.2).
        temporal_depth: Blocks over the frames of the factorised encoder; 0 averages the frames
            instead (the baseline of Table 2's last row). Other schemes have none.
        pool: ``'cls'`` or ``'mean'`` (global average pooling). Default: the class token where
            the scheme allows one.
        drop_rate: Dropout on positions, attention output and MLP.
        attn_drop_rate: Dropout on attention weights.
        drop_path_rate: Stochastic depth of the last block of each encoder.
        with_cp: Activation checkpointing of each block.
        init_from: Image model that ``init_weights`` starts from: a source, or a dictionary of
            the arguments of ``convert.image_vit.init_from_image``.

    Raises:
        KeyError: If ``arch`` or ``scheme`` is unknown.
        ValueError: If the scheme has no class token but ``pool='cls'``.
    """

    def __init__(
        self,
        arch: str | Mapping = "b",
        scheme: str = "factorized_encoder",
        img_size: int | tuple[int, int] = 224,
        clip_len: int = 32,
        tubelet: tuple[int, int, int] = (2, 16, 16),
        temporal_depth: int = 4,
        pool: str | None = None,
        drop_rate: float = 0.0,
        attn_drop_rate: float = 0.0,
        drop_path_rate: float = 0.0,
        with_cp: bool = False,
        init_from: str | Mapping | None = None,
    ) -> None:
        super().__init__()
        sizes = look_up(ARCHS, arch, "ViViT arch") if isinstance(arch, str) else dict(arch)
        row = look_up(SCHEMES, scheme, "ViViT scheme")
        pool = pool or ("cls" if row.cls else "mean")
        if pool not in ("cls", "mean") or (pool == "cls" and not row.cls):
            allowed = "'cls' or 'mean'" if row.cls else "'mean'"
            raise ValueError(f"pool of scheme {scheme!r} must be {allowed}, got {pool!r}")
        height, width = (img_size, img_size) if isinstance(img_size, int) else img_size
        size = tuple(n // p for n, p in zip((clip_len, height, width), tubelet, strict=True))
        self.embed_dims = sizes["embed_dims"]
        self.scheme = scheme
        self.init_from = init_from

        def encoder(depth: int, grid: tuple[int, int, int]) -> Encoder:
            return Encoder(
                self.embed_dims,
                depth,
                sizes["num_heads"],
                row.sublayers,
                PositionEmbedding(self.embed_dims, grid, cls=pool == "cls"),
                cls=pool == "cls",
                drop=drop_rate,
                drop_path=drop_path_rate,
                with_cp=with_cp,
                block=dict(
                    mlp_ratio=sizes.get("mlp_ratio", 4.0),
                    act="gelu_tanh",
                    attn_drop=attn_drop_rate,
                    drop_path_rescale=False,
                ),
            )

        self.per_frame = row.per_frame
        self.embed = TubeletEmbedding(self.embed_dims, tubelet)
        frame = (1, *size[1:]) if row.per_frame else size
        self.encoder = encoder(sizes["depth"], frame)
        has_temporal = row.per_frame and temporal_depth > 0
        self.temporal_encoder = encoder(temporal_depth, (size[0], 1, 1)) if has_temporal else None
        self.apply(init_flax_vit)
        self._silence_temporal_attention()

    def _silence_temporal_attention(self) -> None:
        # Section 3.4: model 3 starts as a per-frame network. With every weight of the temporal
        # attention at zero nothing but the output bias would ever get a gradient, so only the
        # output projection is.
        for block in self.encoder.blocks:
            if "time" in block.sublayers:
                nn.init.zeros_(block.sublayers["time"].attn.proj.weight)
                nn.init.zeros_(block.sublayers["time"].attn.proj.bias)

    def init_weights(self) -> None:
        """Load the image model named by ``init_from``, if any; MMEngine calls it once."""
        if self.init_from is None:
            return
        options = self.init_from
        options = dict(source=options) if isinstance(options, str) else dict(options)
        init_from_image(self, **options)

    def forward_features(self, clip: Tensor) -> tuple[Tensor, Tensor | None]:
        """Encode a clip without pooling it.

        Args:
            clip: Normalised pixels (B, 3, T', H', W').

        Returns:
            Normalised grid (B, T, H, W, D) and class token (B, 1, D) or None. For the factorised
            encoder the grid is the one over frames, (B, T, 1, 1, D).
        """
        grid = self.embed(clip)
        if not self.per_frame:
            return self.encoder(grid)
        batch, frames = grid.shape[:2]
        frame_tokens = self.encoder(grid.flatten(0, 1)[:, None], clip_rows=frames)
        grid = _pool(*frame_tokens).reshape(batch, frames, 1, 1, -1)
        return (grid, None) if self.temporal_encoder is None else self.temporal_encoder(grid)

    def forward(self, clip: Tensor) -> Tensor:
        """Map normalised pixels (B, 3, T', H', W') to features (B, D)."""
        return _pool(*self.forward_features(clip))


def _pool(grid: Tensor, cls: Tensor | None) -> Tensor:
    return grid.mean(dim=(1, 2, 3)) if cls is None else cls[:, 0]
