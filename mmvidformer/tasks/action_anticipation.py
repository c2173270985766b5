"""Action anticipation: the verb, noun and action that come next."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from mmvidformer.errors import UserError
from mmvidformer.tasks.base import Task
from mmvidformer.tasks.prediction import Names


class ActionAnticipation(Task):
    """What comes next, after each frame of a video. ``finetune`` does not offer it."""

    name, head = "anticipation", "mmvidformer.AnticipationHead"
    part, has_windows = "steps", False
    is_about_future = True

    def parts(self, reader: Any, video: dict, options: dict[str, Any]) -> Iterator[tuple]:
        """Videos are read frame by frame."""
        raise UserError("a model of anticipation answers frame by frame")

    def output_names(self, head: nn.Module) -> list[str]:
        """Return the names of the outputs: verb, noun and action."""
        return [*head.tasks]

    def run_head(
        self, head: nn.Module, features: Any, ahead: int | None = None, **options: Any
    ) -> tuple[Tensor, ...]:
        """Map features to logits at the last frame.

        Args:
            head: The head.
            features: Outputs of the neck or the backbone.
            ahead: Number of time steps from there to the action. Default: the head's
                ``logged_time``.
            **options: Not used.
        """
        logits = head(features, ahead=[ahead or head.logged_time])
        return tuple(logits[task][:, -1] for task in head.tasks)

    def describe_outputs(self, head: nn.Module, names: Names) -> dict[str, dict[str, Any]]:
        """Describe the logits of each output."""
        scores = self.describe_scores(head)
        return {name: {**scores, "classes": list(names[name])} for name in head.tasks}
