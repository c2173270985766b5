import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from mmvidformer.catalog import MODELS
from mmvidformer.errors import UserError
from mmvidformer.layers import INITS, Encoder, EncoderConfig, SubLayer
from mmvidformer.layers.config import read
from mmvidformer.layers.tokens import Places, Tokens
from mmvidformer.models.fast.token_dropping import draw_places
from mmvidformer.models.steps import StepModel
from mmvidformer.models.video_transformer import VideoTransformer


@MODELS.add
class MaskedPretraining(StepModel):
    """Pretraining of a video transformer on videos without labels (Tong et al. 2022, VideoMAE).

    Most places are masked, the same in all frames of a clip (tube masking), and a small decoder
    predicts their pixels. The first encoder drops the tokens of masked places, so that its cost
    falls with their share; the grid of the others, (B, T, 1, N, D), stays regular. Where the
    backbone needs the tokens of all places (``whole``), masked ones are replaced by a learned token
    instead. Class tokens are trained along, and are not decoded. If the backbone pools its frames,
    the decoder gets the token of the frame at the visible places.

    A batch is (B, views, 3, T, H, W); views are clips of their own. ``forward`` returns
    ``loss_pixels`` in mode ``'loss'``, and the result of ``reconstruct`` in the other modes.

    Args:
        backbone: Config of a ``VideoTransformer`` or a preset, or the module.
        mask_ratio: Share of the places that are masked, rounded down to places.
        decoder: Options of the decoder (``layers.EncoderConfig``) that differ from the default: 4
            blocks of half the width and half the heads, with fixed positions and the sub-layers of
            the first encoder; space and time, if that encodes single frames.
        data_preprocessor: Config of the preprocessor.

    Attributes:
        whole: Why masked tokens are replaced instead of dropped; empty if they are dropped.

    Raises:
        UserError: If ``mask_ratio`` is not between 0 and 1 or masks no place, tubelets overlap,
            or the backbone leaves out tokens itself.
    """

    def __init__(
        self,
        backbone: Mapping[str, Any] | VideoTransformer,
        mask_ratio: float = 0.9,
        decoder: Mapping[str, Any] | None = None,
        data_preprocessor: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(data_preprocessor)
        backbone = MODELS.build(backbone) if isinstance(backbone, Mapping) else backbone
        if not isinstance(backbone, VideoTransformer):
            name = type(backbone).__name__
            raise UserError(f"backbone must be a VideoTransformer or a preset of it, got {name}")
        embed = backbone.embed
        if embed.overlaps:
            raise UserError(
                "masked pretraining needs tubelets that do not overlap, without padding; got "
                f"tubelet {embed.tubelet}, stride {embed.stride}, padding {embed.padding}"
            )
        if not 0 < mask_ratio < 1:
            raise UserError(f"mask_ratio must be between 0 and 1, got {mask_ratio}")
        for option, default in (("static", None), ("token_keep", 1.0)):
            if getattr(backbone, option) != default:
                value = getattr(backbone, option)
                raise UserError(
                    f"{option}={value} of the backbone has no effect in masked pretraining; leave "
                    "it out"
                )
        if any(config.frames == "token" for config in backbone.configs):
            raise UserError("frames='token' returns no tokens of places, which a decoder needs")
        self.backbone, self.mask_ratio = backbone, mask_ratio
        self._count_masked(backbone.grid[1:])
        last: Any = backbone.encoders[-1]
        last.passes_grid = last.frames != "pool"  # to the decoder, even if the output is pooled
        first = backbone.configs[0]
        self.whole: list[str] = []
        encoder: Any
        for encoder in backbone.encoders:
            self.whole += [str(row) for row in encoder.conflicts if row.rules_out == "places"]
            if encoder.frames == "pool":  # the next one gets all frames
                break
        width, heads = backbone.embed_dims // 2, max(first.sizes["num_heads"] // 2, 1)
        options: dict[str, Any] = dict(arch=dict(embed_dims=width, depth=4, num_heads=heads))
        blocks = [[replace(sublayer, cls=None) for sublayer in row] for row in first.blocks]
        single = [SubLayer("space"), SubLayer("time")]
        options["block"] = blocks if first.frames == "together" else single
        options["positions"] = {"type": "joint", "fixed": True}
        config = read(EncoderConfig, {**options, **(decoder or {})}, "option of the decoder")
        width = config.sizes["embed_dims"]
        self.to_decoder = nn.Linear(backbone.embed_dims, width, bias=False)
        masked = first.sizes["embed_dims"] if self.whole else width
        self.mask_token = nn.Parameter(torch.zeros(1, 1, 1, 1, masked))
        self.decoder = Encoder(config, backbone.grid, passes_grid=True)
        self.to_pixels = nn.Linear(width, embed.in_channels * math.prod(embed.tubelet))
        for part in (self.to_decoder, self.decoder, self.to_pixels):
            part.apply(INITS["timm"])
        nn.init.trunc_normal_(self.mask_token, std=0.02)

    def draw_places(self, clips: Tensor) -> tuple[Places, Places]:
        """Draw visible and masked places of clips (B, 3, T', H', W').

        Raises:
            UserError: If the clips are so small that none of their places is masked.
        """
        size = self.backbone.embed.grid(clips.shape[2:])[1:]
        return draw_places(clips, size, math.prod(size) - self._count_masked(size))

    def _count_masked(self, size: Sequence[int]) -> int:
        count = math.prod(size)
        masked = int(self.mask_ratio * count)
        if not masked:
            raise UserError(f"mask_ratio {self.mask_ratio} masks none of the {count} places")
        return masked

    def encode(self, clips: Tensor, visible: Places) -> Tensor:
        """Encode the visible places of clips (B, 3, T', H', W').

        Returns:
            Tokens (B, T, 1, N, D); where the tokens of all places are needed, (B, T, H, W, D).
        """
        places = self.backbone.embed(clips, visible)
        places = visible.put(places, self.mask_token) if self.whole else places
        tokens = Tokens.of(places, kept=None if self.whole else visible)
        for encoder in self.backbone.encoders:
            tokens = encoder(tokens)
        features = self.backbone.fc_norm(tokens.places)
        return features.expand(*places.shape[:-1], -1)  # of frames that are pooled or averaged

    def decode(self, tokens: Tensor, visible: Places) -> Tensor:
        """Map the result of ``encode`` to tokens (B, T, H, W, D') of the decoder."""
        places = self.to_decoder(tokens)
        places = places if self.whole else visible.put(places, self.mask_token)
        return self.decoder(Tokens.of(places)).places

    def pixels(self, clips: Tensor) -> Tensor:
        """Cut clips (B, 3, T', H', W') into tubelets (B, T, H, W, i j k, 3)."""
        boxes = self.backbone.embed.boxes(clips)
        return boxes.unflatten(-1, (clips.shape[1], -1)).transpose(-1, -2)

    def reconstruct(self, clips: Tensor, visible: Places | None = None) -> tuple[Tensor, Places]:
        """Predict the pixels of all places of clips (B, 3, T', H', W').

        Args:
            clips: Normalized pixels.
            visible: Visible places. Default: drawn.

        Returns:
            Pixels (B, T, H, W, i j k, 3), normalized to the mean and the deviation of each tubelet
            and color, and the visible places. Those of visible places were not trained.
        """
        visible = self.draw_places(clips)[0] if visible is None else visible
        tokens = self.decode(self.encode(clips, visible), visible)
        return self.to_pixels(tokens).unflatten(-1, (-1, clips.shape[1])), visible

    def loss(self, clips: Tensor, visible: Places, masked: Places) -> Tensor:
        """Return the mean squared error of the normalized pixels of masked places."""
        pixels = masked.take(self.backbone.embed.boxes(clips))
        target = pixels.unflatten(-1, (clips.shape[1], -1)).float()  # (B, T, 1, N, 3, i j k)
        std, mean = torch.std_mean(target, -1, keepdim=True)
        target = ((target - mean) / (std + 1e-6)).transpose(-1, -2)
        tokens = self.decode(self.encode(clips, visible), visible)
        predicted = self.to_pixels(masked.take(tokens)).float()
        return mse_loss(predicted, target.flatten(-2))

    def forward(self, inputs: Tensor, data_samples: Any = None, mode: str = "tensor") -> Any:
        """Return the loss, or a reconstruction; see the class."""
        clips = inputs.flatten(0, 1)
        if mode == "loss":
            return {"loss_pixels": self.loss(clips, *self.draw_places(clips))}
        return self.reconstruct(clips)
