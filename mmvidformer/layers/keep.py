"""Which parts of an encoder need all tokens of a clip, of which none stands for several."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from torch import Tensor

from mmvidformer.layers.config import EncoderConfig, name_of
from mmvidformer.layers.kernels import KERNELS
from mmvidformer.layers.lookup import look_up
from mmvidformer.layers.patterns import PATTERNS
from mmvidformer.layers.tokens import Places


class Refusals(NamedTuple):
    """Parts of an encoder that cannot do without all tokens of a clip.

    Attributes:
        places: Those that need all places of a frame.
        frames: Those that need the tokens as frames.
        counts: Those that cannot count a token several times, or ignore padding.
    """

    places: tuple[str, ...]
    frames: tuple[str, ...]
    counts: tuple[str, ...]

    def check(self, keep: Places | None, weight: Tensor | None) -> None:
        """Raise a ValueError that names the first part that cannot do with what is given."""
        if keep is not None and keep.in_frames and self.places:
            raise ValueError(f"{self.places[0]} needs all places of a frame; leave none out")
        if keep is not None and not keep.in_frames and self.frames:
            raise ValueError(
                f"{self.frames[0]} needs tokens in frames; leave out the same places in all frames"
            )
        if weight is not None and self.counts:
            raise ValueError(
                f"{self.counts[0]} cannot count a token several times or ignore padding; leave "
                "weight out"
            )


def refusals(config: EncoderConfig) -> Refusals:
    """Find the parts of an encoder that need all tokens."""
    neighbors = tuple(_parts_that_read_neighbors(config))
    places: list[str] = []
    frames: list[str] = []
    counts: list[str] = []
    if config.frames != "together":
        frames.append(f"frames={config.frames!r}")
    for sublayer in config.sublayers:
        name = str(name_of(sublayer.kernel))
        kernel = look_up(KERNELS, name, "attention kernel")
        for choice in sublayer.patterns:
            pattern = PATTERNS.build(choice)
            joins_places = any(axis in pattern.tokens for axis in "hw")
            if joins_places and "any_order" not in kernel.supports:
                places.append(f"kernel {name!r}")
            if not pattern.any_places:
                places.append(f"pattern {choice!r}")
            if not pattern.whole:
                frames.append(f"pattern {choice!r}")
            if "causal" in pattern.needs:
                counts.append(f"pattern {choice!r}")
            if "pairs" in pattern.needs and sublayer.cls == "mean":  # its groups join both ends
                counts.append(f"pattern {choice!r} with cls='mean'")
        if kernel.needs_length:
            places.append(f"kernel {name!r}")
        if "counts" not in kernel.supports:
            counts.append(f"kernel {name!r}")
    needing_places = (*places, *neighbors)
    return Refusals(needing_places, (*frames, *needing_places), (*counts, *neighbors))


def _parts_that_read_neighbors(config: EncoderConfig) -> Iterator[str]:
    for sublayer in config.sublayers:
        yield from (f"shift {shift!r}" for shift in sublayer.shifts)
    if isinstance(config.mlp, Mapping) and config.mlp.get("depthwise"):
        yield "depthwise=True"
