"""Classes of different sizes: weights of the loss, or draws of the videos."""

from collections.abc import Sequence

import numpy as np
import torch

from mmvidformer.engine.checkpointing.loop import ResumableSampler
from mmvidformer.registry import DATA_SAMPLERS


def class_weights(counts: Sequence[float] | np.ndarray) -> list[float]:
    """Return weights in inverse proportion to the sizes of classes, with mean 1 over the samples.

    Classes without samples get weight 1.
    """
    sizes = np.asarray(counts, dtype=float)
    mean = sizes.sum() / (sizes > 0).sum()
    return (mean / np.where(sizes > 0, sizes, mean)).round(6).tolist()


@DATA_SAMPLERS.register_module()
class BalancedSampler(ResumableSampler):
    """Draw videos with replacement so that all classes are about equally frequent.

    A video of several classes is drawn as often as its rarest class needs, one of none as often as
    the average video. Arguments are those of ``ResumableSampler``.
    """

    def order(self, generator: torch.Generator) -> torch.Tensor:
        """Draw the samples of an epoch, as many as there are."""
        weights = self.weights()
        return torch.multinomial(weights, len(weights), replacement=True, generator=generator)

    def weights(self) -> torch.Tensor:
        """Return how often each sample is drawn, relative to the others."""
        labels = [self.dataset.get_data_info(i)["label"] for i in range(len(self.dataset))]
        rows = [  # classes of each sample, whose label is a number or a vector of zeros and ones
            one.nonzero()[:, 0].numpy() if isinstance(one, torch.Tensor) else np.array([int(one)])
            for one in labels
        ]
        each = np.array(class_weights(np.bincount(np.concatenate(rows))))
        return torch.tensor([each[row].max() if len(row) else 1.0 for row in rows])
