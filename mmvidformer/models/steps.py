"""Steps of training and testing, as MMEngine's runner calls them."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from mmvidformer.catalog import MODELS


class StepModel(nn.Module):
    """A module with a preprocessor for its batches.

    ``forward`` takes what the preprocessor returns, and the ``mode``: ``'loss'`` returns losses by
    name, ``'predict'`` data samples.

    Args:
        data_preprocessor: Config of the preprocessor, or the module. Default: one that stacks
            clips.
    """

    def __init__(self, data_preprocessor: Mapping[str, Any] | nn.Module | None = None) -> None:
        super().__init__()
        if isinstance(data_preprocessor, nn.Module):
            self.data_preprocessor = data_preprocessor
        else:
            stacking = {"type": "mmvidformer.VideoDataPreprocessor"}
            self.data_preprocessor = MODELS.build(data_preprocessor or stacking)

    def train_step(self, data: Any, optim_wrapper: Any) -> dict[str, Tensor]:
        """Update the model with a batch; returns the losses that are logged."""
        with optim_wrapper.optim_context(self):
            data = self.data_preprocessor(data, True)
            losses = self._run_forward(data, mode="loss")
        loss, logged = self.parse_losses(losses)
        optim_wrapper.update_params(loss)
        return logged

    def val_step(self, data: Any) -> list:
        """Predict a batch."""
        return self._run_forward(self.data_preprocessor(data, False), mode="predict")

    test_step = val_step

    def _run_forward(self, data: Any, mode: str) -> Any:  # MMEngine's wrappers call it, too
        return self(**data, mode=mode) if isinstance(data, dict) else self(*data, mode=mode)

    def parse_losses(self, losses: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the sum of all values whose names have ``loss`` in them, and all that is logged.

        A list of tensors counts as the sum of their means.
        """
        means = {
            name: value.mean() if isinstance(value, Tensor) else sum(part.mean() for part in value)
            for name, value in losses.items()
        }
        loss: Any = sum(value for name, value in means.items() if "loss" in name)
        return loss, {"loss": loss, **means}

    def init_weights(self) -> None:
        """Draw the initial weights of all parts that have some."""
        for part in self.children():
            draw = getattr(part, "init_weights", None)
            if draw is not None:
                draw()
