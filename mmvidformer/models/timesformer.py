"""TimeSformer (Bertasius et al., ICML 2021): five schemes of space-time attention.

=====================  ============================================================
scheme (section 3)     sub-layers of a block; all but the last with a zero-initialized fc
=====================  ============================================================
space_only             joint within each frame; frames averaged before the head
joint_space_time       joint
divided_space_time     time (no class token), then space (class token averaged)
sparse_local_global    local window, then every second token of the clip
axial                  time (no class token), then width, then height
=====================  ============================================================

There is no public code of the last two. The counts of the paper's Table 1 determine the number of
attentions and of fcs (121.4M: two and one; 156.8M: three and two). The border of the window and the
role of the class token are our choice.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mmvidformer.layers import SubLayer
from mmvidformer.lookup import look_up
from mmvidformer.models.compose import complete
from mmvidformer.models.video_transformer import VideoTransformer

TIME = SubLayer("time", cls="skip", fc=True)

SCHEMES: dict[str, dict[str, Any]] = {
    "space_only": dict(block=(SubLayer("joint"),), frames="average"),
    "joint_space_time": dict(block=(SubLayer("joint"),)),
    "divided_space_time": dict(block=(TIME, SubLayer("space"))),
    "sparse_local_global": dict(
        block=(SubLayer("local", cls="global", fc=True), SubLayer("strided", cls="global"))
    ),
    "axial": dict(block=(TIME, SubLayer("width", fc=True), SubLayer("height"))),
}


class TimeSformer(VideoTransformer):
    """Space-time transformer on frame patches.

    Layer norms have epsilon 1e-6, and the GELU is exact. Stochastic depth is drawn for each
    attention group (a place over time, a frame, a clip) and rescaled, as in the official code.
    Linear layers and position tables are initialized from a truncated normal with standard
    deviation 0.02, the time embedding and the fcs to zero, so a network with divided attention that
    starts from an image model is that model on each frame.

    Args:
        arch: See ``VideoTransformer``.
        scheme: A name in ``SCHEMES``.
        img_size: Side of the crop in pixels, or (height, width).
        clip_len: Number of frames of a clip.
        reverse: Whether the sub-layers of the table run in reverse (space before time in the
            divided scheme). This order and ``parallel=True`` are compared in section 4.7. In both
            the class token takes part in the attention over time (eq. 11). Otherwise the attention
            over time in the last block could not reach the head, which reads the class token alone.
        cls_in_time: Whether the class token takes part in the attention over time (eq. 11) in the
            order of the table, too. It does not in the published weights.
        **options: Any other argument of ``VideoTransformer``. By default there are positions in
            space and time (Table 4 also has ``'none'`` and ``'space'``; ``space_only`` never has a
            time embedding, as in the official code) and a ``drop_path_rate`` of 0.1.

    Raises:
        KeyError: If a name is unknown.
        UserError: If an argument has no effect, or as ``VideoTransformer``.
    """

    temporal_init = "copy_with_norm"

    def __init__(
        self,
        arch: str | Mapping = "b",
        scheme: str = "divided_space_time",
        img_size: int | tuple[int, int] = 224,
        clip_len: int = 8,
        reverse: bool = False,
        cls_in_time: bool = False,
        **options: Any,
    ) -> None:
        arguments: dict[str, Any] = {
            "scheme": scheme,
            "reverse": reverse,
            "cls_in_time": cls_in_time,
        }
        options = complete(TimeSformer, arch, options, arguments)
        super().__init__(clip_len=clip_len, img_size=img_size, **options)

    @staticmethod
    def preset(options: Mapping, scheme: str, reverse: bool, cls_in_time: bool) -> dict[str, Any]:
        """Return the arguments of ``VideoTransformer`` that make the model of the paper."""
        row = look_up(SCHEMES, scheme, "TimeSformer scheme")
        block = row["block"][:: -1 if reverse else 1]
        if options.get("cls", "mean") is None:
            block = [replace(sublayer, cls=None) for sublayer in block]
        elif cls_in_time or reverse or options.get("parallel"):
            roles = {"skip": "mean"}
            block = [replace(part, cls=roles.get(part.cls, part.cls)) for part in block]
        return {
            "positions": "space_time",
            "cls": "mean",
            "drop_path_rate": 0.1,
            "drop_path_rule": "group",
            **row,
            "block": tuple(block),
        }
