"""Transforms that hand on a video as it is, to be decoded on the device of the model."""

import mmvidformer.repairs  # noqa: F401  isort: skip  (repairs MMAction2 first)

from dataclasses import replace

import numpy as np
from mmaction.datasets.transforms import PackActionInputs

from mmvidformer.catalog import TRANSFORMS
from mmvidformer.data.transforms.decode import VideoDecode
from mmvidformer.errors import UserError
from mmvidformer.video.encoded import EncodedClip, content_of, crop_of, places_of
from mmvidformer.video.video import Video


@TRANSFORMS.add
class DecodeLater(VideoDecode):
    """Take the file of a video, in place of ``VideoDecode``.

    The first frame alone is decoded, since it tells the size. Transforms that follow get one
    picture of the places of pixels (``places_of``) in place of the frames, so they draw and compute
    the same as on frames. ``PackEncodedInputs`` ends the pipeline. Added key: ``encoded``.
    """

    def transform(self, results: dict) -> dict:
        """Set ``results['encoded']``, and the keys of ``VideoDecode``."""
        video: Video = results["video_reader"]
        numbers = video.numbers_in_file(np.ravel(results["frame_inds"]))
        results = super().transform(results)
        name, size = results["filename"], results["original_shape"]
        return {**results, "encoded": EncodedClip(content_of(video), name, numbers, size)}

    def decode(self, video: Video, numbers: np.ndarray) -> list[np.ndarray]:
        """Return the places of the pixels of a frame, in place of frames."""
        return [places_of(*video.size)]


@TRANSFORMS.add
class PackEncodedInputs(PackActionInputs):
    """Pack a video for the preprocessor, in place of ``FormatShape`` and ``PackActionInputs``.

    ``inputs`` is an ``EncodedClip``.

    Args:
        input_format: ``'NCTHW'`` or ``'NCHW'``, as in ``FormatShape``.
        collapse: As in ``FormatShape``.
        **kwargs: Arguments of ``PackActionInputs``.

    Raises:
        UserError: If the format is another one, or a transform changed pixels (from
            ``transform``).
    """

    def __init__(self, input_format: str = "NCTHW", collapse: bool = False, **kwargs) -> None:
        super().__init__(**kwargs)
        if input_format not in ("NCTHW", "NCHW"):
            wanted = "videos that are decoded later need the format NCTHW or NCHW"
            raise UserError(f"{wanted}, got {input_format!r}")
        self.input_format, self.collapse = input_format, collapse

    def transform(self, results: dict) -> dict:
        """Return ``inputs`` and ``data_samples``."""
        clip: EncodedClip = results["encoded"]
        clip = replace(
            clip,
            crops=tuple(crop_of(places, clip.size) for places in results["imgs"]),
            clip_len=results["clip_len"] if self.input_format == "NCTHW" else None,
            collapse=self.collapse,
        )
        packed = super().transform({**results, "imgs": np.zeros(0)})
        return {**packed, "inputs": clip}
