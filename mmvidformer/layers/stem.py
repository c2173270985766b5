"""By what a clip becomes a grid of tokens: what others read of it, and tubelets of pixels."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from mmvidformer.errors import UserError
from mmvidformer.layers.config import Choice
from mmvidformer.layers.norm import NORMS
from mmvidformer.layers.tokens import Places, Size
from mmvidformer.lookup import Registry


class Stem(nn.Module, ABC):
    """A clip becomes a grid of tokens, each of a tubelet of pixels.

    Built with ``dim``, the token width D, and its own options. A subclass implements ``embed``.
    All else follows from the sizes: which tokens can be left out, streams, run lengths, masked
    pretraining. Tubelets that overlap, or have padding, cannot be computed one by one.

    Attributes:
        in_channels: Number of channels C of a clip.
        tubelet: Size of the pixels that a token sees, in frames, rows and columns.
        stride: Stride from tubelet to tubelet.
        padding: Zero padding around the clip.

    Args:
        in_channels: See above, like the next three.
        tubelet: See above.
        stride: Default: the size of the tubelet.
        padding: See above.

    Raises:
        UserError: If tubelet or stride is not positive.
    """

    def __init__(
        self,
        in_channels: int,
        tubelet: Sequence[int],
        stride: Sequence[int] | None = None,
        padding: Sequence[int] = (0, 0, 0),
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.tubelet, self.padding = triple(tubelet), triple(padding)
        self.stride = self.tubelet if stride is None else triple(stride)
        if min(*self.tubelet, *self.stride) < 1:
            raise UserError(f"tubelet and stride must be positive, got {tubelet} and {stride}")

    @abstractmethod
    def embed(self, clip: Tensor) -> Tensor:
        """Map a clip (B, C, T', H', W') to tokens (B, T, H, W, D)."""

    def unread(self, clip_len: int) -> Iterator[nn.Module]:
        """Yield parts that clips of some frames do not reach; by default none."""
        return iter(())

    def size_of(self, frames: int) -> Size:
        """Return the size of the tubelets of a clip of some frames."""
        return self.tubelet

    @property
    def overlaps(self) -> bool:
        """Whether tubelets overlap, leave gaps or have padding."""
        return self.stride != self.tubelet or any(self.padding)

    @property
    def separate_frames(self) -> bool:
        """Whether each frame is in one tubelet, so that tubelets follow each other in time."""
        return self.stride[0] == self.tubelet[0] and not self.padding[0]

    def grid(self, size: Sequence[int]) -> Size:
        """Return the grid (T, H, W) of the tokens of a clip (T', H', W').

        Raises:
            UserError: If the clip is smaller than a tubelet.
        """
        tubelet = self.size_of(size[0])
        stride = self.stride if tubelet == self.tubelet else tubelet
        axes = zip(size, self.padding, tubelet, stride, strict=True)
        grid = triple([(n + 2 * p - k) // s + 1 for n, p, k, s in axes])
        if min(grid) < 1:
            sides = " x ".join(map(str, size))
            raise UserError(f"a clip of {sides} is smaller than a tubelet {tubelet}")
        return grid

    def forward(self, clip: Tensor, kept: Places | None = None) -> Tensor:
        """Embed a clip.

        Args:
            clip: Pixels (B, C, T', H', W').
            kept: Places of the tokens that are wanted. Default: all.

        Returns:
            Tokens (B, T, H, W, D); those at some places are as ``Places.take`` returns them.

        Raises:
            UserError: If the clip does not have five axes and C channels, or is smaller than a
                tubelet, or places are left out, but tubelets overlap.
        """
        self.check(clip)
        grid = self.grid(clip.shape[2:])
        if kept is None:
            return self.embed(clip)
        if self.overlaps:
            raise UserError(
                "places can be left out if tubelets do not overlap, without padding; got "
                f"tubelet {self.tubelet}, stride {self.stride}, padding {self.padding}"
            )
        if tuple(kept.size) not in (grid, grid[1:]):
            raise UserError(f"places must be of {grid[1:]} or {grid}, the grid, got {kept.size}")
        return self.embed_boxes(kept.take(self.boxes(clip)))

    def check(self, clip: Tensor) -> None:
        """Raise a UserError if a clip does not have five axes and C channels."""
        channels, shape = self.in_channels, tuple(clip.shape)
        if len(shape) != 5 or shape[1] != channels:
            images = "; Recognizer2D gives images: use Recognizer3D, and format_shape='NCTHW'"
            hint = images if len(shape) == 4 else ""
            raise UserError(f"a clip must have shape (B, {channels}, T, H, W), got {shape}{hint}")

    def embed_boxes(self, boxes: Tensor) -> Tensor:
        """Embed tubelets (..., C i j k), as ``boxes`` cuts them: tokens (..., D)."""
        size = (self.in_channels, -1, *self.tubelet[1:])
        clips = boxes.flatten(0, -2).unflatten(1, size)  # of a tubelet each
        return self.embed(clips).view(*boxes.shape[:-1], -1)

    def boxes(self, clip: Tensor) -> Tensor:
        """Cut a clip (B, C, T', H', W') into tubelets (B, T, H, W, C i j k) of pixels."""
        (i, j, k), (t, h, w) = self.size_of(clip.shape[2]), self.grid(clip.shape[2:])
        whole = clip[:, :, : t * i, : h * j, : w * k]
        return rearrange(whole, "b c (t i) (h j) (w k) -> b t h w (c i j k)", i=i, j=j, k=k)

    def sample_boxes(self, clip: Tensor) -> Tensor:
        """Return each fourth row of the first channel and frame of tubelets, (B, T, H, W, S)."""
        (i, j, k), (t, h, w) = self.size_of(clip.shape[2]), self.grid(clip.shape[2:])
        whole = clip[:, 0, : t * i : i, : h * j, : w * k]
        return rearrange(whole, "b t (h j) (w k) -> b t h w j k", j=j, k=k)[..., ::4, :].flatten(4)


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
        norm: Norm of the tokens, as in ``EncoderConfig``. True: a layer norm of epsilon 1e-5.
        norm_pre: Norm of the pixels of each tubelet, likewise (InternVideo-Next).
        images: Whether clips of one frame are images, which have a projection of their own, without
            an axis of time (V-JEPA 2.1).
        convs: Widths of convolutions before the tubelets (``FrameConvs``), each of which halves
            height and width. Sizes of tubelets are then those of their maps.

    Attributes:
        tubelet: Size of a tubelet in pixels, with what the convolutions see around it; likewise
            ``stride`` and ``padding``.

    Raises:
        UserError: If tubelet or stride is not positive, or ``images`` is set for tubelets of one
            frame, or of tubelets that overlap, or ``norm_pre`` with these, ``images`` or ``convs``.
    """

    def __init__(
        self,
        dim: int,
        tubelet: Size,
        in_channels: int = 3,
        stride: Size | None = None,
        padding: Size = (0, 0, 0),
        norm: bool | Choice = False,
        norm_pre: Choice = "none",
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
        after: Choice = {"type": "layer", "eps": 1e-5} if norm is True else norm or "none"
        self.norm = NORMS.build(after, normalized_shape=dim)
        width = in_channels * math.prod(self.tubelet)
        self.norm_pre = NORMS.build(norm_pre, normalized_shape=width)
        if norm_pre != "none" and (self.overlaps or images or convs):
            raise UserError(
                f"norm_pre={norm_pre!r} needs tubelets of videos that do not overlap, without "
                "padding and convolutions"
            )
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
        if not isinstance(self.norm_pre, nn.Identity):
            pixels = self.norm_pre(self.boxes(clip))
            return self.norm(F.linear(pixels, self.proj.weight.flatten(1), self.proj.bias))
        proj: Any = self.image_proj if self._is_image(clip.shape[2]) else self.proj
        return self.norm(proj(self.convs(clip)).permute(0, 2, 3, 4, 1))

    def unread(self, clip_len: int) -> Iterator[nn.Module]:
        """Yield the embedding of images in models of clips, or of clips in models of images."""
        if self.image_proj is not None:
            yield self.proj if clip_len == 1 else self.image_proj

    def _is_image(self, frames: int) -> bool:
        return self.image_proj is not None and frames == 1


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


def triple(values: Sequence[int]) -> Size:
    """Return three sizes as a tuple."""
    t, h, w = values
    return t, h, w


STEMS: Registry[Stem] = Registry("stem", {"tubelets": TubeletEmbedding}, Stem)
