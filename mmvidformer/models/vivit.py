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
from typing import Any

from mmvidformer.layers import SubLayer
from mmvidformer.layers.patterns import Grid
from mmvidformer.lookup import look_up
from mmvidformer.models.video_transformer import VideoTransformer

SPACE = SubLayer("space")
# Section 3.4: model 3 starts as a network of single frames. If all weights of the attention over
# time were zero, only the output bias would ever get a gradient, so only the output projection is.
TIME = SubLayer("time", zero_init=True)

SCHEMES: dict[str, tuple[SubLayer, ...]] = {
    "spacetime": (SubLayer("joint"),),
    "factorized_encoder": (SubLayer("joint"),),
    "factorized_self_attention": (SPACE, TIME),
    "factorized_self_attention_ts": (TIME, SPACE),
    "factorized_dot_product": (SubLayer(("time", "space")),),
}


class ViViT(VideoTransformer):
    """Video vision transformer.

    Layer norms have epsilon 1e-6, and the GELU is flax's tanh approximation, as the published
    weights need. Stochastic depth follows scenic: one draw per clip and branch, no rescaling, and a
    ramp of ``l / (L - 1)`` (the paper writes ``l / L``). Unlike in scenic, model 3 has it too.

    Args:
        arch: See ``VideoTransformer``; the paper has ``'b'``, ``'l'`` and ``'h'`` (section 4.1).
        scheme: A name in ``SCHEMES``.
        img_size: Side of the crop in pixels, or (height, width).
        clip_len: Number of frames of a clip. For clips of another length or size positions are
            resized.
        tubelet: Size of a tubelet in frames, rows and columns. One frame is the embedding of
            uniform frame sampling (section 3.2).
        temporal_depth: Number of blocks over the frames in the factorized encoder; 0 averages the
            frames instead (the baseline in the last row of Table 2). Ignored by other schemes.
        pool: ``'cls'`` for the class token, or ``'mean'`` for global average pooling. Default: the
            class token if the scheme supports it.
        **options: Further arguments of ``VideoTransformer``: ``drop_rate``, ``attn_drop_rate``,
            ``drop_path_rate``, ``norm``, ``with_cp`` and ``init_from``.

    Raises:
        KeyError: If a name is unknown.
        ValueError: If the scheme does not support ``pool``, or as ``VideoTransformer``.
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
        **options: Any,
    ) -> None:
        block = look_up(SCHEMES, scheme, "ViViT scheme")
        has_cls = block == (SubLayer("joint"),)
        pool = pool or ("cls" if has_cls else "mean")
        if pool not in ("cls", "mean") or (pool == "cls" and not has_cls):
            allowed = "'cls' or 'mean'" if has_cls else "'mean'"
            raise ValueError(f"pool of scheme {scheme!r} must be {allowed}, got {pool!r}")
        encoders: list[dict] = [{}]
        if scheme == "factorized_encoder":
            encoders = [dict(frames="pool"), dict(depth=temporal_depth)]
        super().__init__(
            arch,
            block,
            clip_len,
            img_size,
            stem=dict(tubelet=tubelet),
            encoders=[row for row in encoders if row.get("depth") != 0],
            cls="mean" if pool == "cls" else None,
            act="gelu_tanh",
            drop_path="unscaled",
            init="flax",
            **options,
        )
        self.scheme = scheme
