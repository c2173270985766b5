"""What happens to a batch before a model gets it."""

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, distributed, nn

from mmvidformer.catalog import MODELS, TRANSFORMS
from mmvidformer.errors import UserError
from mmvidformer.layers.samples import Sample, Samples
from mmvidformer.models.decoding import ClipDecoder
from mmvidformer.models.lengths import ClipList
from mmvidformer.video.encoded import EncodedClip

# Dimensions of the clip that follow the channels.
SIZES = {"NCHW": 2, "NCTHW": 3}


@MODELS.add
class VideoDataPreprocessor(nn.Module):
    """MMAction2's ``ActionDataPreprocessor``, with decoding and augmentation on the device.

    Clips go to the device, are stacked, and normalized: (pixels - mean) / std. Smaller clips are
    padded with zeros on the right and below.

    Each sample is augmented by itself in training, before normalization, and may have its own size.
    Parameters are drawn on the CPU, so a seed gives the same batches; they differ between
    processes.

    Videos that workers did not decode (``video.encoded``) are decoded by ``decoder``.

    Clips of different lengths are not padded: the batch is a list of them, which
    ``MultiViewRecognizer`` and ``RecurrentRecognizer`` take.

    Args:
        augment: Configs of transforms of this package whose names begin with ``Clip``, or of
            torchvision's v2, such as ``dict(type='torchvision.transforms.v2.RandomGrayscale')``.
            They are called with frames (N, 3, H, W), uint8, and labels (tasks,), and draw from the
            generators of ``torch`` and ``random`` on the CPU.
        mean: Mean of each channel, 0 to 255. Default: clips are not normalized.
        std: Standard deviation of each channel.
        to_rgb: Whether the channels change from BGR to RGB.
        to_float32: Whether clips that are not normalized become float32.
        blending: Config of what blends the clips of a batch in training.
        format_shape: ``'NCHW'``, ``'NCTHW'``, or ``'MIX2d3d'`` for both.

    Raises:
        UserError: If a transform is not a module, such as MMAction2's, if clips of different
            lengths are to be blended, if ``mean`` comes without ``std``, or if the shape is
            unknown.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        augment: Sequence[Mapping[str, Any]] = (),
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        to_rgb: bool = False,
        to_float32: bool = True,
        blending: Mapping[str, Any] | None = None,
        format_shape: str = "NCHW",
    ) -> None:
        super().__init__()
        if format_shape not in (*SIZES, "MIX2d3d"):
            names = ", ".join((*SIZES, "MIX2d3d"))
            raise UserError(f"format_shape must be one of {names}, got {format_shape!r}")
        if (mean is None) != (std is None):
            raise UserError(f"mean and std belong together, got mean={mean} and std={std}")
        self.to_rgb, self.to_float32, self.format_shape = to_rgb, to_float32, format_shape
        # Its device is that of the model.
        self._place: Tensor
        self.register_buffer("_place", torch.empty(0), persistent=False)
        if mean is not None:
            ones = (1,) * SIZES.get(format_shape, 3)
            for name, values in dict(mean=mean, std=std).items():
                buffer = torch.tensor(values, dtype=torch.float32).view(-1, *ones)
                self.register_buffer(name, buffer, persistent=False)
        self.decoder = ClipDecoder()
        self.blending = None if blending is None else MODELS.build(blending)
        self.augment = [TRANSFORMS.build(config) for config in augment]
        for transform in self.augment:
            if not isinstance(transform, nn.Module):
                raise UserError(
                    "augmentations must be transforms of torchvision.transforms.v2 or "
                    f"mmvidformer.Clip..., got {type(transform).__name__}"
                )

    @property
    def device(self) -> torch.device:
        """Where batches go."""
        return self._place.device

    def cast_data(self, data: Any) -> Any:
        """Copy tensors and data samples, in any nesting, to the device."""
        if isinstance(data, Mapping):
            return {key: self.cast_data(value) for key, value in data.items()}
        if isinstance(data, tuple) and hasattr(data, "_fields"):
            return type(data)(*map(self.cast_data, data))
        if isinstance(data, list | tuple):
            return type(data)(map(self.cast_data, data))
        return data.to(self.device) if hasattr(data, "to") else data

    def forward(self, data: Any, training: bool = False) -> Any:
        """Preprocess a batch, or several: ``inputs``, a list of clips, and ``data_samples``."""
        if isinstance(data, list | tuple):
            return tuple(self(batch, training) for batch in data)
        data = self.cast_data(data)
        clips, samples = self.preprocess(data["inputs"], data["data_samples"], training)
        return {**data, "inputs": clips, "data_samples": samples}

    def preprocess(
        self,
        inputs: list[Tensor] | list[EncodedClip],
        data_samples: Samples | None,
        training: bool = False,
    ) -> tuple[Tensor | ClipList, Samples | None]:
        """Augment clips (views, C, T, H, W) in training, then stack, normalize and blend them.

        Encoded clips are decoded before.
        """
        if isinstance(inputs[0], EncodedClip):
            samples = data_samples or []
            inputs, data_samples = self.decoder.decode(inputs, samples, self.device, training)
        if training and self.augment:
            # Training steps call this under autocast, which would round pixels.
            with process_random_state(), torch.autocast(inputs[0].device.type, enabled=False):
                inputs = [
                    self.augment_clip(clip, sample)
                    for clip, sample in zip(inputs, data_samples or (), strict=True)
                ]
        if len({clip.shape[-3] for clip in inputs}) > 1:
            if training and self.blending is not None:
                lengths = sorted({clip.shape[-3] for clip in inputs})
                raise UserError(f"blending needs clips of one length, got {lengths} frames")
            return ClipList(self.normalize(clip[None])[0] for clip in inputs), data_samples
        clips = self.normalize(stack_clips(inputs))
        if training and self.blending is not None:
            return self.blending(clips, data_samples)
        return clips, data_samples

    def normalize(self, clips: Tensor) -> Tensor:
        """Normalize stacked clips (B, ..., C, T, H, W), or frames (B, ..., C, H, W)."""
        sizes = SIZES.get(self.format_shape, 2 if clips.ndim == 4 else 3)
        if self.to_rgb:
            clips = clips.flip(-1 - sizes)
        if not hasattr(self, "mean"):
            return clips.float() if self.to_float32 else clips
        mean, std = (values.view(-1, *(1,) * sizes) for values in (self.mean, self.std))
        return (clips - mean) / std

    def augment_clip(self, inputs: Tensor, sample: Sample) -> Tensor:
        """Augment all frames and views of a clip in the same way, and change its labels.

        Args:
            inputs: RGB frames (views, 3, T, H, W) or (frames, 3, H, W), uint8.
            sample: Its data sample.
        """
        views = inputs.shape[0] if inputs.dim() == 5 else None
        frames = inputs if views is None else rearrange(inputs, "v c t h w -> (v t) c h w")
        label = sample.get("gt_label")
        for transform in self.augment:
            frames, label = transform(frames, label)
        if label is not None:
            sample.set_gt_label(label)
        return frames if views is None else rearrange(frames, "(v t) c h w -> v c t h w", v=views)


def stack_clips(clips: Sequence[Tensor]) -> Tensor:
    """Stack clips; smaller ones are padded with zeros at the ends of all dimensions but one."""
    shapes = torch.tensor([clip.shape for clip in clips])
    missing = shapes.amax(dim=0) - shapes
    missing[:, 0] = 0  # of views, or channels
    after = missing.flip(1)  # ``F.pad`` takes the last dimension first
    pads = torch.stack([torch.zeros_like(after), after], dim=2).flatten(1).tolist()
    return torch.stack([F.pad(clip, pad) for clip, pad in zip(clips, pads, strict=True)])


def number_of_process() -> int:
    """Return the rank of this process, 0 if it is alone."""
    return distributed.get_rank() if distributed.is_initialized() else 0


@contextmanager
def process_random_state() -> Iterator[None]:
    """Let each process draw differently, although MMEngine may seed all of them equally."""
    seed = int(torch.randint(2**62, ())) + number_of_process()
    state = random.getstate()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(state)
