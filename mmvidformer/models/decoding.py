"""Decoding of the clips of a batch on the device of the model."""

import logging
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mmvidformer.video.encoded import EncodedClip
from mmvidformer.video.errors import BadVideo, TooManyBadVideos

logger = logging.getLogger("mmvidformer")

LEAST_READ = 1000  # clips of which a share is taken


class ClipDecoder:
    """Decodes the clips that dataloader workers hand on, with the policy for bad videos.

    A video is bad if neither the device nor the CPU can decode it; workers have read its header and
    its first frame before. With ``'resample'`` it is logged and

    - in training another clip of the batch, with its labels, is taken in its place;
    - in testing the clip is black, and its data sample is flagged as by
      ``mmvidformer.SafeDataset``, so that it counts as wrong.

    Each process counts the share of bad clips among those that it decoded, at least 1000.

    Attributes:
        on_bad_video: ``'resample'``, or ``'raise'`` to raise ``BadVideo``.
        max_bad_share: Largest allowed share with ``'resample'``.
    """

    def __init__(self, on_bad_video: str = "raise", max_bad_share: float = 0.05) -> None:
        self.on_bad_video, self.max_bad_share = on_bad_video, max_bad_share
        self._read_count = self._bad_count = 0

    def decode(
        self,
        clips: Sequence[EncodedClip],
        data_samples: Sequence[Any],
        device: torch.device,
        training: bool,
    ) -> tuple[list[Tensor], list[Any]]:
        """Decode a batch.

        Returns:
            Clips of type uint8 on the device, and their data samples.

        Raises:
            BadVideo: If a video is bad, with ``'raise'``.
            TooManyBadVideos: If too many are bad, or all of a batch in training.
        """
        device = with_index(device)
        results = [self._try(clip, device) for clip in clips]
        good = [
            (pixels, sample)
            for pixels, sample in zip(results, data_samples, strict=True)
            if isinstance(pixels, Tensor)
        ]
        decoded, samples = [], []
        for clip, result, sample in zip(clips, results, data_samples, strict=True):
            if isinstance(result, Tensor):
                pixels = result
            elif not training:
                sample = _flagged(sample, result)
                pixels = torch.zeros(clip.shape, dtype=torch.uint8, device=device)
            elif not good:
                raise TooManyBadVideos(f"all clips of a batch are bad; the first is {result}")
            else:
                other_pixels, other_sample = good[int(torch.randint(len(good), ()))]
                pixels, sample = other_pixels.clone(), other_sample.clone()
            decoded.append(pixels)
            samples.append(sample)
        return decoded, samples

    def _try(self, clip: EncodedClip, device: torch.device) -> Tensor | BadVideo:
        """Decode a clip, or return why that cannot be done, which is logged and counted."""
        self._read_count += 1
        try:
            return clip.decode(device)
        except BadVideo as error:
            if self.on_bad_video == "raise":
                raise
            fault = error.with_traceback(None)  # which would keep the frames of the video
        self._bad_count += 1
        logger.warning("bad video: %s", fault)
        if self._bad_count > self.max_bad_share * max(self._read_count, LEAST_READ):
            many = f"{self._bad_count} bad ones among {self._read_count} decoded clips are too many"
            raise TooManyBadVideos(
                f"{many} for max_bad_share={self.max_bad_share:g}; the last is {fault}"
            )
        return fault


def with_index(device: torch.device) -> torch.device:
    """Return the device of this process, with its number: decoders would take the first GPU."""
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device


def _flagged(sample: Any, fault: BadVideo) -> Any:
    """Return a data sample of which all but the predictions is its own annotation."""
    flagged = sample.clone()
    own_keys = tuple(flagged.metainfo_keys())
    flagged.set_metainfo(
        dict(bad_video=fault.reason, bad_path=fault.path, annotation_keys=own_keys)
    )
    return flagged
