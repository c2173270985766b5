"""A video transformer that is composed in a config; the papers' models are presets of it."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from torch import Tensor, nn

from mmvidformer.layers import INITS, Encoder, TubeletEmbedding, pool_tokens
from mmvidformer.layers.encoder import Outputs, Tokens
from mmvidformer.layers.stream import StreamState
from mmvidformer.lookup import look_up
from mmvidformer.models.compose import ANY, Block, arch_sizes, build_encoder, check_cls


class VideoTransformer(nn.Module):
    """A stem, and transformer encoders in a row.

    Args:
        arch: ``'s'``, ``'b'``, ``'l'`` or ``'h'``, or a dictionary of ``embed_dims``, ``depth``,
            ``num_heads`` and optionally ``mlp_ratio`` (default 4).
        block: Attention sub-layers of a block, as arguments of ``layers.SubLayer``: ``pattern``
            (one, or several that share the heads), ``kernel``, ``fixation``, ``shifts``,
            ``shift_last``, ``cls``, ``fc``, ``zero_init``. A list of such lists: block i of an
            encoder has the sub-layers of entry i, again from the first after the last.
        clip_len: Number of frames of a clip; sets the size of position tables. Clips of other
            sizes work too; their positions are resized.
        img_size: Side of the crop in pixels, or (height, width); as ``clip_len``.
        stem: Arguments of ``layers.TubeletEmbedding``: ``tubelet``, ``stride``, ``padding`` and
            ``norm``; ``tubelet`` is required. Default: patches of 16 x 16 pixels of each frame.
        encoders: An encoder for each entry, which replaces any of the arguments from ``positions``
            to ``with_cp``, ``block``, and those of ``arch``. If the width changes, a linear layer
            comes in between. Default: one encoder.
        positions: A name in ``POSITIONS``, or a dictionary of the name as ``type``, ``fixed``
            (sines and cosines instead of learned tables) and ``rule`` (of ``layers.resize``).
        frames: ``'together'``: the encoder sees the tokens of the clip. ``'pool'``: it sees each
            frame on its own and returns one token per frame, the class token or the mean (ViViT's
            model 2). ``'average'``: likewise, but returns the mean of the frames (TimeSformer's
            space-only scheme).
        cls: Role of the class token in sub-layers that do not say (``layers.Attention``):
            ``'mean'``, ``'global'`` or ``'skip'``. None: no class token.
        parallel: Whether the sub-layers of a block read the block's input, and their updates are
            summed.
        act: Activation of the MLPs, ``'gelu'`` or ``'gelu_tanh'``.
        depthwise: Whether the MLPs have depthwise convolutions; only without a class token.
        norm: ``'layer'`` or ``'rms'``, or a dictionary of the name as ``type`` and ``eps``, 1e-6 by
            default (``layers.norm``); the norm of the blocks and of the output.
        drop_rate: Dropout rate of positions, attention output and MLP.
        attn_drop_rate: Dropout rate of the attention weights.
        drop_path_rate: Stochastic-depth rate of the last block of an encoder; it grows linearly
            from 0.
        drop_path_rule: What a draw of stochastic depth is for: ``'clip'``, ``'group'`` (each
            attention group, as in TimeSformer), or ``'unscaled'`` (a clip, and kept updates are not
            rescaled, as in scenic).
        with_cp: Whether to use activation checkpointing for each block.
        pool: Output: ``'cls'``, the class token of the last encoder, ``'mean'``, the mean of its
            other tokens, or ``'none'``, those tokens themselves. Default: the class token if there
            is one, else the mean.
        init: Initialization, ``'timm'`` or ``'flax'`` (``layers.init``).
        init_from: Image model that ``init_weights`` loads: a source (``'timm:NAME'`` or a file),
            or a dictionary of the arguments of ``convert.image_vit.init_from_image``.
        frozen_stages: Number of blocks that are not trained and are always in evaluation mode, with
            everything before them; with all blocks, also the last norm. 0: the embedding, the
            positions and the class token. -1 (default): nothing.

    Attributes:
        embed_dims: Width D of the features.
        embed: Tubelet embedding.
        encoders: The encoders.
        obstacles: What keeps the model from running frame by frame, and what to use instead.
        temporal_init: Default of ``temporal`` in ``init_from``.

    Raises:
        KeyError: If a name is unknown; the message lists those that exist.
        ValueError: If the parts do not go together.
    """

    temporal_init = "copy_with_norm"

    def __init__(
        self,
        arch: str | Mapping = "b",
        block: Block | Sequence[Block] = ({},),
        clip_len: int = 8,
        img_size: int | tuple[int, int] = 224,
        stem: Mapping = MappingProxyType({"tubelet": (1, 16, 16)}),
        encoders: Sequence[Mapping] = ({},),
        positions: str | Mapping = "joint",
        frames: str = "together",
        cls: str | None = None,
        parallel: bool = False,
        act: str = "gelu",
        depthwise: bool = False,
        norm: str | Mapping = "layer",
        drop_rate: float = 0.0,
        attn_drop_rate: float = 0.0,
        drop_path_rate: float = 0.0,
        drop_path_rule: str = "clip",
        with_cp: bool = False,
        pool: str | None = None,
        init: str = "timm",
        init_from: str | Mapping | None = None,
        frozen_stages: int = -1,
    ) -> None:
        super().__init__()
        self.init_from, self.frozen_stages = init_from, frozen_stages
        shared = dict(
            arch_sizes(arch),
            block=block,
            positions=positions,
            frames=frames,
            cls=cls,
            parallel=parallel,
            act=act,
            depthwise=depthwise,
            norm=norm,
            drop_rate=drop_rate,
            attn_drop_rate=attn_drop_rate,
            drop_path_rate=drop_path_rate,
            drop_path_rule=drop_path_rule,
            with_cp=with_cp,
        )
        if not encoders:
            raise ValueError("encoders must have at least one entry, got none")
        rows = []
        for row in encoders:
            for key in row:
                look_up(shared, key, "option of an encoder")
            rows.append(shared | dict(row))
            for key in ("embed_dims", "depth", "num_heads", "mlp_ratio"):
                if rows[-1][key] <= 0:
                    raise ValueError(f"{key} must be positive, got {rows[-1][key]}")
        self.embed_dims = rows[-1]["embed_dims"]
        last = rows[-1]["cls"]
        self.pool = look_up({"cls", "mean", "none"}, pool or ("cls" if last else "mean"), "pool")
        if self.pool == "cls" and last is None:
            raise ValueError(
                "pool='cls' needs a class token: cls must be 'mean' or 'global', got None"
            )
        if "tubelet" not in stem:
            raise ValueError(f"stem must have a tubelet, such as (1, 16, 16), got {dict(stem)}")
        self.embed = TubeletEmbedding(rows[0]["embed_dims"], **stem)
        height, width = (img_size, img_size) if isinstance(img_size, int) else img_size
        grid = self.embed.grid((clip_len, height, width))
        dim, axes = rows[0]["embed_dims"], ANY
        self.obstacles = [f"embed: {text}" for text in self.embed.obstacles]
        built: list[Encoder] = []
        for row in rows:
            encoder = build_encoder(row, dim, grid, axes)
            is_last = len(built) + 1 == len(rows)
            encoder.passes_grid = self.pool != "cls" if is_last else row["frames"] != "pool"
            if row["cls"] is not None:
                check_cls(encoder)
            self.obstacles += [f"encoders.{len(built)}: {text}" for text in encoder.obstacles]
            built.append(encoder)
            dim, grid, axes = row["embed_dims"], encoder.out_grid(grid), encoder.out_grid(axes)
        if self.pool != "none":
            self.obstacles.append("the output is pooled over time; use pool='none'")
        self.encoders = nn.ModuleList(built)
        self.apply(look_up(INITS, init, "init"))
        for stage in self._frozen():
            stage.requires_grad_(False)

    def stages(self) -> list[nn.ModuleList]:
        """Parts by depth, for freezing and for learning rates that decay with it.

        Embedding, positions and class token; each block of each encoder; the last norm. What lies
        between two encoders belongs to the last block of the first.
        """
        stages = [nn.ModuleList([self.embed])]
        encoder: Any
        for encoder in self.encoders:
            cls = [] if encoder.cls_token is None else [encoder.cls_token]
            start = (encoder.proj, encoder.pos_embed, encoder.pos_drop, nn.ParameterList(cls))
            stages[-1].extend(start)
            stages += [nn.ModuleList([block]) for block in encoder.blocks]
            stages[-1].append(encoder.norm)
        return [*stages[:-1], stages[-1][:-1], stages[-1][-1:]]

    def _frozen(self) -> list[nn.ModuleList]:
        stages = self.stages()
        depth = len(stages) - 2
        if not -1 <= self.frozen_stages <= depth:
            raise ValueError(f"frozen_stages must be -1 to {depth}, got {self.frozen_stages}")
        return stages if self.frozen_stages == depth else stages[: self.frozen_stages + 1]

    def train(self, mode: bool = True) -> "VideoTransformer":
        """Set the mode; frozen parts stay in evaluation mode."""
        super().train(mode)
        for stage in self._frozen():
            stage.eval()
        return self

    def init_weights(self) -> None:
        """Load the image model ``init_from``, if any; MMEngine calls it once before training."""
        if self.init_from is None:
            return
        options = self.init_from
        options = {"source": options} if isinstance(options, str) else options
        from mmvidformer.convert.image_vit import init_from_image

        init_from_image(self, **{"temporal": self.temporal_init, **options})

    def forward_features(self, clip: Tensor, outputs: Outputs = None) -> Tokens:
        """Encode a clip without pooling.

        Args:
            clip: Normalized pixels (B, 3, T', H', W').
            outputs: See ``layers.Encoder.forward``.

        Returns:
            Normalized grid (B, T, H, W, D) and class token (B, 1, D), or None, of the last encoder.
            After ``frames='pool'`` the grid is (B, T, 1, 1, D), after ``'average'`` it is
            (B, 1, H, W, D).
        """
        grid, cls = self.embed(clip), None
        for encoder in self.encoders:
            grid, cls = encoder(grid, None, outputs)
        return grid, cls

    def forward(self, clip: Tensor) -> Tensor | None:
        """Map normalized pixels (B, 3, T', H', W') to features (B, D), or tokens if not pooled."""
        return self.pool_features(*self.forward_features(clip))

    def pool_features(self, grid: Tensor | None, cls: Tensor | None) -> Tensor | None:
        """Return the output for the result of ``forward_features``."""
        if self.pool == "none":
            return grid
        return pool_tokens(grid, cls if self.pool == "cls" else None)

    def check_causal(self) -> None:
        """Raise a ValueError that names the first of ``obstacles``, if there are any."""
        if self.obstacles:
            name = type(self).__name__
            raise ValueError(f"{name} cannot run frame by frame: {self.obstacles[0]}")

    def step(self, frames: Tensor, state: StreamState | None = None) -> tuple[Tensor, StreamState]:
        """Process the next frames of a stream; returns what ``forward`` returns for the clip.

        Args:
            frames: Normalized pixels (B, 3, T', H', W') of one tubelet or several.
            state: State after the previous frames. Default: none yet.

        Returns:
            Tokens (B, T, H, W, D), and the new state.

        Raises:
            ValueError: As ``check_causal``, and if the frames do not fill tubelets or do not have
                the size of the previous ones.
        """
        if state is None:
            self.check_causal()
        tubelet, size = self.embed.tubelet[0], (*frames.shape[:2], *frames.shape[3:])
        if state is not None and size != state.size:
            raise ValueError(f"frames of this stream must be (B, C, H, W) {state.size}, got {size}")
        if frames.shape[2] % tubelet:
            raise ValueError(f"a step takes a multiple of {tubelet} frames, got {frames.shape[2]}")
        state = StreamState(state)
        tokens = self.embed(frames)
        for encoder in self.encoders:
            tokens, _ = encoder(tokens, state)
        state.size, state.steps = size, state.steps + tokens.shape[1]
        return tokens, state
