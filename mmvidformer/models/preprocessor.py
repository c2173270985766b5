from mmvidformer.errors import UserError

from mmvidformer.registry import MODELS, TRANSFORMS  # isort: skip  (repairs MMAction2 first)

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from einops import rearrange
from mmaction.models.data_preprocessors import ActionDataPreprocessor
from mmaction.structures import ActionDataSample
from mmengine.dist import get_rank
from torch import Tensor, nn

from mmvidformer.models.decoding import ClipDecoder
from mmvidformer.models.heads import Samples
from mmvidformer.models.lengths import ClipList
from mmvidformer.video.encoded import EncodedClip


@MODELS.register_module()
class VideoDataPreprocessor(ActionDataPreprocessor):
    """MMAction2's preprocessor with decoding, and augmentation of training clips, on the device.

    Each sample is augmented by itself, before normalization, and may have its own size. Parameters
    are drawn on the CPU, so a seed gives the same batches; they differ between processes.

    Videos that workers did not decode (``video.encoded``) are decoded by ``decoder``.

    Clips of different lengths are not padded: the batch is a list of them, which
    ``MultiViewRecognizer`` and ``RecurrentRecognizer`` take.

    Args:
        augment: Configs of transforms of this package whose names begin with ``Clip``, or of
            torchvision's v2, such as ``dict(type='torchvision.transforms.v2.RandomGrayscale')``.
            They are called with frames (N, 3, H, W), uint8, and labels (tasks,), and draw from the
            generators of ``torch`` and ``random`` on the CPU.
        **kwargs: Arguments of ``ActionDataPreprocessor``.

    Raises:
        UserError: If a transform is not a module, such as MMAction2's, or if clips of different
            lengths are to be blended.
    """

    def __init__(self, augment: Sequence[dict] = (), **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.decoder = ClipDecoder()
        self.augment = [TRANSFORMS.build(config) for config in augment]
        for transform in self.augment:
            if not isinstance(transform, nn.Module):
                raise UserError(
                    "augmentations must be transforms of torchvision.transforms.v2 or "
                    f"mmvidformer.Clip..., got {type(transform).__name__}"
                )

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
        lengths = sorted({clip.shape[-3] for clip in inputs})
        if len(lengths) > 1:
            if training and self.blending is not None:
                raise UserError(f"blending needs clips of one length, got {lengths} frames")
            preprocess = super().preprocess
            return ClipList(preprocess([clip], None)[0][0] for clip in inputs), data_samples
        return super().preprocess(inputs, data_samples, training)

    def augment_clip(self, inputs: Tensor, sample: ActionDataSample) -> Tensor:
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


@contextmanager
def process_random_state() -> Iterator[None]:
    """Let each process draw differently, although MMEngine may seed all of them equally."""
    seed = int(torch.randint(2**62, ())) + get_rank()
    state = random.getstate()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(state)
