"""TimeSformer (Bertasius et al., ICML 2021): five schemes of space-time attention.

=====================  ============================================================
scheme (section 3.4)   sub-layers of a block; all but the last with a zero-initialised fc
=====================  ============================================================
space_only             joint within each frame; frames averaged before the head
joint_space_time       joint
divided_space_time     time (no class token), then space (class token averaged)
sparse_local_global    local window, then every second token of the clip
axial                  time (no class token), then width, then height
=====================  ============================================================

The last two exist in no public code. The counts of the paper's Table 1 fix the number of
attentions and of fcs (121.4M: two and one; 156.8M: three and two). Not fixed by it, and chosen
here: the local window is clipped at the border; in both local and strided attention the class
token's key is visible to every token, and it attends to all tokens itself; in axial attention
it is left out of time, as in the divided scheme, and averaged over columns and rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from torch import Tensor, nn

from mmvidformer.convert.image_vit import init_from_image
from mmvidformer.layers import Encoder, PositionEmbedding, SubLayer, TubeletEmbedding, init_timm_vit
from mmvidformer.lookup import look_up
from mmvidformer.registry import MODELS


@dataclass(frozen=True)
class Scheme:
    """A row of the table: the sub-layers, and whether each frame has its own class token."""

    sublayers: tuple[SubLayer, ...]
    per_frame: bool = False


TIME = SubLayer(("time",), cls="skip", fc=True)

SCHEMES = {
    "space_only": Scheme((SubLayer(("joint",)),), per_frame=True),
    "joint_space_time": Scheme((SubLayer(("joint",)),)),
    "divided_space_time": Scheme((TIME, SubLayer(("space",)))),
    "sparse_local_global": Scheme(
        (SubLayer(("local",), cls="see", fc=True), SubLayer(("strided",), cls="see"))
    ),
    "axial": Scheme((TIME, SubLayer(("width",), fc=True), SubLayer(("height",)))),
}

ARCHS = {
    "s": dict(embed_dims=384, depth=12, num_heads=6),
    "b": dict(embed_dims=768, depth=12, num_heads=12),
    "l": dict(embed_dims=1024, depth=24, num_heads=16),
}

POSITIONS = {"none": (), "space": ("hw",), "space_time": ("hw", "t")}


@MODELS.register_module()
class TimeSformer(nn.Module):
    """Space-time transformer on frame patches.

    Layer norms have epsilon 1e-6, the GELU is exact. Stochastic depth is drawn for each row that
    an attention works on (a place over time, a frame, a clip) and rescaled, as in the official
    code. Initialisation: linear layers and tables truncated N(0, 0.02), time embedding and the
    fcs zero, so that a network that starts from an image model is that model on each frame.

    Args:
        arch: ``'s'``, ``'b'`` or ``'l'``, or a dictionary of ``embed_dims``, ``depth``,
            ``num_heads`` and optionally ``mlp_ratio`` (default 4).
        attention: A name of ``SCHEMES``.
        img_size: Side of the crop in pixels, or (height, width); sizes the position table. Clips
            of other sizes are taken too, with resized positions.
        clip_len: Frames of a clip; likewise.
        patch_size: Side of a patch in pixels.
        order: Of the sublayers: ``'forward'`` as in the table, ``'reverse'`` (space before time for
            the divided scheme) or ``'parallel'`` (all read the block's input); section 4.3's
            comparison. In the last two the class token takes part in the attention over time
            (eq. 11): the head reads that token alone, which an attention over time that skips it
            could not reach from the last block.
        positions: ``'none'``, ``'space'`` or ``'space_time'`` (Table 4). ``space_only`` never has
            a time embedding, as in the official code.
        cls_in_time: Let the class token take part in the attention over time (eq. 11) in the
            order of the table too. The published weights do without.
        resize_rule: How positions are resized (``layers.resize``): ``'linear'``, ``'nearest'``
            (the official forward pass), ``'nearest_1d'`` (the official checkpoint loading).
        drop_path_rate: Stochastic depth of the last block.
        with_cp: Activation checkpointing of each block.
        init_from: Image model that ``init_weights`` starts from: a source, or a dictionary of
            the arguments of ``convert.image_vit.init_from_image``.

    Raises:
        KeyError: If ``arch``, ``attention``, ``order`` or ``positions`` is unknown.
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
        super().__init__()
        sizes = look_up(ARCHS, arch, "TimeSformer arch") if isinstance(arch, str) else dict(arch)
        scheme = look_up(SCHEMES, attention, "TimeSformer attention")
        tables = look_up(POSITIONS, positions, "TimeSformer positions")
        look_up({"forward", "reverse", "parallel"}, order, "TimeSformer order")
        sublayers = list(scheme.sublayers)
        if cls_in_time or order != "forward":
            seen = replace(TIME, cls="mean")
            sublayers = [seen if each is TIME else each for each in sublayers]
        if order == "reverse":
            sublayers.reverse()
        height, width = (img_size, img_size) if isinstance(img_size, int) else img_size
        dim = self.embed_dims = sizes["embed_dims"]
        self.per_frame = scheme.per_frame
        self.init_from = init_from
        self.embed = TubeletEmbedding(dim, (1, patch_size, patch_size))
        self.encoder = Encoder(
            dim,
            sizes["depth"],
            sizes["num_heads"],
            sublayers,
            PositionEmbedding(
                dim,
                (clip_len, height // patch_size, width // patch_size),
                tables=[name for name in tables if not (scheme.per_frame and name == "t")],
                cls=bool(tables),
                rule=resize_rule,
            ),
            cls=True,
            drop_path=drop_path_rate,
            with_cp=with_cp,
            block={
                "mlp_ratio": sizes.get("mlp_ratio", 4.0),
                "drop_path_per_group": True,
                "parallel": order == "parallel",
            },
        )
        self.apply(init_timm_vit)
        nn.init.trunc_normal_(self.encoder.cls_token, std=0.02)
        self._silence_extra_attention()

    def _silence_extra_attention(self) -> None:
        for block in self.encoder.blocks:
            for sublayer in block.sublayers.values():
                if isinstance(sublayer.fc, nn.Linear):
                    nn.init.zeros_(sublayer.fc.weight)

    def init_weights(self) -> None:
        """Load the image model named by ``init_from``, if any; MMEngine calls it once."""
        if self.init_from is not None:
            options = self.init_from
            options = {"source": options} if isinstance(options, str) else dict(options)
            init_from_image(self, **{"temporal": "copy_with_norm", **options})

    def forward_features(self, clip: Tensor) -> tuple[Tensor, Tensor]:
        """Encode a clip without pooling it.

        Args:
            clip: Normalised pixels (B, 3, T, H', W').

        Returns:
            Normalised grid (B, T, H, W, D), for ``space_only`` averaged to (B, 1, H, W, D), and
            class token (B, 1, D).
        """
        grid = self.embed(clip)
        if not self.per_frame:
            return self.encoder(grid)
        batch, frames = grid.shape[:2]
        grid, cls = self.encoder.run_blocks(grid.flatten(0, 1)[:, None])
        grid, cls = (
            None if x is None else self.encoder.norm(x.unflatten(0, (batch, frames)).mean(1))
            for x in (grid, cls)
        )
        return grid, cls

    def forward(self, clip: Tensor) -> Tensor:
        """Map normalised pixels (B, 3, T, H', W') to features (B, D)."""
        return self.forward_features(clip)[1][:, 0]
