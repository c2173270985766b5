"""Augmentation and normalization of batches on the device."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from mmaction.models.data_preprocessors import ActionDataPreprocessor
from mmaction.structures import ActionDataSample
from mmengine.dist import get_rank
from torch import Tensor

from mmvidformer.registry import MODELS, TRANSFORMS


@MODELS.register_module()
class VideoDataPreprocessor(ActionDataPreprocessor):
    """MMAction2's preprocessor with augmentation of training clips before normalization.

    Each sample is augmented by itself, and may have its own size before. Parameters are drawn on
    the CPU, so a seed gives the same batches; they differ between processes.

    Args:
        augment: Transforms of ``ClipAugment``.
        **kwargs: Arguments of ``ActionDataPreprocessor``.
    """

    def __init__(self, augment: Sequence[dict] = (), **kwargs: object) -> None:
        super().__init__(**kwargs)
        # By its full name, which each default scope finds.
        kind = "mmvidformer.datasets.transforms.augment.ClipAugment"
        self.augment = TRANSFORMS.build(dict(type=kind, transforms=augment))

    def preprocess(
        self,
        inputs: list[Tensor],
        data_samples: list[ActionDataSample] | None,
        training: bool = False,
    ) -> tuple[Tensor, list[ActionDataSample] | None]:
        """Augment clips (views, C, T, H, W) in training, then stack, normalize and blend them."""
        if training and self.augment.transforms:
            # Training steps call this under autocast, which would round pixels.
            with own_draws(), torch.autocast(inputs[0].device.type, enabled=False):
                packed = zip(inputs, data_samples or (), strict=True)
                inputs = [self.augment(dict(inputs=x, data_samples=y))["inputs"] for x, y in packed]
        return super().preprocess(inputs, data_samples, training)


@contextmanager
def own_draws() -> Iterator[None]:
    """Let each process draw differently, although MMEngine may seed all of them equally."""
    seed, state = int(torch.randint(2**62, ())) + get_rank(), random.getstate()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(state)
