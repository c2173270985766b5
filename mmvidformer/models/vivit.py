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
from mmvidformer.lookup import look_up
from mmvidformer.models.compose import complete
from mmvidformer.models.video_transformer import VideoTransformer

JOINT, SPACE = SubLayer("joint"), SubLayer("space")
# Section 3.4: model 3 starts as a network of single frames. If all weights of the attention over
# time were zero, only the output bias would ever get a gradient, so only the output projection is.
TIME = SubLayer("time", zero_init=True)

SCHEMES: dict[str, dict[str, Any]] = {
    "spacetime": dict(block=(JOINT,), cls="mean"),
    "factorized_encoder": dict(block=(JOINT,), cls="mean", encoders=(dict(frames="pool"), {})),
    "factorized_self_attention": dict(block=(SPACE, TIME)),
    "factorized_self_attention_ts": dict(block=(TIME, SPACE)),
    "factorized_dot_product": dict(block=(SubLayer(("time", "space")),)),
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
        clip_len: Number of frames of a clip.
        temporal_depth: Number of blocks over the frames in the factorized encoder; 0 averages the
            frames instead (the baseline in the last row of Table 2).
        **options: Any other argument of ``VideoTransformer``. By default tubelets are 2 x 16 x 16
            (1 x 16 x 16 is uniform frame sampling, section 3.2), and models 1 and 2 have a class
            token, unless ``pool`` is ``'mean'``.

    Raises:
        KeyError: If a name is unknown.
        UserError: If an argument has no effect, or as ``VideoTransformer``.
    """

    cls_init = "zero"
    position_init = "linear"  # scenic's, scipy.ndimage.zoom of order 1

    def __init__(
        self,
        arch: str | Mapping = "b",
        scheme: str = "factorized_encoder",
        img_size: int | tuple[int, int] = 224,
        clip_len: int = 32,
        temporal_depth: int = 4,
        **options: Any,
    ) -> None:
        arguments: dict[str, Any] = dict(scheme=scheme, temporal_depth=temporal_depth)
        options = complete(ViViT, arch, options, arguments)
        super().__init__(clip_len=clip_len, img_size=img_size, **options)
        self.scheme = scheme

    @staticmethod
    def preset(options: Mapping, scheme: str, temporal_depth: int) -> dict[str, Any]:
        """Return the arguments of ``VideoTransformer`` that make the model of the paper."""
        row = look_up(SCHEMES, scheme, "ViViT scheme")
        if "encoders" in row:
            first, second = row["encoders"]
            second = [{**second, "depth": temporal_depth}] if temporal_depth else []
            row = {**row, "encoders": [first, *second]}
        if options.get("pool") == "mean":
            row = {**row, "cls": None}
        return {
            "stem": {"tubelet": (2, 16, 16)},
            "mlp": {"type": "mlp", "act": "gelu_tanh"},
            "drop_path_rule": "unscaled",
            "init": "flax",
            **row,
        }
