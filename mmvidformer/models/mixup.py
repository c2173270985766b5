from collections.abc import Mapping

from torch import Tensor
from torch.distributions import Beta

from mmvidformer.catalog import MODELS
from mmvidformer.errors import UserError
from mmvidformer.layers.samples import Samples
from mmvidformer.models.heads import in_order, one_hot_tasks, stack_labels


@MODELS.add
class ReversedMixup:
    """Mix a batch of clips with the same batch in reverse order, with one weight per device.

    Mixup (Zhang et al. 2018) as in ViViT's official code, for one task or several. Labels become
    distributions; the head smooths them. For ``VideoDataPreprocessor(blending=...)``.

    Args:
        num_classes: Number of classes, or of the classes of each task by its name, in the order of
            the labels and of ``MultiTaskHead``.
        alpha: Both parameters of the Beta distribution of the weight.

    Raises:
        UserError: If ``alpha`` is not positive, or the tasks are not in alphabetical order.
    """

    def __init__(self, num_classes: int | Mapping[str, int], alpha: float = 0.3) -> None:
        if alpha <= 0:
            raise UserError(f"alpha of mixup must be positive, got {alpha}")
        single = isinstance(num_classes, int)
        self.tasks = {"class": num_classes} if single else in_order(num_classes)
        self.num_classes = sum(self.tasks.values())
        self.beta = Beta(alpha, alpha)

    def __call__(self, imgs: Tensor, batch_data_samples: Samples) -> tuple[Tensor, Samples]:
        """Mix a batch.

        Args:
            imgs: Clips (N, views, C, T, H, W), float.
            batch_data_samples: Samples whose ``gt_label`` holds one class per task.

        Returns:
            Mixed clips, and the samples with distributions (sum of classes) as labels.
        """
        labels = stack_labels(batch_data_samples, self.tasks).to(imgs.device)
        one_hot = one_hot_tasks(labels, self.tasks)
        imgs, soft = self.do_blending(imgs, one_hot.to(imgs.dtype))
        for sample, label in zip(batch_data_samples, soft, strict=True):
            sample.set_gt_label(label)
        return imgs, batch_data_samples

    def do_blending(self, imgs: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        """Mix clips (N, ...) and distributions (N, classes) with a new weight."""
        weight = self.beta.sample().to(imgs)
        return (
            weight * imgs + (1 - weight) * imgs.flip(0),
            weight * label + (1 - weight) * label.flip(0),
        )
