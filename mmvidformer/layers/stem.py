"""What others read of a stem, by which a clip becomes a grid of tokens."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from einops import rearrange
from torch import Tensor, nn

from mmvidformer.errors import UserError
from mmvidformer.layers.tokens import Places, Size


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


def triple(values: Sequence[int]) -> Size:
    """Return three sizes as a tuple."""
    t, h, w = values
    return t, h, w
