"""Mixup as scenic's ViViT does it, for one task or several."""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from mmaction.models.utils import BaseMiniBatchBlending
from mmaction.structures import ActionDataSample
from torch import Tensor
from torch.distributions import Beta

from mmvidformer.registry import MODELS


@MODELS.register_module()
class ReversedMixup(BaseMiniBatchBlending):
    """Mix each clip with the one at the mirrored place of the batch, with one weight a device.

    Mixup (Zhang et al. 2018) in the form of ViViT's official code; MMAction2's ``MixupBlending``
    draws partners by a permutation and knows one task. Labels become distributions; smoothing is
    left to the head and comes after. To be named in ``ActionDataPreprocessor(blending=...)``.

    Args:
        num_classes: Classes, or the classes of each task by its name, in the order of the labels
            and of ``MultiTaskHead``.
        alpha: Both parameters of the Beta distribution that the weight is drawn from.

    Raises:
        ValueError: If ``alpha`` is not positive.
    """

    def __init__(self, num_classes: int | Mapping[str, int], alpha: float = 0.3) -> None:
        if alpha <= 0:
            raise ValueError(f"alpha of mixup must be positive, got {alpha}")
        sizes = [num_classes] if isinstance(num_classes, int) else list(num_classes.values())
        super().__init__(sum(sizes))
        self.sizes = sizes
        self.beta = Beta(alpha, alpha)

    def __call__(
        self, imgs: Tensor, batch_data_samples: list[ActionDataSample]
    ) -> tuple[Tensor, list[ActionDataSample]]:
        """Mix a batch.

        Args:
            imgs: Clips (N, views, C, T, H, W), float.
            batch_data_samples: Samples whose ``gt_label`` holds a class for each task.

        Returns:
            Mixed clips, and the samples with distributions (sum of classes) as labels.

        Raises:
            ValueError: If a label has not one class for each task.
        """
        labels = torch.stack([sample.gt_label for sample in batch_data_samples]).to(imgs.device)
        if labels.shape[1] != len(self.sizes):
            raise ValueError(
                f"mixup of {len(self.sizes)} tasks got labels of shape {tuple(labels.shape)}"
            )
        one_hot = torch.cat(
            [F.one_hot(label, n) for label, n in zip(labels.unbind(1), self.sizes, strict=True)],
            dim=1,
        )
        imgs, soft = self.do_blending(imgs, one_hot.to(imgs.dtype))
        for sample, label in zip(batch_data_samples, soft, strict=True):
            sample.set_gt_label(label)
        return imgs, batch_data_samples

    def do_blending(self, imgs: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        """Mix clips (N, ...) and distributions (N, classes) with a fresh weight."""
        weight = self.beta.sample().to(imgs)
        return (
            weight * imgs + (1 - weight) * imgs.flip(0),
            weight * label + (1 - weight) * label.flip(0),
        )
