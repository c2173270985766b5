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
from typing import Any

from mmvidformer.layers import SubLayer
from mmvidformer.lookup import look_up
from mmvidformer.models.video_transformer import VideoTransformer

TIME = SubLayer("time", cls="skip", fc=True)

SCHEMES: dict[str, tuple[SubLayer, ...]] = {
    "space_only": (SubLayer("joint"),),
    "joint_space_time": (SubLayer("joint"),),
    "divided_space_time": (TIME, SubLayer("space")),
    "sparse_local_global": (
        SubLayer("local", cls="global", fc=True),
        SubLayer("strided", cls="global"),
    ),
    "axial": (TIME, SubLayer("width", fc=True), SubLayer("height")),
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
        attention: A name in ``SCHEMES``.
        img_size: Side of the crop in pixels, or (height, width).
        clip_len: Number of frames of a clip. For clips of another length or size positions are
            resized.
        patch_size: Side of a patch in pixels.
        order: Order of the sub-layers: ``'forward'`` as in the table, ``'reverse'`` (space before
            time in the divided scheme), or ``'parallel'`` (all read the block's input); compared in
            section 4.7. In the last two the class token takes part in the attention over time
            (eq. 11). Otherwise the attention over time in the last block could not reach the head,
            which reads the class token alone.
        positions: A name in ``compose.POSITIONS``; Table 4 has ``'none'``, ``'space'`` and
            ``'space_time'``. ``space_only`` never has a time embedding, as in the official code.
        cls_in_time: Whether the class token takes part in the attention over time (eq. 11) in the
            order ``'forward'`` too. It does not in the published weights.
        resize_rule: How positions are resized (``layers.resize``): ``'linear'``, ``'nearest'`` (the
            official forward pass) or ``'nearest_1d'`` (the official checkpoint loading).
        drop_path_rate: Stochastic-depth rate of the last block.
        **options: Further arguments of ``VideoTransformer``: ``drop_rate``, ``attn_drop_rate``,
            ``norm``, ``with_cp`` and ``init_from``.

    Raises:
        KeyError: If a name is unknown.
        ValueError: As ``VideoTransformer``.
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
        **options: Any,
    ) -> None:
        block = list(look_up(SCHEMES, attention, "TimeSformer attention"))
        look_up({"forward", "reverse", "parallel"}, order, "TimeSformer order")
        if cls_in_time or order != "forward":
            block = [replace(row, cls="mean") if row.cls == "skip" else row for row in block]
        if order == "reverse":
            block.reverse()
        super().__init__(
            arch,
            block,
            clip_len,
            img_size,
            stem=dict(tubelet=(1, patch_size, patch_size)),
            positions=dict(type=positions, rule=resize_rule),
            frames="average" if attention == "space_only" else "together",
            cls="mean",
            parallel=order == "parallel",
            drop_path_rate=drop_path_rate,
            drop_path="group",
            **options,
        )

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args) -> None:
        """Translate the names of MMAction2's TimeSformer, which are not converted when read."""
        if f"{prefix}patch_embed.projection.weight" in state_dict:
            from mmvidformer.convert.timesformer import from_timesformer

            names = [name for name in state_dict if name.startswith(prefix)]
            found = {f"backbone.{n.removeprefix(prefix)}": state_dict.pop(n) for n in names}
            for name, value in from_timesformer(found).state.items():
                state_dict[prefix + name.removeprefix("backbone.")] = value
        super()._load_from_state_dict(state_dict, prefix, *args)
