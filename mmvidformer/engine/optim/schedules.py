import math

from mmengine.optim import CosineAnnealingLR

from mmvidformer.registry import PARAM_SCHEDULERS


@PARAM_SCHEDULERS.register_module()
class WarmupCosineLR(CosineAnnealingLR):
    """A line up to a cosine that falls to 0, as scenic (ViViT) and SlowFast compute the rate.

    MMEngine's ``LinearLR`` cannot begin at 0 and ends a step earlier, and its
    ``CosineAnnealingLR`` cannot begin in the middle of a cosine.

    Args:
        optimizer: Optimizer or its wrapper.
        warmup: Length of the line, in steps (in epochs with ``convert_to_iter_based``). It ends at
            the value of the cosine there.
        end: Where the cosine is 0.
        cosine_begin: Where the cosine is 1: at the end of the line in scenic, at 0 in SlowFast.
        start_factor: Factor of the learning rate at the beginning of the line.
        **options: Other arguments of ``CosineAnnealingLR``.
    """

    def __init__(
        self,
        optimizer: object,
        *,
        warmup: int,
        end: int,
        cosine_begin: int,
        start_factor: float = 0.0,
        **options: object,
    ) -> None:
        self.warmup, self.cosine_begin, self.start_factor = warmup, cosine_begin, start_factor
        super().__init__(optimizer, end=end, **options)

    @classmethod
    def build_iter_from_epoch(
        cls, *args: object, warmup: float, cosine_begin: float, epoch_length: int, **options: object
    ) -> "WarmupCosineLR":
        """Build a schedule by steps from arguments in epochs."""
        options["warmup"] = int(warmup * epoch_length)
        options["cosine_begin"] = int(cosine_begin * epoch_length)
        return super().build_iter_from_epoch(*args, epoch_length=epoch_length, **options)

    def _get_value(self) -> list[float]:
        factor = self._factor(self.last_step)
        return [base * factor for base in self.base_values]

    def _factor(self, step: int) -> float:
        if step < self.warmup:
            top = self._factor(self.warmup)
            return self.start_factor + (top - self.start_factor) * step / self.warmup
        progress = (step - self.cosine_begin) / (self.end - self.cosine_begin)
        return (1 + math.cos(math.pi * progress)) / 2
