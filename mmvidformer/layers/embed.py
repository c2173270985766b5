"""Tubelets of pixels become tokens."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from mmvidformer.errors import UserError
from mmvidformer.layers.stem import Stem
from mmvidformer.layers.tokens import Size
from mmvidformer.lookup import Registry


class TubeletConv(nn.Conv3d):
    """A convolution that is computed as a linear layer if its inputs do not overlap.

    The width of the output is last in memory, so that tokens need no copy.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Map (B, C, T', H', W') to (B, D, T, H, W)."""
        if self.stride != self.kernel_size or any(self.padding):
            return super().forward(input)
        (t, h, w), (i, j, k) = input.shape[2:], self.stride
        whole = input[:, :, : t - t % i, : h - h % j, : w - w % k]
        pixels = rearrange(whole, "b c (t i) (h j) (w k) -> b t h w (c i j k)", i=i, j=j, k=k)
        return F.linear(pixels, self.weight.flatten(1), self.bias).permute(0, 4, 1, 2, 3)


class FrameConvs(nn.Sequential):
    """3 x 3 convolutions of stride 2 within each frame, each with a norm and SiLU.

    Xiao et al. 2021 ("Early convolutions help transformers see better") put such convolutions in
    the place of large patches. The norm is over a frame, as in HORST's stem, not over a batch: so
    a stream is equal to its clip in training too.

    Args:
        in_channels: Number of channels of a clip.
        widths: Number of channels of each convolution.
    """

    def __init__(self, in_channels: int, widths: Sequence[int]) -> None:
        super().__init__()
        for channels, width in zip((in_channels, *widths), widths, strict=False):
            self.append(nn.Conv2d(channels, width, 3, stride=2, padding=1, bias=False))
            self.append(nn.GroupNorm(1, width))
            self.append(nn.SiLU())

    def forward(self, clip: Tensor) -> Tensor:
        """Map a clip (B, C, T', H', W') to maps (B, width, T', h, w)."""
        maps = super().forward(clip.transpose(1, 2).flatten(0, 1))
        return maps.unflatten(0, (-1, clip.shape[2])).transpose(1, 2)


class TubeletEmbedding(Stem):
    """Split a clip into tubelets and project each to a token (ViViT, section 3.2).

    With ``tubelet[0] == 1`` it is the patch embedding of single frames (ViT, TimeSformer). As in a
    convolution, pixels at the end of an axis that do not fill a tubelet are ignored.

    Args:
        dim: Token width D.
        tubelet: Size of a tubelet in frames, rows and columns.
        in_channels: Number of channels C of the clip.
        stride: Stride in frames, rows and columns. Default: the size of the tubelet, so that
            tubelets do not overlap.
        padding: Zero padding in frames, rows and columns.
        norm: Whether to apply a layer norm (epsilon 1e-5) to the tokens.
        images: Whether clips of one frame are images, which have a projection of their own, without
            an axis of time (V-JEPA 2.1).
        convs: Widths of convolutions before the tubelets (``FrameConvs``), each of which halves
            height and width. Sizes of tubelets are then those of their maps.

    Attributes:
        tubelet: Size of a tubelet in pixels, with what the convolutions see around it; likewise
            ``stride`` and ``padding``.

    Raises:
        UserError: If tubelet or stride is not positive, or ``images`` is set for tubelets of one
            frame, or of tubelets that overlap.
    """

    def __init__(
        self,
        dim: int,
        tubelet: Size,
        in_channels: int = 3,
        stride: Size | None = None,
        padding: Size = (0, 0, 0),
        norm: bool = False,
        images: bool = False,
        convs: Sequence[int] = (),
    ) -> None:
        super().__init__(in_channels, tubelet, stride, padding)
        self.convs = FrameConvs(in_channels, convs) if convs else nn.Identity()
        channels = convs[-1] if convs else in_channels
        self.proj = TubeletConv(channels, dim, self.tubelet, self.stride, self.padding)
        for _ in convs:  # one convolution with all of them has this geometry
            (t, h, w), (i, j, k), (u, y, x) = self.tubelet, self.stride, self.padding
            self.tubelet, self.stride = (t, 2 * h + 1, 2 * w + 1), (i, 2 * j, 2 * k)
            self.padding = (u, 2 * y + 1, 2 * x + 1)
        self.norm = nn.LayerNorm(dim) if norm else nn.Identity()
        self.image_proj: TubeletConv | None = None
        if images:
            if self.tubelet[0] == 1 or self.overlaps:
                raise UserError(
                    "images=True needs tubelets of several frames that do not overlap, got tubelet "
                    f"{self.tubelet}, stride {self.stride}, padding {self.padding}"
                )
            size = (1, *self.tubelet[1:])
            self.image_proj = TubeletConv(in_channels, dim, size, size)

    def size_of(self, frames: int) -> Size:
        """Return the size of the tubelets of a clip of some frames: one frame in images."""
        return (1, *self.tubelet[1:]) if self._is_image(frames) else self.tubelet

    def embed(self, clip: Tensor) -> Tensor:
        """Map a clip (B, C, T', H', W') to tokens (B, T, H, W, D)."""
        proj: Any = self.image_proj if self._is_image(clip.shape[2]) else self.proj
        return self.norm(proj(self.convs(clip)).permute(0, 2, 3, 4, 1))

    def unread(self, clip_len: int) -> Iterator[nn.Module]:
        """Yield the embedding of images in models of clips, or of clips in models of images."""
        if self.image_proj is not None:
            yield self.proj if clip_len == 1 else self.image_proj

    def _is_image(self, frames: int) -> bool:
        return self.image_proj is not None and frames == 1


STEMS: Registry[Stem] = Registry("stem", {"tubelets": TubeletEmbedding}, Stem)
