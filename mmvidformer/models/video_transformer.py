"""A video transformer that is composed in a config; the papers' models are presets of it."""

from collections.abc import Iterator, Mapping
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from mmvidformer.errors import UserError
from mmvidformer.layers import INITS, NORMS, STEMS, Encoder, pool_tokens
from mmvidformer.layers.abilities import Conflict, find_conflicts, refuse, stem_conflicts
from mmvidformer.layers.config import check_names
from mmvidformer.layers.linear import add_lora
from mmvidformer.layers.outputs import (
    SomeOutputs,
    check_layers,
    join_places,
    normalize_layers,
    width_of_layers,
)
from mmvidformer.layers.stream import StreamState
from mmvidformer.layers.tokens import Places, Tokens
from mmvidformer.lookup import check_options, look_up
from mmvidformer.models.compose import image_options
from mmvidformer.models.config import VideoConfig
from mmvidformer.models.fast.recompute import recompute
from mmvidformer.models.fast.run_lengths import compute_still_once
from mmvidformer.models.fast.token_dropping import drop_tokens
from mmvidformer.models.lengths import run_by_length, valid_frames
from mmvidformer.models.single_frames import encodes_frames, run_clips
from mmvidformer.models.stages import find_frozen, freeze


class VideoTransformer(nn.Module):
    """A stem, and transformer encoders in a row.

    Args:
        arch: See ``VideoConfig``, as for all others.
        clip_len: Number of frames of a clip.
        img_size: Side of the crop in pixels, or (height, width).
        **options: The other fields of ``VideoConfig``.

    Attributes:
        embed_dims: Width D of the features, of all ``out_layers`` together.
        embed: Tubelet embedding.
        grid: Grid (T, H, W) of the tokens of a clip of ``clip_len`` and ``img_size``.
        encoders: The encoders.
        configs: The ``EncoderConfig`` of each encoder.
        conflicts: What its parts rule out, such as to run frame by frame, and what to use instead
            (``layers.abilities``).
        static: Tolerance of run lengths (``VideoConfig``). It may be set, as the next.
        token_keep: Share of the tokens that are computed in training (``VideoConfig``).
        temporal_init: Default of ``temporal`` in ``init_from``.
        cls_init: Default of ``cls_token`` in ``init_from``.
        position_init: Default of ``positions`` in ``init_from``.

    Raises:
        KeyError: If a name is unknown; the message lists those that exist, or the nearest.
        UserError: If the parts do not go together.
    """

    temporal_init = "zero"
    cls_init = "copy"
    position_init = "bicubic"

    def __init__(
        self,
        arch: str | Mapping = VideoConfig.arch,
        clip_len: int = VideoConfig.clip_len,
        img_size: int | tuple[int, int] = VideoConfig.img_size,
        **options: Any,
    ) -> None:
        super().__init__()
        names = signature(type(self)).parameters.keys() - {"options"}
        names |= {f"stem.{name}" for name in signature(STEMS["tubelets"]).parameters}
        check_names(VideoConfig, options, f"argument of {type(self).__name__}", names)
        options = {**image_options(arch), **options}
        config = VideoConfig(clip_len=clip_len, img_size=img_size, **options)
        self.init_from, self.frozen_stages = config.init_from, config.frozen_stages
        self.configs = config.configs
        has_cls = self.configs[-1].cls is not None
        pool = ("cls" if has_cls else "mean") if config.pool is None else config.pool
        self.pool = look_up({"cls", "mean", "none", "all"}, pool, "pool")
        if self.pool == "cls" and not has_cls:
            raise UserError("pool='cls' needs a class token; cls must not be None")
        dim = self.configs[0].sizes["embed_dims"]
        self.embed = STEMS.build({"type": "tubelets", **config.stem}, dim=dim)
        sides = (img_size, img_size) if isinstance(img_size, int) else img_size
        self.grid = grid = self.embed.grid((clip_len, *sides))
        # Other clips may have several tokens along an axis of one; patterns that halve 4 have two.
        axes: Any = tuple(4 if n == 1 else n for n in grid)
        self.encoders = nn.ModuleList()
        for number, part in enumerate(self.configs, start=1):
            last = number == len(self.configs)
            passes_grid = self.pool != "cls" if last else part.frames not in ("pool", "token")
            refuse(find_conflicts(part, passes_grid, axes), "clips")
            encoder: Any = Encoder(part, grid, dim, passes_grid, not last or config.fc_norm is None)
            recompute(encoder, part.with_cp)
            self.encoders.append(encoder)
            grid, axes = encoder.out_grid(grid), encoder.out_grid(axes)
            dim = part.sizes["embed_dims"]
        check_layers(self, config.out_layers)
        if config.out_layers and self.pool != "none":
            raise UserError(f"out_layers needs pool='none', got {self.pool!r}")
        if config.out_layers and config.static is not None:
            raise UserError("out_layers cannot be used with static")
        self.out_layers = tuple(config.out_layers)
        self.embed_dims = width_of_layers(self, self.out_layers) or dim
        self.fc_norm: nn.Module = nn.Identity()
        if config.fc_norm is not None:
            self.fc_norm = NORMS.build(config.fc_norm, normalized_shape=dim)
        self.conflicts = [*self._find_conflicts()]
        causal = all(conflict.rules_out != "streams" for conflict in self.conflicts)
        for encoder in self.encoders:
            encoder.pos_embed.causal = causal
        self.apply(look_up(INITS, config.init, "init"))
        freeze(self, clip_len, trains_lora=config.lora is not None)
        if config.lora is not None:
            check_options(add_lora, config.lora, "lora", ["model"])
            add_lora(self, **config.lora)
        self.token_keep, self.static = config.token_keep, config.static

    def _find_conflicts(self) -> Iterator[Conflict]:
        yield from stem_conflicts(self.embed)
        encoder: Any
        for number, encoder in enumerate(self.encoders):
            for conflict in encoder.conflicts:
                yield conflict._replace(part=f"encoders.{number}: {conflict.part}")
        has_prefix = self.configs[-1].cls is not None and self.configs[-1].frames == "together"
        if self.pool in ("mean", "all") or (self.pool == "cls" and not has_prefix):
            yield Conflict("streams", "the output", "is pooled over time; use pool='none'")
        if self.out_layers:
            yield Conflict("streams", "the output", "joins several blocks; use out_layers=()")

    def train(self, mode: bool = True) -> "VideoTransformer":
        """Set the mode; frozen parts stay in evaluation mode."""
        super().train(mode)
        for stage in find_frozen(self):
            stage.eval()
        return self

    def init_weights(self) -> None:
        """Load the image model ``init_from``, if any; MMEngine calls it once before training."""
        options = {"source": self.init_from} if isinstance(self.init_from, str) else self.init_from
        if options is not None:
            from mmvidformer.checkpoints.image_init import init_from_image

            init_from_image(self, **{"cls_token": self.cls_init, **options})

    @property
    def static(self) -> float | None:
        """Tolerance of run lengths."""
        return self._static

    @static.setter
    def static(self, tolerance: float | None) -> None:
        if tolerance is not None:
            compute_still_once(self, tolerance)
        self._static = tolerance

    @property
    def token_keep(self) -> float:
        """Share of the tokens that are computed in training."""
        return self._token_keep

    @token_keep.setter
    def token_keep(self, share: float) -> None:
        if not 0 < share <= 1:
            raise UserError(f"token_keep must be above 0 and at most 1, got {share}")
        if share < 1:
            refuse(self.conflicts, "places", f"token_keep={share}: ", "; use 1")
            drop_tokens(self)
        self._token_keep = share

    def forward_features(
        self,
        clip: Tensor,
        outputs: list[Tokens] | None = None,
        kept: Places | None = None,
        counts: Tensor | None = None,
    ) -> Tokens:
        """Encode a clip without pooling.

        Args:
            clip: Normalized pixels (B, 3, T', H', W').
            outputs: See ``layers.Encoder.forward``.
            kept: As for ``forward``, like the next.
            counts: Likewise.

        Returns:
            Tokens of the last encoder; normalized unless there is an ``fc_norm``. Their ``places``
            are (B, T, H, W, D), after ``frames='pool'`` or ``'token'`` (B, T, 1, 1, D), and after
            ``'average'`` (B, 1, H, W, D). Their ``prefix`` is (B, 1 + registers, D), or (B, 0, D)
            without a class token. With ``out_layers`` there are places alone, of their width.
        """
        tokens = Tokens.of(self.embed(clip, kept), kept=kept, counts=counts)
        if self.out_layers:
            return self._join_layers(tokens, outputs)
        for encoder in self.encoders:
            tokens = encoder(tokens, outputs)
        return tokens

    def _join_layers(self, tokens: Tokens, outputs: list[Tokens] | None) -> Tokens:
        blocks: list[Tokens] = SomeOutputs(self.out_layers) if outputs is None else []
        count = len(tokens.tensor)
        for encoder in self.encoders:
            tokens = encoder(tokens, blocks)
        if outputs is not None:
            outputs.extend(blocks)
        return Tokens.of(join_places(self, blocks, count, self.out_layers))

    def forward(
        self,
        clip: Tensor,
        valid: Tensor | None = None,
        kept: Places | None = None,
        counts: Tensor | None = None,
    ) -> Tensor | list[Tensor]:
        """Map clips to features, or to tokens if not pooled.

        Args:
            clip: Normalized pixels (B, 3, T', H', W').
            valid: Bool mask (B, T') of the frames of each clip (``models.lengths``). Default: all.
            kept: Places of the tokens to compute (``layers.Places``); the others of the clip are
                left out. Default: all.
            counts: How many equal tokens of the clip each one stands for, (B, T, H, W), or in the
                shape that ``kept`` leaves, (B, T, 1, N) or (B, 1, 1, N); 0: it is padding. Means
                are weighted. Default: one.

        Returns:
            Features (B, D), or tokens, (B, T, H, W, D) or in a row; with ``valid`` a list of B.

        Raises:
            UserError: If a part of the model cannot leave out tokens or count them several times,
                or if ``counts`` or the size of ``kept`` does not fit.
        """
        if valid is not None:
            if kept is not None or counts is not None:
                raise UserError("kept and counts cannot be used with valid; cut the clips first")
            multiple = self.embed.tubelet[0] if self.embed.separate_frames else 1
            clips = valid_frames(clip, valid, multiple)
            apart = encodes_frames(self)
            features = run_clips(self, clips) if apart else run_by_length(self.forward, clips)
            return features if self.pool in ("none", "all") else torch.stack(features)
        if self.out_layers:
            return self.pool_features(self.forward_features(clip, None, kept, counts))
        options = dict(kept=kept, counts=counts, prefix_only=True)
        tokens = Tokens.of(self.embed(clip, kept), **options)
        for encoder in self.encoders:
            tokens = encoder(tokens)
        return self.pool_features(tokens)

    def pool_features(self, tokens: Tokens) -> Tensor:
        """Return the output for the result of ``forward_features``."""
        if self.pool == "none":
            return normalize_layers(self, tokens.places)
        output = tokens.tensor if self.pool == "all" else pool_tokens(tokens, self.pool)
        return self.fc_norm(output)

    def check_causal(self) -> None:
        """Raise a UserError that names the first part that needs the whole clip."""
        refuse(self.conflicts, "streams", f"{type(self).__name__} cannot run frame by frame: ")

    def step(self, frames: Tensor, state: StreamState | None = None) -> tuple[Tensor, StreamState]:
        """Process the next frames of a stream; returns their part of the output for the whole clip.

        Gradients flow back through the state. Use ``torch.no_grad()`` for a stream without an end.

        Args:
            frames: Normalized pixels (B, 3, T', H', W') of one tubelet or several.
            state: State after the previous frames. Default: none yet.

        Returns:
            Tokens (B, T, H, W, D), or of a class token (``cls='sink'``) the features (B, D) of a
            clip of all frames so far; and the new state.

        Raises:
            UserError: As ``check_causal``, and if the frames do not fill tubelets or do not have
                the size of the previous ones, or if a learned time table is too short.
        """
        if state is None:
            self.check_causal()
        tubelet, size = self.embed.tubelet[0], (*frames.shape[:2], *frames.shape[3:])
        if state is not None and size != state.size:
            raise UserError(f"frames of this stream must be (B, C, H, W) {state.size}, got {size}")
        if frames.shape[2] % tubelet:
            raise UserError(f"a step takes a multiple of {tubelet} frames, got {frames.shape[2]}")
        state = StreamState(state, self._max_steps(), frames.device)
        tokens = Tokens.of(self.embed(frames), state=state)
        for encoder in self.encoders:
            tokens = encoder(tokens)
        state.size, state.steps = size, state.steps + tokens.context.grid.t
        return self.pool_features(tokens), state

    def _max_steps(self) -> int | None:
        """Return after how many tokens along time a position table ends, if one does."""
        over_time: Any = [encoder for encoder in self.encoders if not encoder.single_frames]
        ends = [encoder.pos_embed.max_steps for encoder in over_time]
        return min((end for end in ends if end is not None), default=None)
