"""Base class of the video backbones."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from mmvidformer.convert.image_vit import init_from_image
from mmvidformer.layers import Encoder, SubLayer, TubeletEmbedding
from mmvidformer.lookup import look_up


@dataclass(frozen=True)
class Arch:
    """Size of a transformer.

    Args:
        embed_dims: Token width D.
        depth: Number of blocks.
        num_heads: Number of attention heads.
        mlp_ratio: Hidden width of the MLPs over D.
    """

    embed_dims: int
    depth: int
    num_heads: int
    mlp_ratio: float = 4.0

    @classmethod
    def of(cls, arch: str | Mapping, table: Mapping[str, "Arch"]) -> "Arch":
        """Look up an architecture by its name, or make one from a dictionary.

        Raises:
            KeyError: If the name is unknown.
            ValueError: If the dictionary lacks a size or has an unknown key.
        """
        if isinstance(arch, str):
            return look_up(table, arch, "arch")
        try:
            return cls(**arch)
        except TypeError:
            raise ValueError(
                "arch must have embed_dims, depth, num_heads and optionally mlp_ratio, "
                f"got {dict(arch)}"
            ) from None


@dataclass(frozen=True)
class Scheme:
    """A factorization of space-time attention: a row of a model's table.

    Args:
        sublayers: Sub-layers of a block.
        per_frame: Whether each frame is encoded on its own, with its own class token.
        cls: Whether the scheme supports a class token.
    """

    sublayers: tuple[SubLayer, ...]
    per_frame: bool = False
    cls: bool = True


class VideoBackbone(nn.Module):
    """Map clips to features with a tubelet embedding and a transformer encoder.

    A subclass builds ``embed`` and ``encoder`` and implements ``forward_features``.

    Attributes:
        embed_dims: Width D of the features.
        embed: Tubelet embedding.
        encoder: Encoder on the tokens of the embedding.
        temporal_init: Default of the argument ``temporal`` of
            ``convert.image_vit.init_from_image``.

    Args:
        embed_dims: Width D of the features.
        init_from: Image model that ``init_weights`` loads: a source (``'timm:NAME'`` or a file), or
            a dictionary of the arguments of ``convert.image_vit.init_from_image``. None: no model.
    """

    embed: TubeletEmbedding
    encoder: Encoder
    temporal_init = "copy_with_norm"

    def __init__(self, embed_dims: int, init_from: str | Mapping | None = None) -> None:
        super().__init__()
        self.embed_dims = embed_dims
        self.init_from = init_from

    def init_weights(self) -> None:
        """Load the image model ``init_from``, if any; MMEngine calls it once before training."""
        if self.init_from is None:
            return
        options = self.init_from
        options = {"source": options} if isinstance(options, str) else options
        init_from_image(self, **{"temporal": self.temporal_init, **options})

    def forward_features(self, clip: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Map normalized pixels (B, 3, T', H', W') to a normalized grid and a class token."""
        raise NotImplementedError

    def forward(self, clip: Tensor) -> Tensor:
        """Map normalized pixels (B, 3, T', H', W') to features (B, D)."""
        return pool(*self.forward_features(clip))


def pool(grid: Tensor | None, cls: Tensor | None) -> Tensor:
    """Return the class token (B, 1, D), or else the mean of the grid, as features (B, D)."""
    if cls is not None:
        return cls[:, 0]
    assert grid is not None, "an encoder returns a grid if it has no class token"
    return grid.mean(dim=(1, 2, 3))


def height_and_width(img_size: int | tuple[int, int]) -> tuple[int, int]:
    """Return the height and width of an image from its side, or from both."""
    if isinstance(img_size, int):
        return img_size, img_size
    height, width = img_size
    return height, width
